# SPDX-License-Identifier: Apache-2.0
"""What the hostile tests share: running the program under limits and signals, in an empty folder."""

import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = None
SANITIZED = False
ROOT = pathlib.Path(__file__).resolve().parents[2]
# Exit codes that mean something (docs/reliability.md). 70 is our bug, negative a signal that killed.
DEFINED = {0, 1, 2, 3, 4, 130, 141, 143}
SMALL_PLAN = ("plan llama3.2-1b --gpu h100 --gpus 2 --seq-length 2048 --global-batch-size 8 "
              "--framework transformers --sharding ddp").split()
LONG_PLAN = ("plan deepseek-v3 --gpu h100 --gpus 2048 --seq-length 4096 --global-batch-size 8192").split()
# Sanitizers slow the program down by an order of magnitude; limits in seconds stretch with this.
PATIENCE = float(os.environ.get("PLIMSOLL_PATIENCE", "1"))


def limited(kind, value):
    return lambda: resource.setrlimit(kind, (value, value))


class Hostile(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="plimsoll-hostile-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_program(self, arguments, before=None, **options):
        return subprocess.run([PROGRAM, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              errors="replace", preexec_fn=before, timeout=120 * PATIENCE, **options)

    def interrupt(self, arguments, after, number=signal.SIGINT):
        """Starts, signals after some seconds, and returns (exit code, seconds to end, stdout, stderr)."""
        # A program that does not end in time is ended by its own handler, which joins nobody: that is no leak.
        options = ":".join(filter(None, (os.environ.get("TSAN_OPTIONS"), "report_thread_leaks=0")))
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors="replace",
                                   env={**os.environ, "TSAN_OPTIONS": options})
        time.sleep(after)
        if process.poll() is not None:
            out, err = process.communicate()
            return process.returncode, None, out, err
        started = time.monotonic()
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        return process.returncode, time.monotonic() - started, out, err

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def names(self, folder="."):
        return sorted(p.name for p in (self.folder / folder).iterdir())


def is_sanitized(program):
    """Piece by piece: the peak of this process counts as the peak of those that it starts."""
    piece, overlap = 1 << 20, 32
    with open(program, "rb") as file:
        before = b""
        while more := file.read(piece):
            text = before + more
            if b"__asan_init" in text or b"__tsan_init" in text:
                return True
            before = text[-overlap:]
    return False


def main():
    global PROGRAM
    if "--program" in sys.argv:
        at = sys.argv.index("--program")
        PROGRAM = os.path.abspath(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    else:
        PROGRAM = str(ROOT / "plimsoll")
    # A sanitizer's own memory does not fit under a limit, and its allocator cannot be made to fail.
    global SANITIZED
    SANITIZED = is_sanitized(PROGRAM)
    unittest.main(module="__main__", verbosity=1)
