# SPDX-License-Identifier: Apache-2.0
"""Live objects of the frameworks, played by stand-ins that hold what the real ones hold."""
import argparse
import contextlib
import dataclasses
import enum
import importlib
import io
import json
import os
import sys
import types
import unittest
from unittest import mock

import plimsoll as pl
from support import EXAMPLES

CONFIG = json.loads((EXAMPLES / "transformers" / "config.json").read_text())
ARGUMENTS = json.loads((EXAMPLES / "transformers" / "training_args.json").read_text())
ZERO3 = json.loads((EXAMPLES / "transformers" / "ds_zero3.json").read_text())
ON = {"gpu": "h100-sxm-80gb", "gpus": 8}


class Optim(enum.Enum):
    ADAMW = "adamw_torch"


class PretrainedConfig:
    def to_dict(self):
        return {**CONFIG, "torch_dtype": "bfloat16", "transformers_version": "5.17.0"}


class TrainingArguments:
    def __init__(self, **more):
        self.values = {**ARGUMENTS, "optim": Optim.ADAMW, "deepspeed": None, **more}

    def to_dict(self):
        return self.values


class Lines(list):
    """What was said, line by line."""
    __call__ = list.append


@contextlib.contextmanager
def stand_in(name, **members):
    """A module of that name with these members, for as long as it takes."""
    module = types.ModuleType(name)
    vars(module).update(members)
    with mock.patch.dict(sys.modules, {name: module}):
        yield module


def fresh_callbacks():
    """plimsoll.callbacks as it is made beside the frameworks that are there now."""
    sys.modules.pop("plimsoll.callbacks", None)
    return importlib.import_module("plimsoll.callbacks")


def used(*sources, **keys):
    return pl.fit(pl.read(*sources, **keys)).worst.device_used


class Transformers(unittest.TestCase):
    def test_objects_say_what_their_files_say(self):
        folder = EXAMPLES / "transformers"
        files = used(folder / "config.json", folder / "training_args.json", folder / "ds_zero3.json", **ON)
        self.assertEqual(used(PretrainedConfig(), TrainingArguments(), ZERO3, **ON), files)

    def test_a_path_beside_an_object(self):
        path = EXAMPLES / "transformers" / "config.json"
        self.assertEqual(used(path, TrainingArguments(), gpu="h200-sxm-141gb", gpus=1),
                         used(PretrainedConfig(), TrainingArguments(), gpu="h200-sxm-141gb", gpus=1))

    def test_the_name_of_a_model_beside_an_object(self):
        self.assertGreater(used("llama3-8b", TrainingArguments(), gpu="h200-sxm-141gb", gpus=1), 2**30)


class Megatron(unittest.TestCase):
    def test_a_namespace_of_arguments(self):
        args = argparse.Namespace(
            num_layers=32, hidden_size=4096, ffn_hidden_size=14336, num_attention_heads=32, group_query_attention=True,
            num_query_groups=8, seq_length=4096, max_position_embeddings=4096, micro_batch_size=1,
            global_batch_size=16, tensor_model_parallel_size=2, pipeline_model_parallel_size=1, bf16=True, swiglu=True,
            normalization="RMSNorm", use_distributed_optimizer=True, untie_embeddings_and_output_weights=True,
            add_bias_linear=False, position_embedding_type="rope", padded_vocab_size=128256, vocab_size=128256,
            make_vocab_size_divisible_by=128, recompute_granularity=None, transformer_impl="local", world_size=8)
        answer = pl.fit(pl.read(args, gpu="h100-sxm-80gb", gpus=8))
        self.assertEqual(answer.job.framework, "megatron-lm")
        self.assertEqual(answer.job.tensor_model_parallel_size, 2)

    def test_arguments_that_megatron_has_checked(self):
        """What validate_args adds and copies, and defaults that are spelled out, say nothing new (Megatron-LM d98e8a6)."""
        backend = enum.Enum("AttnBackend", "flash fused unfused local auto")
        given = dict(
            num_layers=32, hidden_size=4096, ffn_hidden_size=14336, num_attention_heads=32, group_query_attention=True,
            num_query_groups=8, seq_length=4096, max_position_embeddings=4096, micro_batch_size=1, global_batch_size=16,
            tensor_model_parallel_size=2, bf16=True, swiglu=True, normalization="RMSNorm", sequence_parallel=True,
            use_distributed_optimizer=True, untie_embeddings_and_output_weights=True, add_bias_linear=False,
            position_embedding_type="rope", transformer_impl="local")
        added = dict(
            pipeline_model_parallel_size=1, virtual_pipeline_model_parallel_size=None, data_parallel_size=4, rank=0,
            world_size=8, encoder_seq_length=4096, tensor_parallel_num_weight_shards=2, expert_tensor_parallel_size=2,
            expert_tensor_parallel_num_weight_shards=2, attention_backend=backend.auto, fp8=None, fp8_recipe="delayed",
            ddp_param_name_patterns_for_fp32_local_accumulation=[], accumulate_allreduce_grads_in_fp32=True,
            params_dtype="torch.bfloat16", tokenizer_type="HuggingFaceTokenizer", vocab_size=None,
            padded_vocab_size=128256)
        checked = pl.fit(pl.read(argparse.Namespace(**given, **added), gpu="h100-sxm-80gb"))
        said = pl.fit(pl.read(argparse.Namespace(**given, vocab_size=128255, tokenizer_type="NullTokenizer"),
                              gpu="h100-sxm-80gb", gpus=8))
        self.assertEqual(checked.warnings, [])
        self.assertEqual([row.bytes for row in checked.worst.table], [row.bytes for row in said.worst.table])
        chunks = dict(given, pipeline_model_parallel_size=2, num_layers_per_virtual_pipeline_stage=4)
        job = pl.read(argparse.Namespace(**{**added, **chunks, "virtual_pipeline_model_parallel_size": 4}), gpu="h100")
        self.assertEqual(pl.fit(job).job.virtual_pipeline_model_parallel_size, 4)


