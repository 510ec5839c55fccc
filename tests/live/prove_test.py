# SPDX-License-Identifier: Apache-2.0
"""plimsoll prove without a GPU: the command gets a Python whose PyTorch is a stand-in that counts what an H200 counted
for the recorded kinds (tests/data/live/proofs), and programs of a stand-in for torchtitan that keeps to its interface."""

import json
import os
import sys

import live

PROOFS = live.ROOT / "tests/data/live/proofs"

# In place of Python with PyTorch: leaves the program alone and answers with what was measured once.
RECORDED = """#!{python}
import json, sys
spec = json.load(open(sys.argv[3]))
json.dump(spec, open({kept!r}, "w"))
json.dump(json.load(open({answer!r})), open(sys.argv[4], "w"))
sys.exit({code})
"""


class Prove(live.Live):
    def python_that_answers(self, peaks, code=0, **more):
        """A file for --python that writes these peaks; what it was asked is kept in spec.json."""
        answer = {"schema": 1, "device": "NVIDIA H200", "torch": "2.11.0", "total": 150109880320, "outside": 0,
                  "peak_allocated": peaks[0], "peak_reserved": peaks[1],
                  "steps": [{"seconds": 0.1}] * 5, **more}
        (self.folder / "answer.json").write_text(json.dumps(answer))
        path = self.folder / "python-recorded"
        path.write_text(RECORDED.format(python=sys.executable, kept=str(self.folder / "spec.json"),
                                        answer=str(self.folder / "answer.json"), code=code))
        path.chmod(0o755)
        return path

    def recorded(self, name):
        proof = json.loads((PROOFS / f"{name}.json").read_text())
        (self.folder / "job.toml").write_text(proof["job"])
        rank = ("--rank", f"pp={proof['pp_rank']}") if proof["pp_rank"] else ()
        return self.python_that_answers([proof[key]["measured"] for key in ("peak_allocated", "peak_reserved")]), rank

    def test_what_was_recorded_proves_its_own_job(self):
        for name in ("llama", "fsdp8", "fsdp64-ckpt", "megatron-one-gpu", "megatron-tp2-pp2-last", "qwen-accumulate"):
            with self.subTest(name):
                python, rank = self.recorded(name)
                done = self.plimsoll("prove", "job.toml", *rank, "--python", python)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("proven: 5 steps on NVIDIA H200", done.stdout)

    def test_recorded_peaks_of_torchtitan_and_of_overlapped_messages_are_met(self):
        # titan-64-every-second, titan-tp2-full, titan-tp4-ops, megatron-overlap-vpp3-third, -vpp3-third-full, -pp4-last,
        # -pp4-last-none, -pp4-first-tp1, -pp2-last-h3072, -one-gpu-h1024 and -tp2-pp2-first-none were blind: measured,
        # and not looked at, before what they test was written.
        names = sorted(path.stem for path in PROOFS.glob("titan-*.json")) + sorted(
            path.stem for path in PROOFS.glob("megatron-*.json"))
        self.assertEqual(len(names), 24)
        exact = 0
        for name in names:
            with self.subTest(name):
                python, rank = self.recorded(name)
                done = self.plimsoll("prove", "job.toml", *rank, "--python", python, "--json")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                reserved = json.loads(done.stdout)["peak_reserved"]
                exact += reserved["predicted"] == reserved["measured"]
        self.assertGreaterEqual(exact, 20, "reserved memory to the byte")

    def test_one_wrong_knob_is_noticed(self):
        knobs = {"fsdp8": [("--micro-batch-size", "3"), ("--seq-length", "1152"), ("--gradient-checkpointing", "true"),
                           ("--gpus", "16"), ("--reshard-after-forward", "false"), ("--optimizer", "sgd"),
                           ("--compute-dtype", "float32")],
                 "llama": [("--micro-batch-size", "5"), ("--gradient-checkpointing", "true"), ("--seq-length", "2176")],
                 "megatron-one-gpu": [("--micro-batch-size", "1"), ("--grad-reduce-in-fp32", "false"),
                                      ("--num-layers", "9"), ("--attention-backend", "unfused"),
                                      ("--recompute-granularity", "full", "--recompute-method", "uniform",
                                       "--recompute-num-layers", "1")]}
        for name, changes in knobs.items():
            python, rank = self.recorded(name)
            for change in changes:
                with self.subTest(f"{name} {change}"):
                    done = self.plimsoll("prove", "job.toml", *rank, *change, "--python", python, "--json")
                    self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                    self.assertFalse(json.loads(done.stdout)["holds"])

    def test_a_proof_that_ran_out_says_so(self):
        self.recorded("fsdp8")
        python = self.python_that_answers([150 << 30, 150 << 30], code=5, out_of_memory="CUDA out of memory. Tried")
        done = self.plimsoll("prove", "job.toml", "--python", python)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ran out of memory after 5 steps", done.stdout)

    def test_a_program_that_fails_proves_nothing(self):
        self.recorded("fsdp8")
        for code, expected in ((4, 4), (1, 3)):
            python = self.python_that_answers([1, 1], code=code)
            self.assertEqual(self.plimsoll("prove", "job.toml", "--python", python).returncode, expected)


