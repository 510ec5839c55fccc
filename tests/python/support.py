# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python module share: the repository, the program, its JSON."""
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
DATA = ROOT / "tests" / "data"


def program(*words):
    """The JSON that the command line answers."""
    done = subprocess.run([os.environ["PLIMSOLL"], *map(str, words), "--json"], capture_output=True, text=True,
                          cwd=ROOT, check=False)
    return json.loads(done.stdout)