@dataclasses.dataclass
class Training:
    local_batch_size: int = 1
    seq_len: int = 4096
    steps: int = 10


@dataclasses.dataclass
class Parallelism:
    data_parallel_shard_degree: int = -1
    tensor_parallel_degree: int = 1


@dataclasses.dataclass
class Model:
    name: str = "llama3"
    flavor: str = "8B"


@dataclasses.dataclass
class JobConfig:
    model: Model = dataclasses.field(default_factory=Model)
    training: Training = dataclasses.field(default_factory=Training)
    parallelism: Parallelism = dataclasses.field(default_factory=Parallelism)


class Torchtitan(unittest.TestCase):
    def test_a_configuration_of_dataclasses(self):
        answer = pl.fit(pl.read(JobConfig(), **ON))
        self.assertEqual(answer.job.framework, "torchtitan")
        self.assertEqual(answer.job.seq_length, 4096)


class Dictionaries(unittest.TestCase):
    def test_of_our_own_keys(self):
        keys = {"model": "llama3-8b", "seq_length": 4096, "micro_batch_size": 1, "bf16": True, **ON,
                "framework": "fsdp2"}
        self.assertEqual(used(keys), used(**keys))

    def test_that_say_nothing_are_refused_with_words(self):
        with self.assertRaises(pl.InputError) as caught:
            pl.read({"lerning_rate": 1})
        self.assertIn("not recognised", str(caught.exception))
        with self.assertRaises(pl.InputError):
            pl.read(object())