# torchtitan 0.2 as far as its interface goes: the reader of a TOML file, the parts of a model by its name, a trainer
# that builds them, trains and logs. Its trainer holds what the configuration says in a PyTorch that only counts.
TITAN = {
    "torchtitan/__init__.py": "",
    "torchtitan/config.py": """
import tomllib, types
class ConfigManager:
    def parse_args(self, args):
        assert args[0] == "--job.config_file", args
        told = tomllib.load(open(args[1], "rb"))
        config = types.SimpleNamespace(**{name: types.SimpleNamespace(**values) for name, values in told.items()})
        for name in ("job", "checkpoint", "validation", "comm"):
            if not hasattr(config, name):
                setattr(config, name, types.SimpleNamespace(enable=True, mode="default", dump_folder=""))
        return config
""",
    "torchtitan/distributed/__init__.py": "",
    "torchtitan/distributed/utils.py": """
def init_distributed(comm, **options):
    raise AssertionError("would start NCCL")
""",
    "torchtitan/protocols/__init__.py": "",
    "torchtitan/protocols/train_spec.py": """
import types
def get_train_spec(name):
    def missing(*a, **k):
        raise AssertionError("would want a tokenizer, a data set or weights")
    return types.SimpleNamespace(name=name, build_tokenizer_fn=missing, build_dataloader_fn=missing,
                                 state_dict_adapter=missing)
""",
    "torchtitan/train.py": """
import torch
import torchtitan.protocols.train_spec as train_spec_module
from torchtitan.distributed import utils as dist_utils
class Trainer:
    def __init__(self, job_config):
        self.job_config = job_config
        self.world = dist_utils.init_distributed(job_config.comm)
        spec = train_spec_module.get_train_spec(job_config.model.name)
        assert spec.build_tokenizer_fn is None and spec.state_dict_adapter is None
        assert not job_config.checkpoint.enable and not job_config.validation.enable
        self.dataloader = spec.build_dataloader_fn(dp_world_size=1, dp_rank=0, tokenizer=None, job_config=job_config)
        torch.use(FIXED)
        self.model_parts = []
    def train_step(self, data_iterator):
        inputs, labels = next(data_iterator)
        assert inputs["input"].shape == labels.shape == (self.job_config.training.local_batch_size,
                                                         self.job_config.training.seq_len)
        torch.use(WORKING)
        torch.drop(WORKING)
        torch.cuda.reset_peak_memory_stats()
    def train(self):
        iterator = iter(self.dataloader)
        for self.step in range(self.job_config.training.steps):
            self.train_step(iterator)
""",
}

# What the stand-in for PyTorch of these tests has not: the few calls of the program itself.
MORE_TORCH = """
def empty(*a, **k): cuda._lazy_init()
class _Tokens:
    def __init__(self, shape): self.shape = shape
    def __getitem__(self, key):
        rows, columns = self.shape
        return _Tokens((rows, columns - 1))
    def contiguous(self): return self
def randint(low, high, shape, **k):
    assert 0 <= low < high
    return _Tokens(shape)
cuda.is_available = lambda: True
cuda.get_device_name = lambda device=None: "Stub GPU"
cuda.set_device = lambda device: None
cuda.synchronize = lambda: None
cuda.memory_allocated = lambda: State.allocated
cuda.memory_reserved = lambda: State.reserved
cuda.max_memory_allocated = lambda: State.peak_allocated
cuda.max_memory_reserved = lambda: State.peak_reserved
cuda.memory_stats = lambda: {"allocated_bytes.all.peak": State.peak_allocated,
                             "reserved_bytes.all.peak": State.peak_reserved, "num_alloc_retries": 0}
"""
FAKE_GROUP = """
class FakeStore: pass
"""
DISTRIBUTED = """
ranks = []
def init_process_group(backend, store=None, rank=0, world_size=1):
    assert backend == "fake"
    ranks.append((rank, world_size))
"""


