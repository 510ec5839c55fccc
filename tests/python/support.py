# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python module share: the repository, the program, its JSON."""
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
DATA = ROOT / "tests" / "data"


def program_text(*words):
    """The JSON that the command line answers, as it prints it."""
    return subprocess.run([os.environ["PLIMSOLL"], *map(str, words), "--json"], capture_output=True, text=True,
                          cwd=ROOT, check=False).stdout


def program(*words):
    return json.loads(program_text(*words))
