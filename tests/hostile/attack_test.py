#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Thousands of runs of the program on damaged files, hostile names and extreme flags.

    tests/hostile/attack_test.py --program build/release/src/plimsoll [--runs 2000] [--seed 1] [--jobs 2]

Whatever the input, a run has a defined exit code, ends in 20 seconds, stays within its memory, writes words where it
refuses, JSON where JSON was asked for, nothing that a terminal would obey, and touches no file but its own. What does
not hold is printed with its seed; --only SEED runs that one again and leaves its folder.
"""

import argparse
import collections
import hashlib
import json
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import damage
import hostile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFINED = {0, 1, 2, 3, 4}
LONGEST_WORD = 100_000  # the kernel takes no word of 128 KiB
SECONDS = 20
BASE_BYTES = 64 << 20
# A search or a simulation keeps points and events of its own, whatever the file: budgets, not sizes, bound these.
WORKING_BYTES = {"plan": 512 << 20, "fit": 384 << 20, "rl": 512 << 20, "check": 384 << 20, "diff": 384 << 20,
                 "why": 384 << 20, "score": 384 << 20}
# What a terminal obeys: controls but tab and newline, DEL and the C1 set.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
NAMES = ["in put.yaml", "-rf", "a\nb.json", "\x1b[31mred.toml", "x" * 240, "job.sh", "run.log", "snapshot.pickle",
         "config.json", "args.bin", "run.py", "\u202egnp.yaml", "a;touch pwned;.sh", "$(touch pwned).yaml", "r.log.gz"]
GPUS = ["h100", "h200", "b200", "gb200", "a100", "v100", "rtx4090", "mi300x", "tpu-v5p", "h10", "", "0", "x" * 5000]
MODELS = ["llama3-8b", "deepseek-v3", "gpt2", "mixtral-8x7b", "qwen3-30b-a3b", "meta-llama/Llama-3.1-70B", "kimi-k2",
          "nonesuch", "../config.json", "", "\x1b[1m", "-", "llama3-8b.gz"]
# {} stands for a damaged file, {other} for a second one, {out} for a file or folder to write.
COMMANDS = [
    ["read", "{}"], ["read", "{}", "--json"], ["read", "{}", "{other}"], ["read", "{}", "--strict", "--all"],
    ["lint", "{}", "--json"], ["lint", "{}"], ["lint", "{}", "--framework", "megatron-lm", "--{flag}", "{value}"],
    ["fit", "{}"], ["fit", "{}", "--json"], ["fit", "{}", "{other}", "--json"], ["fit", "{}", "--gpu", "{gpu}"],
    ["fit", "{}", "--all-ranks"], ["fit", "{}", "--rank", "pp=1"], ["fit", "{}", "--sweep", "{key}={value},{value}"],
    ["fit", "--model", "{model}", "--gpu", "{gpu}", "--gpus", "{value}"], ["fit", "{model}", "--{flag}", "{value}"],
    ["fit", "{model}", "--gpu", "h200", "--gpus", "16", "--{flag}", "{value}", "--{flag}", "{value}", "--json"],
    ["fit", "{}", "--gpu", "h100", "--gpus", "8", "--model", "llama3-8b", "--json"], ["fit", "{}", "--model", "{other}"],
    ["fit", "{}", "--{flag}", "{value}", "--{flag}", "{value}"], ["fit", "{}", "--allocator", "{value}"],
    ["fit", "{}", "--calibration", "{other}"], ["fit", "llama3-8b", "--gpu", "h100", "--calibration", "{}"],
    ["fit", "llama3-8b", "--gpu", "h100", "--proof", "{}"], ["fit", "{}", "--script-args", "{value}"],
    ["plan", "{}", "--gpus", "8"], ["plan", "--from", "{}", "--json"], ["plan", "{}", "--emit", "job", "{out}"],
    ["plan", "{model}", "--gpu", "{gpu}", "--gpus", "8", "--seq-length", "{value}"], ["plan", "{}", "--svg", "{out}"],
    ["plan", "--from", "{}", "--emit", "megatron-lm", "{out}"], ["plan", "{}", "--fix", "{key}={value}", "--json"],
    ["why", "{}"], ["why", "{}", "--json"], ["why", "{}", "{other}"], ["why", "{}", "--job", "{other}"],
    ["why", "--slow", "{}"], ["why", "--slow", "{}", "{other}", "--json"], ["why", "{}", "--snapshot", "{other}"],
    ["why", "{}", "--fix", "{out}"], ["why", "."], ["why", "{}", "--full", "--json"], ["why", "--script", "{}"],
    ["replay", "{}"], ["replay", "{}", "--json"], ["replay", "{}", "--what-if"], ["replay", "{}", "--leaks"],
    ["replay", "{}", "--set", "{value}"], ["replay", "{}", "--chrome-trace", "{out}"], ["replay", "{}", "--tune"],
    ["replay", "{}", "--peak", "--json"], ["replay", "{}", "--capacity", "{value}", "--fraction", "{value}"],
    ["rl", "{}"], ["rl", "{}", "--json"], ["rl", "{}", "--knobs"], ["rl", "{}", "--observe", "{other}"],
    ["rl", "{}", "--observe", "{other}", "--json"], ["rl", "{}", "--{flag}", "{value}"], ["rl", "{}", "--timeline"],
    ["rl", "{}", "--plan", "--json"], ["rl", "{}", "--svg", "{out}"], ["rl", "{}", "--plan", "--emit", "verl", "{out}"],
    ["diff", "{}", "{other}"], ["diff", "{}", "{other}", "--json"], ["diff", "{}", "{other}", "--limit", "{value}"],
    ["score", "{}"], ["score", "{}", "--json"], ["score", "{}", "--by", "{value}", "--worst", "{value}"],
    ["check", "{}"], ["check", "{}", "--json"], ["check", "{}", "--sarif", "{out}"], ["learn", "{}", "--out", "{out}"],
    ["learn", "."], ["map", ".", "--part", "{value}", "--out", "{out}"], ["merge", "{}", "{other}", "--out", "{out}"],
    ["view", "{}", "--html", "{out}"], ["models", "{value}"], ["gpus", "{value}"], ["keys", "{value}"],
    ["complete", "--", "plimsoll", "fit", "--{flag}", "{value}"], ["help", "{value}"], ["{value}", "{}"],
]
# Folders of the files that verbs are made for, drawn more often than chance would.
JOBS = {"job", "models", "captures", "examples", "megatron-lm", "megatron-bridge", "transformers", "torchtitan", "fit",
        "plan", "read", "lint", "fuzz_job", "fuzz_job_script", "fuzz_hf_config"}
LOGS = {"why", "logs", "fuzz_why"}
RECORDINGS = {"snapshots", "fuzz_snapshot", "replay"}
MADE_FOR = {"fit": JOBS, "read": JOBS, "lint": JOBS, "plan": JOBS, "check": {"check", "tutorial", "ci"}, "why": LOGS,
            "replay": RECORDINGS, "diff": RECORDINGS | JOBS, "rl": {"rl", "fuzz_rl", "fuzz_observe", "fuzz_rl_config"},
            "score": {"truth", "fuzz_truth", "score"}, "view": RECORDINGS | LOGS | JOBS, "learn": {"live"}}


def corpus():
    files = []
    for folder in ("tests/data", "examples", "fuzz/corpus", "catalog"):
        files += [p for p in sorted((ROOT / folder).rglob("*")) if p.is_file() and p.stat().st_size < 1_000_000]
    for case in sorted((ROOT / "tests/cases").rglob("*.case")):
        files.append(case)
    return files


def keys_of(program):
    listed = json.loads(subprocess.run([program, "keys", "--json"], capture_output=True, check=True).stdout)
    return [key["name"] for key in listed["keys"]]


class Attack:
    def __init__(self, seed, files, keys, program):
        self.random = random.Random(seed)
        self.files, self.keys, self.program = files, keys, program

    def bytes_of(self, path):
        data = path.read_bytes()
        if path.suffix == ".case":  # one of the files inside
            pieces = re.split(rb"(?m)^---.*$", data)
            data = self.random.choice(pieces)
        return data

    def value(self):
        values = damage.EXTREMES + damage.WORDS + [b"megatron-lm", b"true", b"full", b"none", b"1,2,4", b"a=b", b"80GiB",
                                                   b"expandable_segments:True", b"lora", b"4096", b"2", b"8", b"512"]
        return self.random.choice(values).replace(b"\x00", b"")[:100_000]

    def file(self, folder, made_for=None):
        kind = self.random.random()
        name = self.random.choice(NAMES)
        path = folder / name
        if kind < 0.03:
            return os.fsencode(self.random.choice([".", "/dev/null", "missing", "/", "loop", "/dev/full", "/proc/self/mem"]))
        pool = made_for or self.files
        source = self.random.choice(pool)
        path.write_bytes(damage.damage(self.random, self.bytes_of(source), self.bytes_of(self.random.choice(self.files))))
        if name.endswith(".gz") and self.random.random() < 0.5:
            path.write_bytes(damage.packed(self.random, path.read_bytes(), b""))
        return (b"./" if self.random.random() < 0.9 else b"") + os.fsencode(name)

    def command(self, folder):
        words = self.random.choice(COMMANDS)
        folders = MADE_FOR.get(words[0], set()) if self.random.random() < 0.8 else set()
        made_for = [f for f in self.files if f.parent.name in folders]
        filled = []
        for word in words:
            if word in ("{}", "{other}"):
                filled.append(self.file(folder, made_for))
                continue
            filled.append(re.sub(rb"\{(\w+)\}", lambda m: {
                b"gpu": lambda: self.random.choice(GPUS).encode(), b"model": lambda: self.random.choice(MODELS).encode(),
                b"value": self.value, b"key": lambda: self.random.choice(self.keys).encode(),
                b"flag": lambda: self.random.choice(self.keys).replace("_", "-").encode(),
                b"out": lambda: b"out"}[m.group(1)](), word.encode()))
        return filled


def state_of(folder):
    return {p.name: (hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() and not p.is_symlink() else "other")
            for p in folder.iterdir()}


def run_limited(command, folder):
    """Exit code (None: too long), stdout, stderr, seconds, peak bytes."""
    out, err = folder.parent / (folder.name + ".out"), folder.parent / (folder.name + ".err")
    started = time.monotonic()
    with open(out, "wb") as o, open(err, "wb") as e:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=o, stderr=e,
                                   env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "TERM": "dumb", **KEPT})
        killer = threading.Timer(3 * SECONDS * PATIENCE, process.kill)
        killer.start()
        _, status, usage = os.wait4(process.pid, 0)
        killer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - started
    answers = out.read_bytes(), err.read_bytes()
    out.unlink()
    err.unlink()
    return process.returncode, *answers, seconds, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime


KEPT = {k: v for k, v in os.environ.items() if k in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LD_LIBRARY_PATH")}
PATIENCE = float(os.environ.get("PLIMSOLL_PATIENCE", "1"))


def wrong_with(words, before, folder, result):
    code, out, err, _, peak, cpu = result
    size = sum(p.stat().st_size for p in folder.iterdir() if p.is_file() and not p.is_symlink())
    verb = words[0].decode(errors="replace")
    if code not in DEFINED:
        yield f"exit code {code}"
    if cpu > SECONDS * PATIENCE:
        yield f"{cpu:.1f} s of processor time"
    allowed = WORKING_BYTES.get(verb, 0) + BASE_BYTES + 3 * size
    if not SANITIZED and peak > allowed:
        yield f"{peak >> 20} MiB of memory for {size:,} bytes of input ({allowed >> 20} MiB allowed)"
    if code >= 2 and not err.strip():
        yield "refused without words"
    if code == 2 and b"--fix" not in words and out.strip():  # why answers before it finds that it lacks the job
        yield "a usage error that answers"
    if len(err) > 65536:
        yield f"{len(err):,} bytes of messages"
    for name, stream in (("stdout", out), ("stderr", err)):
        if not stream.isascii():
            try:
                stream.decode()
            except UnicodeDecodeError as error:
                yield f"{name} is not UTF-8: {error}"
        found = CONTROLS.search(stream.decode(errors="replace"))
        if found and verb not in ("complete",):
            yield f"{name} has control character {found.group()!r}"
    if b"--json" in words and code in (0, 1):
        try:
            json.loads(out, parse_constant=lambda c: (_ for _ in ()).throw(ValueError(c)))
        except ValueError as error:
            yield f"--json is not JSON: {error}"
    after = state_of(folder)
    for name, digest in before.items():
        if after.get(name) != digest:
            yield f"{name!r} was changed or lost"
    new = set(after) - set(before) - {"out"}
    if new:
        yield f"left behind: {sorted(new)}"
    if code >= 2 and "out" in after and "out" not in before and verb != "map":
        yield "a refused run wrote its file"


def one(task):
    seed, keep = task
    attack = Attack(seed, FILES, KEYS, PROGRAM)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"attack-{seed}-", dir=WORK))
    try:
        (folder / "loop").symlink_to("loop")
        words = [word[:LONGEST_WORD] for word in attack.command(folder)]
        before = state_of(folder)
        result = run_limited([PROGRAM, *words], folder)
        found = list(wrong_with(words, before, folder, result))
        shown = " ".join(repr(w.decode(errors="replace"))[:120] for w in words)
        if keep:
            print(shown, result[0], result[1].decode(errors="replace")[:4000], result[2].decode(errors="replace")[:4000], sep="\n")
        return seed, words[0].decode(errors="replace")[:12], result[0], result[3], result[4], [f"{shown}: {what}" for what in found]
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def main():
    global PROGRAM, FILES, KEYS, WORK, SANITIZED
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--runs", type=int, default=int(os.environ.get("PLIMSOLL_ATTACKS", 20_000 if os.environ.get("PLIMSOLL_LONG") else 1500)))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", type=int)
    asked = parser.parse_args()
    PROGRAM = os.path.abspath(asked.program)
    SANITIZED = hostile.is_sanitized(PROGRAM)
    FILES, KEYS = corpus(), keys_of(PROGRAM)
    WORK = tempfile.mkdtemp(prefix="plimsoll-attack-")
    if asked.only is not None:
        print(one((asked.only, True))[-1], WORK)
        return 0
    wrong, codes, slowest, largest = [], collections.Counter(), (0, 0), (0, 0)
    try:
        with multiprocessing.Pool(asked.jobs) as pool:
            tasks = ((asked.seed * 10_000_000 + i, False) for i in range(asked.runs))
            for seed, verb, code, seconds, peak, found in pool.imap_unordered(one, tasks, chunksize=8):
                codes[(verb if verb.isalpha() else "?", code)] += 1
                slowest, largest = max(slowest, (seconds, seed)), max(largest, (peak, seed))
                wrong += [f"{seed}: {what}" for what in found]
                for what in found:
                    print(f"{seed}: {what}", flush=True)
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    by_code = collections.Counter()
    for (_, code), count in codes.items():
        by_code[code] += count
    print(f"{asked.runs} runs, exit codes {dict(sorted(by_code.items()))}; slowest {slowest[0]:.2f} s (seed {slowest[1]}), "
          f"largest {largest[0] >> 20} MiB (seed {largest[1]}); {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