class Callbacks(unittest.TestCase):
    def test_print_the_prediction_and_survive_everything(self):
        from plimsoll import callbacks
        said = []
        watch = callbacks.Watch(say=said.append, **ON)
        watch.predict(PretrainedConfig(), TrainingArguments())
        self.assertIn("predicted", said[0])
        for _ in range(2):
            watch.step_begins()
            watch.step_ends()
        self.assertIn("nothing to compare", said[-1])
        callbacks.Watch(job="no-such-file.toml", say=said.append).predict()
        self.assertIn("no prediction", said[-1])

    def test_compare_with_the_counters_of_a_device(self):
        from plimsoll import callbacks
        waited = []
        cuda = types.SimpleNamespace(
            is_available=lambda: True, max_memory_allocated=lambda: 10 * 2**30, max_memory_reserved=lambda: 11 * 2**30,
            current_device=lambda: 0, synchronize=lambda: waited.append(1),
            get_device_properties=lambda device: types.SimpleNamespace(total_memory=150_000_000_000))
        sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)
        self.addCleanup(sys.modules.pop, "torch")
        said = []
        watch = callbacks.Watch(say=said.append, gpus=1)
        watch.predict(PretrainedConfig(), TrainingArguments())
        for _ in range(2):
            watch.step_begins()
            watch.step_ends()
        self.assertTrue(any("after two steps 10.00 GiB allocated" in line for line in said), said)
        self.assertIn("the second step took", said[-1])
        self.assertEqual(len(waited), 2)

    def test_one_process_of_all_speaks(self):
        from plimsoll import callbacks
        for rank, words in (("0", "plimsoll: predicted"), ("3", "")):
            heard = io.StringIO()
            with mock.patch.dict(os.environ, RANK=rank), contextlib.redirect_stderr(heard):
                callbacks.Watch(**ON).predict(PretrainedConfig(), TrainingArguments())
            self.assertTrue(heard.getvalue().startswith(words) and bool(heard.getvalue()) == bool(words), heard)

    def test_the_trainer_predicts_first_and_compares_after_the_second_step(self):
        with stand_in("transformers", TrainerCallback=type("TrainerCallback", (), {})) as base:
            callback = fresh_callbacks().TrainerCallback(say=None, **ON)
            self.assertIsInstance(callback, base.TrainerCallback)
        said = callback.watch.say = Lines()
        callback.on_train_begin(TrainingArguments(), None, None, model=types.SimpleNamespace(config=PretrainedConfig()))
        heard = []
        for _ in range(3):
            callback.on_step_begin(None, None, None)
            callback.on_step_end(None, None, None)
            heard.append(len(said))
        self.assertEqual(heard, [1, 2, 2])

    def test_the_trainer_needs_no_keys_where_the_data_are_cut_to_one_length(self):
        cuda = types.SimpleNamespace(
            is_available=lambda: True, current_device=lambda: 0, get_device_name=lambda device: "NVIDIA GeForce RTX 4090",
            get_device_properties=lambda device: types.SimpleNamespace(total_memory=25_350_373_376))
        sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)
        self.addCleanup(sys.modules.pop, "torch")
        arguments = types.SimpleNamespace(to_dict=lambda: {"per_device_train_batch_size": 1, "bf16": True,
                                                           "gradient_checkpointing": True})
        model = types.SimpleNamespace(config=PretrainedConfig())
        for lengths, words in (([512] * 9, "predicted "), ([512, 300], "no prediction: the sequence length is not known")):
            callback = pl.callbacks.TrainerCallback()
            said = callback.watch.say = Lines()
            data = [{"input_ids": [0] * length} for length in lengths]
            callback.on_train_begin(arguments, None, None, model=model, train_dataloader=types.SimpleNamespace(dataset=data))
            self.assertIn(words, said[0])
        self.assertEqual(callback.watch.keys, {})

    def test_lightning_counts_updates_not_batches(self):
        base = type("Callback", (), {})
        with stand_in("lightning", pytorch=None), stand_in("lightning.pytorch", Callback=base):
            callback = fresh_callbacks().LightningCallback({"model": "llama3-8b", "framework": "fsdp2",
                                                             "seq_length": 4096, **ON})
            self.assertIsInstance(callback, base)
        said = callback.watch.say = Lines()
        trainer = types.SimpleNamespace(global_step=7)  # resumed
        callback.on_train_start(trainer, None)
        heard = []
        for batch in range(8):
            callback.on_train_batch_start(trainer, None, None, batch)
            trainer.global_step += batch % 4 == 3  # four batches are accumulated
            callback.on_train_batch_end(trainer, None, None, None, batch)
            heard.append(len(said))
        self.assertEqual(heard, [1] * 7 + [2])

    def test_need_no_framework_to_be_imported(self):
        from plimsoll import callbacks
        callback = callbacks.TrainerCallback(**ON)
        callback.on_train_begin(TrainingArguments(), None, None,
                                model=types.SimpleNamespace(config=PretrainedConfig()))
        self.assertIsNotNone(callback.watch.prediction)


class Testing(unittest.TestCase):
    def test_assert_fits(self):
        keys = {"model": "llama3-8b", "seq_length": 4096, "micro_batch_size": 1, "bf16": True, "framework": "fsdp2"}
        self.assertTrue(pl.assert_fits(keys, gpu="h200-sxm-141gb", gpus=8))
        with self.assertRaises(AssertionError) as caught:
            pl.assert_fits(keys, gpu="rtx4090-24gb", gpus=1)
        self.assertIn("does not fit", str(caught.exception))

    def test_the_plugin_hands_it_to_tests(self):
        sys.modules["pytest"] = types.SimpleNamespace(fixture=lambda function: function)
        self.addCleanup(sys.modules.pop, "pytest")
        from plimsoll import pytest_plugin
        self.assertIs(pytest_plugin.assert_fits(), pytest_plugin._assert_fits)


if __name__ == "__main__":
    unittest.main()
