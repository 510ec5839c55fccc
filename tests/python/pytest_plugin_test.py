# SPDX-License-Identifier: Apache-2.0
"""The plugin in a run of pytest itself: a job that fits passes, one that does not fails with its table."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import plimsoll as pl

# Debian's pytest belongs to Debian's Python; the module has to be of the same version.
PYTHONS = [sys.executable, "/usr/bin/python3"]
MODULE = str(pathlib.Path(pl.__file__).parents[1])
ASK = "import pytest, sys; sys.path.insert(0, sys.argv[1]); import plimsoll"
TESTS = '''
JOB = {"model": "llama3-8b", "framework": "fsdp2", "gpus": 8, "seq_length": 4096, "bf16": True}

def test_fits(assert_fits):
    assert assert_fits(JOB, gpu="h200-sxm-141gb").fits

def test_does_not(assert_fits):
    assert_fits(JOB, gpu="rtx4090-24gb")
'''


def python_with_pytest():
    for python in PYTHONS:
        if subprocess.run([python, "-c", ASK, MODULE], capture_output=True, check=False).returncode == 0:
            return python
    return None


class Plugin(unittest.TestCase):
    def test_is_taken_by_pytest(self):
        python = python_with_pytest()
        if python is None:
            self.skipTest("no pytest for this Python: Debian has python3-pytest")
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "test_jobs.py").write_text(TESTS)
            done = subprocess.run([python, "-m", "pytest", "-p", "plimsoll.pytest_plugin", "-p", "no:cacheprovider"],
                                  capture_output=True, text=True, cwd=folder, check=False,
                                  env={"PATH": "/usr/bin:/bin", "PYTHONPATH": MODULE, "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertIn("1 failed, 1 passed", done.stdout)
        self.assertIn("does not fit", done.stdout)
        self.assertNotIn("_testing.py", done.stdout)  # the failure is the test's, not ours


if __name__ == "__main__":
    unittest.main()
