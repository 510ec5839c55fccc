# SPDX-License-Identifier: Apache-2.0
"""The hook inside a real PyTorch on the CPU: Debian's python3-torch (1.13 in Debian 12), or the Python that
PLIMSOLL_TORCH names. Without one these tests are skipped; the stand-in of the other tests has the same names."""

import os
import subprocess
import unittest

import live

TRAIN = """
import sys, torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
data = torch.utils.data.TensorDataset(torch.randn(400, 64), torch.randint(0, 8, (400,)))
for inputs, labels in torch.utils.data.DataLoader(data, batch_size=40, num_workers=int(sys.argv[1])):
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item().hex(), flush=True)
if len(sys.argv) > 2:
    raise ValueError(sys.argv[2])
"""

CALLS = """
import time, torch
optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
optimizer.step()
least = 1.0
for _ in range(20):
    begin = time.perf_counter()
    for _ in range(1000):
        optimizer.step()
    least = min(least, (time.perf_counter() - begin) / 1000)
print(least)
"""


def python_with_torch():
    for python in (os.environ.get("PLIMSOLL_TORCH"), "/usr/bin/python3"):
        if python and subprocess.run([python, "-c", "import torch.optim"], capture_output=True, check=False).returncode == 0:
            return python
    return None


PYTHON = python_with_torch()


@unittest.skipUnless(PYTHON, "no PyTorch here: apt install python3-torch, or PLIMSOLL_TORCH=python")
class RealTorch(live.Live):
    def setUp(self):
        super().setUp()
        (self.folder / "real.py").write_text(TRAIN)
        self.env = self.environment()
        del self.env["PYTHONPATH"]  # of the stand-in

    def train(self, *words, flags=("--out", "r")):
        return self.plimsoll("run", *flags, "--", PYTHON, "real.py", *words, env=self.env)

    def test_every_bit_of_the_training_is_the_same(self):
        alone = subprocess.run([PYTHON, "real.py", "0"], cwd=self.folder, capture_output=True, text=True, env=self.env,
                               check=True)
        self.assertEqual(self.train("0").stdout, alone.stdout)
        self.assertEqual(len(alone.stdout.splitlines()), 10)

    def test_steps_and_their_seconds_are_written(self):
        self.train("0")
        steps = self.events("step")
        self.assertEqual([step["n"] for step in steps], list(range(1, 11)))
        self.assertTrue(all(step["seconds"] >= step["backward"] + step["optimizer"] > 0 for step in steps[1:]))
        begin = self.events("begin")[0]
        self.assertNotIn("device", begin)
        self.assertEqual(self.record()["ranks"][0]["steps"], 10)

    def test_workers_of_the_loader_are_no_ranks(self):
        self.train("2")
        self.assertEqual([path.name for path in (self.folder / "r").glob("rank-*")], ["rank-0.jsonl"])
        self.assertEqual(len(self.events("step")), 10)

    def test_an_error_stays_the_trainings_own(self):
        done = self.train("0", "not about memory")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ValueError: not about memory", done.stderr)
        self.assertEqual(self.events("error")[0]["message"], "not about memory")

    def test_the_calls_of_a_step_are_short(self):
        """A step of an optimizer that has nothing to do, with the hook and without."""
        (self.folder / "calls.py").write_text(CALLS)
        alone, followed = [
            float(self.plimsoll("run", "-q", "--out", name, *flags, "--", PYTHON, "calls.py", env=self.env).stdout)
            for name, flags in (("alone", ("--no-hook",)), ("followed", ()))]
        self.assertEqual(self.events("step", folder="followed")[0]["n"], 1)
        self.assertLess(followed - alone, 50e-6)  # half a percent of a step of 10 ms; 3 to 9 us where it was written

    def test_a_proof_wants_a_gpu_and_says_so(self):
        job = live.ROOT / "tests/data/live/h200/fit-fsdp2-8/job.toml"
        done = self.plimsoll("prove", job, "--python", PYTHON, env=self.env)
        if "has no FSDP2" in done.stderr or "sees no GPU" in done.stderr:
            self.assertEqual(done.returncode, 4)
        else:
            self.skipTest("a GPU is here")


if __name__ == "__main__":
    live.main()
