#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The n-th allocation, open, read, write, sync, rename and thread start fails, for every n of a short run of each verb:
a defined exit code every time, and no file that is neither the old nor the new one. Of allocations from the same stack
of callers, which fail in the same code, the first is failed.

PLIMSOLL_FAULTS sets how many allocations of each verb are failed, evenly spaced among those, 0 for all; 60 if it is not
set, with PLIMSOLL_LONG all.
"""

import concurrent.futures
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hostile
from hostile import PATIENCE, ROOT, SMALL_PLAN

ALLOCATIONS = int(os.environ.get("PLIMSOLL_FAULTS", "0" if "PLIMSOLL_LONG" in os.environ else "60"))
OLD = "what was there\n"
RUN = ('framework = "telescope"\nmodel = "qwen3-1.7b"\ngpu = "h100"\ngpus = 8\ngroup_size = 8\n'
       "prompts_batch_size_for_trainer = 16\nprompt_mean = 200\ncompletion_mean = 500\nmax_tokens = 1000\n")
JOB = ('framework = "megatron-lm"\nmodel = "llama3.2-1b"\ngpu = "h100"\ngpus = 4\nseq_length = 1024\n'
       "micro_batch_size = 1\nglobal_batch_size = 8\npipeline_model_parallel_size = 2\nbf16 = true\n")
TIGHT = ('framework = "transformers"\nmodel = "llama3.2-1b"\ngpu = "h100"\ngpus = 1\nseq_length = 8192\n'
         "micro_batch_size = 16\nbf16 = true\n")
CAPTURE = ROOT / "tests/data/captures/gpt2-w32.capture"
SNAPSHOT = sorted((ROOT / "tests/data/snapshots").glob("*.pickle.gz"), key=lambda p: p.stat().st_size)[0]
LIST = '[[job]]\nname = "small"\nfiles = ["job.toml"]\n'
CONFIG = '{"model_type": "llama", "hidden_size": 64}\n'
LOG = "step 1\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"

VERBS = {
    "fit": ["fit", "job.toml"],
    "fit --json": ["fit", "job.toml", "--json"],
    "lint": ["lint", "job.toml"],
    "diff": ["diff", "job.toml", "other.toml"],
    "plan --svg": [*SMALL_PLAN, "--svg", "out.svg", "--force"],
    "plan --emit": [*SMALL_PLAN, "--emit", "transformers", "run", "--force"],
    "rl": ["rl", "run.toml", "--steps", "2"],
    "why": ["why", "run.log"],
    "replay": ["replay", str(SNAPSHOT)],
    "replay --chrome-trace": ["replay", str(SNAPSHOT), "--chrome-trace", "out.svg", "--force"],
    "score": ["score", "truth.json"],
    "models": ["models"],
    "gpus": ["gpus"],
    "keys": ["keys"],
    "help": ["help", "fit"],
    "read": ["read", "job.toml"],
    "diff of recordings": ["diff", str(SNAPSHOT), str(SNAPSHOT)],
    "why --slow": ["why", "--slow", "run.log"],
    "map --out": ["map", str(SNAPSHOT.parent), "--part", "1/40", "--out", "out.svg", "--force"],
    "learn --out": ["learn", str(ROOT / "tests/data/live/h200"), "--out", "out.svg", "--force"],
    "check": ["check", "list.toml"],
    "doctor": ["doctor"],
    "calibrate --out": ["calibrate", "--out", "out.svg", "--force"],
    "fit of a capture": ["fit", str(CAPTURE)],
    "capture": ["capture", "--config", "config.json", "--python", "./no-python", "--out", "out.svg"],
    "prove": ["prove", "job.toml", "--transformer-impl", "local", "--python", "./no-python"],
    "run": ["run", "--job", "job.toml", "--out", "run", "--", "sh", "-c", "echo the command ran; exit 7"],
    "run that cannot start": ["run", "--out", "run", "--", "./no-such-command"],
    "watch": ["watch", "--all", "--count", "1"],
    "merge --out": ["merge", "part.json", "--out", "out.svg", "--force"],
    "view --html": ["view", "job.toml", "--html", "out.svg", "--force"],
    "complete": ["complete", "--", "fit", "--gpu", "h1"],
    "man --into": ["man", "--into", "pages"],
    "rl --plan": ["rl", "run.toml", "--plan", "--steps", "2", "--gpus", "2", "--trainer-num-workers", "1",
                  "--inference-num-workers", "1",
                  "--max-concurrent-prompts-per-server", "5", "--seq-len", "4864", "--max-async-rollout", "2"],
    "why of a job": ["why", "run.log", "--job", "job.toml"],
    "plan --from": ["plan", "--from", "tight.toml"],
}


INPUTS = {"job.toml": JOB, "other.toml": JOB.replace("1024", "2048"), "tight.toml": TIGHT, "run.toml": RUN,
          "run.log": LOG, "config.json": CONFIG, "out.svg": OLD, "truth.json": '{"records": []}', "list.toml": LIST}


@functools.cache
def part():
    return subprocess.run([hostile.PROGRAM, "map", str(SNAPSHOT.parent), "--part", "1/40"], capture_output=True,
                          text=True, check=True).stdout


@functools.cache
def page():
    """A stand-in for the built page: view --html wants one."""
    folder = tempfile.TemporaryDirectory(prefix="plimsoll-page-")
    for name in ("index.html", "page.js", "page.css", "page.js.sha256"):
        (pathlib.Path(folder.name) / name).write_text("/* */\n")
    return folder


def prepare():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="plimsoll-faults-"))
    for name, text in INPUTS.items():
        (folder / name).write_text(text)
    (folder / "part.json").write_text(part())
    return folder


def run(words, fault):
    """(exit code, stderr, files that are there afterwards, content of the file that was asked for)"""
    folder = prepare()
    try:
        environment = {**os.environ, "LD_PRELOAD": FAULTS, "PLIMSOLL_FAULT": fault, "PLIMSOLL_PAGE": page().name,
                       "PLIMSOLL_FAULT_REPORT": str(folder / "calls")}
        done = subprocess.run([hostile.PROGRAM, *words], cwd=folder, env=environment, capture_output=True, text=True,
                              errors="replace", timeout=120 * PATIENCE)
        calls = {}
        if (folder / "calls").exists():
            for name, count in (line.split() for line in (folder / "calls").read_text().splitlines()):
                calls.setdefault(name, []).append(int(count))
        files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.name != "calls")
        return done, calls, files, (folder / "out.svg").read_text()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# What is kept of a command that ended, also where its start was not seen to fail.
RECORD = {"run", "run/run.json", "run/output.log", "run/samples.jsonl", "run/steps.log", "run/evidence.log",
          "run/job.toml"}


class Faults(unittest.TestCase):
    def examine(self, name, words):
        if hostile.SANITIZED:
            self.skipTest("a sanitizer brings its own allocator")
        whole, calls, files, written = run(words, "malloc:0")
        self.assertIn(whole.returncode, {7, 127} if words[0] == "run" else hostile.DEFINED, whole.stderr)
        self.assertTrue(calls, "the library was not loaded")
        before = sorted([*INPUTS, "part.json"])
        # What a run has left behind when its record could not be written is kept; nothing else may be there.
        keeps_a_record = words[0] == "run"
        faults = []
        stacks = sorted(calls.pop("stack"))
        step = max(1, len(stacks) // ALLOCATIONS) if ALLOCATIONS > 0 else 1
        faults += [f"malloc:{n}" for n in stacks[::step]]
        for kind, (count,) in calls.items():
            if kind != "malloc":
                faults += [f"{kind}:{n}" for n in range(1, count + 1)]

        def one(fault):
            done, _, left, content = run(words, fault)
            wrong = []
            if keeps_a_record and "the command ran" in done.stdout:
                if done.returncode != 7:
                    wrong.append(f"exit {done.returncode} instead of the command's: {done.stderr[-300:]}")
            elif done.returncode not in hostile.DEFINED | ({7, 126, 127} if keeps_a_record else set()):
                wrong.append(f"exit {done.returncode}: {done.stderr[-300:]}")
            if done.returncode in (3, 4) and not done.stderr.strip():
                wrong.append("no words")
            # A page whose panel was refused is whole and says so.
            says_so = "the page shows no " in done.stderr and content.endswith("</html>\n")
            if content not in (OLD, written) and not says_so:
                wrong.append(f"half a file of {len(content)} bytes")
            strange = set(left) - set(files) - RECORD if keeps_a_record else left not in (before, files)
            if strange and not fault.startswith("rename"):
                wrong.append(f"left behind: {sorted(set(left) - set(files))}")
            return [f"{name}, {fault}: {what}" for what in wrong]

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            broken = [what for result in pool.map(one, faults) for what in result]
        self.assertEqual(broken, [], f"{len(faults)} faults: " + "\n".join(broken))


def add(name, words):
    setattr(Faults, "test_" + name.replace(" ", "_").replace("--", ""), lambda self: self.examine(name, words))


for verb, command in VERBS.items():
    add(verb, command)

FAULTS = None
if __name__ == "__main__":
    if "--faults" in sys.argv:
        at = sys.argv.index("--faults")
        FAULTS = os.path.abspath(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    hostile.main()