class Titan(live.Live):
    def setUp(self):
        super().setUp()
        import shutil
        self.modules = self.folder / "modules"
        shutil.copytree(live.STUB, self.modules)
        with open(self.modules / "torch/__init__.py", "a") as file:
            file.write(MORE_TORCH)
        for name, text in {"torch/distributed.py": DISTRIBUTED, "torch/testing/__init__.py": "",
                           "torch/testing/_internal/__init__.py": "",
                           "torch/testing/_internal/distributed/__init__.py": "",
                           "torch/testing/_internal/distributed/fake_pg.py": FAKE_GROUP}.items():
            (self.modules / name).parent.mkdir(parents=True, exist_ok=True)
            (self.modules / name).write_text(text)
        (self.folder / "job.toml").write_text(
            'framework = "torchtitan"\nmodel = "llama3-8b"\ngpu = "h200"\ngpus = 8\nseq_length = 4096\n'
            'micro_batch_size = 1\nrecompute_granularity = "full"\nrecompute_every_nth_layer = 0\n')

    def install_titan(self, working):
        """Its trainer holds 1 GiB between steps and `working` bytes within one."""
        for name, text in TITAN.items():
            (self.modules / name).parent.mkdir(parents=True, exist_ok=True)
            (self.modules / name).write_text(text.replace("FIXED", str(1 << 30)).replace("WORKING", str(working)))

    def prove(self, *flags):
        return self.plimsoll("prove", "job.toml", "--python", sys.executable, *flags,
                             env=self.environment(PYTHONPATH=str(self.modules)))

    def predicted(self, key):
        fit = json.loads(self.plimsoll("fit", "job.toml", "--json").stdout)
        return fit["ranks"][0][key]

    def test_its_own_trainer_runs_the_job(self):
        self.install_titan(2 << 30)
        done = self.prove("--json", "--steps", "4")
        self.assertEqual(done.returncode, 1, done.stderr)  # the stand-in holds 3 GiB, the job far more
        proof = json.loads(done.stdout)
        self.assertEqual(proof["steps"], 4)
        # The trainer resets its counters at every log line; the proof keeps them.
        self.assertEqual(proof["peak_allocated"]["measured"], 3 << 30)
        self.assertEqual(proof["device"], "Stub GPU")

    def test_the_right_bytes_prove_it_and_narrow_the_interval(self):
        allocated, reserved = self.predicted("peak_allocated_bytes"), self.predicted("peak_reserved_bytes")
        self.install_titan(allocated - (1 << 30))
        with open(self.modules / "torch/__init__.py", "a") as file:  # the cache of a real allocator
            file.write(f"_use = use\ndef use(size):\n    _use(size)\n    State.reserved = State.peak_reserved = {reserved}\n")
        done = self.prove("--out", "proof.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        width = []
        for flags in ((), ("--proof", "proof.json")):
            interval = json.loads(self.plimsoll("fit", "job.toml", "--json", *flags).stdout)["ranks"][0]["interval"]
            width.append(interval["high_bytes"] - interval["low_bytes"])
        self.assertLess(width[1], width[0])

    def test_its_absence_is_said(self):
        done = self.prove()
        self.assertEqual(done.returncode, 4)
        self.assertIn("torchtitan is not installed", done.stderr)

    def test_another_release_is_said(self):
        self.install_titan(1)
        os.remove(self.modules / "torchtitan/train.py")
        done = self.prove()
        self.assertEqual(done.returncode, 4)
        self.assertIn("not with the trainer of its TOML form", done.stderr)

    def test_what_its_program_cannot_run_is_refused(self):
        for flags in (("--context-parallel-size", "2"), ("--torch-compile", "true")):
            done = self.prove(*flags)
            self.assertEqual(done.returncode, 4, flags)
            self.assertIn("cannot be proven here", done.stderr)


if __name__ == "__main__":
    live.main()
