#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program in a shell: a pager on a terminal, completion in bash, width, colour and silence. The program is $PLIMSOLL."""
import fcntl
import os
import pty
import struct
import subprocess
import tempfile
import termios
import unittest

PROGRAM = os.path.abspath(os.environ["PLIMSOLL"])
HOME = tempfile.gettempdir()


def on_terminal(*words, rows=24, columns=100, **environment):
    """What the program shows on a terminal of that size, and its exit code."""
    keeper, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    with subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.DEVNULL,
                          env={"PATH": "/usr/bin:/bin", "HOME": HOME, "TERM": "xterm", **environment}) as process:
        os.close(terminal)
        shown = b""
        while True:
            try:
                part = os.read(keeper, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
        process.wait()
    os.close(keeper)
    return shown.decode().replace("\r\n", "\n"), process.returncode


class Pager(unittest.TestCase):
    def test_shows_what_is_longer_than_the_terminal(self):
        shown, code = on_terminal("gpus", rows=10, PAGER="sed s/^/paged:/")
        self.assertTrue(all(line.startswith("paged:") for line in shown.splitlines()), shown[:300])
        self.assertEqual(code, 0)

    def test_leaves_short_answers_alone(self):
        shown, _ = on_terminal("--version", rows=10, PAGER="sed s/^/paged:/")
        self.assertNotIn("paged:", shown)
        shown, _ = on_terminal("gpus", "h200-sxm-141gb", rows=40, PAGER="sed s/^/paged:/")
        self.assertNotIn("paged:", shown)

    def test_that_is_not_there_loses_no_answer(self):
        shown, code = on_terminal("gpus", rows=10, PAGER="no-such-pager")
        self.assertIn("h200-sxm-141gb", shown)
        self.assertEqual(code, 0)

    def test_keeps_the_exit_code_of_the_answer(self):
        _, code = on_terminal("fit", "llama3-70b", "--gpu", "rtx4090-24gb", rows=5, PAGER="cat")
        self.assertEqual(code, 1)

    def test_is_not_asked_for_a_pipe(self):
        done = subprocess.run([PROGRAM, "gpus"], capture_output=True, text=True, check=True,
                              env={"PATH": "/usr/bin:/bin", "PAGER": "sed s/^/paged:/"})
        self.assertNotIn("paged:", done.stdout)


class Terminal(unittest.TestCase):
    def test_tables_are_no_wider_than_it(self):
        for columns in (80, 120):
            shown, _ = on_terminal("keys", "recompute", columns=columns, rows=200, NO_COLOR="1")
            self.assertLessEqual(max(map(len, shown.splitlines())), columns)

    def test_colour_is_for_terminals_and_no_color_forbids_it(self):
        words = ("fit", "llama3-70b", "--gpu", "rtx4090-24gb")
        self.assertIn("\x1b[", on_terminal(*words, rows=200)[0])
        self.assertNotIn("\x1b[", on_terminal(*words, rows=200, NO_COLOR="1")[0])


class Bash(unittest.TestCase):
    def complete(self, *words):
        """What bash offers for the last word."""
        script = (f'PATH={os.path.dirname(PROGRAM)}:$PATH; source <(plimsoll complete --script bash); '
                  'COMP_WORDS=(plimsoll "$@"); COMP_CWORD=$#; _plimsoll; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=False,
                              env={"PATH": "/usr/bin:/bin", "HOME": HOME})
        return done.stdout.split()

    def test_completes_verbs_flags_values_models_and_gpus(self):
        self.assertEqual(self.complete("fi"), ["fit"])
        self.assertIn("--recompute-granularity", self.complete("fit", "--recomp"))
        self.assertIn("selective", self.complete("fit", "--recompute-granularity", ""))
        self.assertIn("llama3-70b", self.complete("fit", "llama3-7"))
        self.assertIn("h100-sxm-80gb", self.complete("fit", "--gpu", "h100-s"))
        self.assertIn("--inference-num-workers", self.complete("rl", "--inference-num"))


if __name__ == "__main__":
    unittest.main()
