# SPDX-License-Identifier: Apache-2.0
"""Trains a few real steps of one rank of a job on one real GPU, for `plimsoll prove`.

python3 plimsoll_prove.py SPEC RESULT: SPEC is the job as JSON (src/live/proof.cpp writes it), RESULT gets what torch
counted. Weights and tokens are random; what memory does with them is not. One GPU runs the Trainer of Transformers; one
rank of many under FSDP2 runs over PyTorch's fake process group, whose messages return at once.
Exit code 0 measured, 4 something is missing here, 5 the device ran out of memory, 1 anything else.
"""

import contextlib
import json
import os
import sys
import time
import warnings


class Missing(Exception):
    pass


def demand(name):
    try:
        return __import__(name)
    except ImportError as error:
        raise Missing("%s is not installed for %s: %s" % (name, sys.executable, error)) from error


def model_config(spec):
    from transformers import AutoConfig
    config = dict(spec["config"])
    kind = config.pop("model_type")
    for key in ("torch_dtype", "dtype", "transformers_version"):
        config.pop(key, None)
    made = AutoConfig.for_model(kind, **config)
    made.use_cache = False
    return made


def make_model(spec, torch, device):
    from transformers import AutoModelForCausalLM
    dtype = getattr(torch, spec["weights"])
    with torch.device(device):
        try:
            return AutoModelForCausalLM.from_config(model_config(spec), dtype=dtype,
                                                    attn_implementation=spec["attention"])
        except TypeError:  # before Transformers 5
            return AutoModelForCausalLM.from_config(model_config(spec), torch_dtype=dtype,
                                                    attn_implementation=spec["attention"])


def adapt(spec, model):
    if not spec.get("lora_rank"):
        return model
    demand("peft")
    from peft import LoraConfig, get_peft_model
    model = get_peft_model(model, LoraConfig(r=spec["lora_rank"], lora_alpha=16, task_type="CAUSAL_LM",
                                             target_modules=spec["lora_targets"]))
    if spec["checkpointing"]:
        model.enable_input_require_grads()
    return model


class Meter:
    """Peaks of what torch counts, and the seconds of every step."""

    def __init__(self, torch):
        self.torch = torch
        self.steps = []
        self.begun = 0.0

    def begin(self):
        self.torch.cuda.synchronize()
        self.begun = time.monotonic()

    def end(self):
        self.torch.cuda.synchronize()
        cuda = self.torch.cuda
        self.steps.append({"seconds": time.monotonic() - self.begun, "allocated": cuda.memory_allocated(),
                           "peak_allocated": cuda.max_memory_allocated(), "peak_reserved": cuda.max_memory_reserved()})


def train_with_trainer(spec, torch, meter):
    import dataclasses
    from transformers import Trainer, TrainerCallback, TrainingArguments
    import transformers
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    model = adapt(spec, make_model(spec, torch, "cuda"))

    class Tokens(torch.utils.data.Dataset):
        def __len__(self):
            return 1 << 20

        def __getitem__(self, index):
            ids = torch.randint(0, spec["vocabulary"] - 1, (spec["seq_length"],))
            return {"input_ids": ids, "labels": ids.clone()}

    class Watch(TrainerCallback):
        def on_step_begin(self, *_, **__):
            meter.begin()

        def on_step_end(self, *_, **__):
            meter.end()

    known = {field.name for field in dataclasses.fields(TrainingArguments)}
    arguments = {key: value for key, value in spec["training_args"].items() if key in known}
    arguments.update(output_dir=spec["scratch"], max_steps=spec["steps"], report_to="none", save_strategy="no",
                     logging_strategy="no", disable_tqdm=True)
    arguments.pop("eval_strategy", None)
    Trainer(model=model, args=TrainingArguments(**arguments), train_dataset=Tokens(), callbacks=[Watch()]).train()
    return sum(parameter.numel() for parameter in model.parameters())


def layers_of(torch, model):
    """The list of layers: the module list that holds most parameters."""
    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    if not lists:
        raise Missing("the model has no list of layers to shard by")
    return max(lists, key=lambda module: sum(parameter.numel() for parameter in module.parameters()))


def train_with_fsdp2(spec, torch, meter):
    import torch.distributed as distributed
    try:
        from torch.testing._internal.distributed.fake_pg import FakeStore
        from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    except ImportError as error:
        raise Missing("this PyTorch has no FSDP2 or no fake process group: %s" % error) from error
    torch.cuda.set_device(0)
    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=spec["gpus"])
    model = make_model(spec, torch, "meta")
    settings = {"mp_policy": MixedPrecisionPolicy(param_dtype=getattr(torch, spec["compute"]),
                                                  reduce_dtype=getattr(torch, spec["reduce"])),
                "reshard_after_forward": spec["reshard_after_forward"]}
    if spec["cpu_offload"]:
        settings["offload_policy"] = CPUOffloadPolicy()
    for layer in layers_of(torch, model):
        fully_shard(layer, **settings)
    fully_shard(model, **settings)
    model.to_empty(device="cpu" if spec["cpu_offload"] else "cuda")
    for buffer in model.buffers():
        buffer.data = buffer.data.cuda()
    model.train()
    if spec["checkpointing"]:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    options = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False}}[spec["implementation"]]
    if spec["optimizer"] == "sgd":
        optimizer = torch.optim.SGD(parameters, lr=1e-4, momentum=0.9 if spec["momentum"] else 0.0, **options)
    else:
        optimizer = torch.optim.AdamW(parameters, lr=1e-4, **options)
    count = sum(parameter.numel() for parameter in model.parameters())
    for _ in range(spec["steps"]):
        meter.begin()
        for _ in range(spec["accumulation"]):
            ids = torch.randint(0, spec["vocabulary"] - 1, (spec["micro_batch"], spec["seq_length"]), device="cuda")
            with contextlib.nullcontext():
                loss = model(input_ids=ids, labels=ids).loss
            (loss / spec["accumulation"]).backward()
            del loss
        if spec["clip"]:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        meter.end()
    return count


def prove(spec):
    torch = demand("torch")
    if not torch.cuda.is_available():
        raise Missing("PyTorch sees no GPU")
    demand("transformers")
    result = {"schema": 1, "torch": str(torch.__version__), "transformers": demand("transformers").__version__,
              "device": torch.cuda.get_device_name(0)}
    torch.empty(1, device="cuda")
    result["total"] = torch.cuda.mem_get_info()[1]
    meter = Meter(torch)
    train = {"trainer": train_with_trainer, "fsdp2": train_with_fsdp2}[spec["program"]]
    try:
        result["parameters"] = train(spec, torch, meter)
    except torch.OutOfMemoryError as error:
        result["out_of_memory"] = str(error)[:1000]
    stats = torch.cuda.memory_stats()
    result.update(steps=meter.steps, peak_allocated=stats["allocated_bytes.all.peak"],
                  peak_reserved=stats["reserved_bytes.all.peak"], retries=stats["num_alloc_retries"])
    free, total = torch.cuda.mem_get_info()
    result["outside"] = total - free - torch.cuda.memory_reserved()
    return result


def main():
    warnings.filterwarnings("ignore")
    with open(sys.argv[1]) as file:
        spec = json.load(file)
    os.dup2(2, 1)  # standard output belongs to the answer; the Trainer prints there
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        result = prove(spec)
    except Missing as error:
        print("plimsoll prove: %s" % error, file=sys.stderr)
        return 4
    with open(sys.argv[2], "w") as file:
        json.dump(result, file)
    return 5 if "out_of_memory" in result else 0


if __name__ == "__main__":
    sys.exit(main())
