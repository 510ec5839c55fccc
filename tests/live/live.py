# SPDX-License-Identifier: Apache-2.0
"""What the tests of live runs share: a folder, the program, a stand-in for PyTorch, small training programs."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STUB = ROOT / "tests/data/live/stub"
PROGRAM = None
NVML = None

# Trains N steps; what an argument names goes wrong after them.
TRAIN = """
import os, sys, time
import torch
G = 1 << 30
optimizer = torch.optim.Optimizer()


def forward(size):
    torch.use(size)


def main():
    steps, trouble = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    torch.use(10 * G)
    for step in range(steps):
        forward(5 * G)
        torch.autograd.backward(lambda: torch.use(G))
        torch.drop(6 * G)
        optimizer.step()
        print("step", step, flush=True)
        time.sleep(0.01)
        if trouble == "leak":
            torch.use(G // 8)
        if trouble == "reset":
            torch.use(20 * G)
            torch.drop(20 * G)
            torch.cuda.reset_peak_memory_stats()
    if trouble == "forward":
        forward(100 * G)
    if trouble == "backward":
        torch.autograd.backward(lambda: torch.use(100 * G))
    if trouble == "caught":
        try:
            forward(100 * G)
        except torch.OutOfMemoryError:
            print("went on")
    if trouble == "exit":
        os._exit(int(sys.argv[3]))
    if trouble == "signal":
        os.kill(os.getpid(), int(sys.argv[3]))
    if trouble == "error":
        raise ValueError("not about memory")


main()
"""


class Live(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="plimsoll-live-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "train.py").write_text(TRAIN)

    def environment(self, **more):
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith(("PLIMSOLL_", "PYTHON", "RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_"))}
        environment["PYTHONPATH"] = str(STUB)
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        environment.update(more)
        return environment

    def plimsoll(self, *arguments, env=None, **options):
        return subprocess.run([PROGRAM, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              errors="replace", timeout=60, env=env or self.environment(), **options)

    def run_training(self, *words, flags=(), env=None, **options):
        return self.plimsoll("run", "--out", "r", *flags, "--", sys.executable, "train.py", *words, env=env, **options)

    def record(self, folder="r"):
        return json.loads((self.folder / folder / "run.json").read_text())

    def lines(self, name="rank-0.jsonl", folder="r"):
        return [json.loads(line) for line in (self.folder / folder / name).read_text().splitlines()]

    def events(self, kind, **where):
        return [line for line in self.lines(**where) if line["event"] == kind]


def main():
    global PROGRAM, NVML
    words = sys.argv[1:]
    while words and words[0] in ("--program", "--nvml"):
        if words[0] == "--program":
            PROGRAM = os.path.abspath(words[1])
        else:
            NVML = os.path.abspath(words[1])
        words = words[2:]
    unittest.main(module="__main__", argv=[sys.argv[0], *words])
