#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs the build into an empty folder and builds a program of somebody else against what is there alone."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOB = ROOT / "examples" / "llama3-70b.toml"
RECORDING = sorted((ROOT / "tests" / "data" / "snapshots").glob("*.pickle.gz"))[0]


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def fit(program, *flags):
    done = subprocess.run([program, "fit", JOB, "--json", *flags], capture_output=True, text=True)
    answer = json.loads(done.stdout)
    worst = answer["ranks"][0]
    return f"{'fits' if answer['fits'] else 'does not fit'} {worst['device_used_bytes']} {worst['peak_allocated_bytes']} whole"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    build = pathlib.Path(parser.parse_args().build)
    with tempfile.TemporaryDirectory() as folder:
        prefix = pathlib.Path(folder) / "prefix"
        outside = pathlib.Path(folder) / "outside"
        run("cmake", "--install", build, "--prefix", prefix)
        run("cmake", "-S", ROOT / "tests" / "library" / "outside", "-B", outside, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", outside)
        library = next(prefix.rglob("libplimsoll.so")).parent
        said = run(outside / "outside", JOB, RECORDING, env={**os.environ, "LD_LIBRARY_PATH": str(library)}).splitlines()
        program = prefix / "bin" / "plimsoll"
        wanted = [fit(program), fit(program, "--micro-batch-size", "2")]
        if said[:2] != wanted:
            sys.exit(f"the library says {said[:2]}, the program {wanted}")
        if said[2] != "refused with 3":
            sys.exit(f"a job that is refused: {said[2]}")
        version = run(program, "--version").split()[1]  # plimsoll 0.1.0, then the digest of its sources
        if not said[3].endswith(f"version {version}"):
            sys.exit(f"{said[3]}; the program is version {version}")
        symbols = run("nm", "--dynamic", "--defined-only", "--demangle", library / "libplimsoll.so")
        foreign = [line for line in symbols.splitlines() if "plimsoll::" in line and "plimsoll::api::" not in line]
        if foreign:
            sys.exit("symbols of ours that are nobody's business:\n" + "\n".join(foreign[:10]))
    print("an outside program builds, links and agrees with the command line")


if __name__ == "__main__":
    main()
