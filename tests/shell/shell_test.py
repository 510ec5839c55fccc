#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program in a shell: a pager on a terminal, completion in bash, zsh and fish, width, colour, silence, and the line
that moves while somebody waits. The program is $PLIMSOLL."""
import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import tempfile
import termios
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.path.abspath(os.environ["PLIMSOLL"])
HOME = tempfile.gettempdir()


def make_terminal(rows, columns):
    keeper, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    return keeper, terminal


def shown_on(keeper):
    """All that arrives at a terminal until its other side is closed."""
    shown = b""
    while True:
        try:
            part = os.read(keeper, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        shown += part
    os.close(keeper)
    return shown.decode().replace("\r\n", "\n")


def on_terminal(*words, rows=24, columns=100, **environment):
    """What the program shows on a terminal of that size, and its exit code."""
    keeper, terminal = make_terminal(rows, columns)
    with subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.DEVNULL,
                          env={"PATH": "/usr/bin:/bin", "HOME": HOME, "TERM": "xterm", **environment}) as process:
        os.close(terminal)
        shown = shown_on(keeper)
        process.wait()
    return shown, process.returncode


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

    def test_prose_is_folded_on_it_and_whole_in_a_pipe(self):
        job = str(ROOT / "examples" / "llama3-70b.toml")
        shown, _ = on_terminal("fit", job, columns=80, rows=200, NO_COLOR="1")
        self.assertLessEqual(max(map(len, shown.splitlines())), 80)
        self.assertIn("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,", shown)
        piped = subprocess.run([PROGRAM, "fit", job], capture_output=True, text=True, check=False,
                               env={"PATH": "/usr/bin:/bin", "HOME": HOME, "COLUMNS": "80"}).stdout
        self.assertIn("environment as the launcher of megatron-bridge has it: PYTORCH_CUDA_ALLOC_CONF=", piped)

    def test_colour_is_for_terminals_and_no_color_forbids_it(self):
        words = ("fit", "llama3-70b", "--gpu", "rtx4090-24gb")
        self.assertIn("\x1b[", on_terminal(*words, rows=200)[0])
        self.assertNotIn("\x1b[", on_terminal(*words, rows=200, NO_COLOR="1")[0])


class Waiting(unittest.TestCase):
    """why - reads what somebody types, and takes as long as they do."""
    LOG = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"

    def while_it_waits(self, *flags, seconds=1.5, columns=60, **environment):
        """What stands on the terminal behind standard error."""
        keeper, terminal = make_terminal(24, columns)
        with subprocess.Popen([PROGRAM, "why", "-", *flags], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=terminal,
                              env={"PATH": "/usr/bin:/bin", "HOME": HOME, "TERM": "xterm", **environment}) as process:
            os.close(terminal)
            time.sleep(seconds)
            process.stdin.write(self.LOG)
            process.stdin.close()
            shown = shown_on(keeper)
            process.wait()
        self.assertIn(process.returncode, (0, 1))
        return shown

    def test_a_line_moves_after_a_second_and_is_taken_back(self):
        shown = self.while_it_waits()
        self.assertRegex(shown, r"\[[.#]{24}\] why, 1 s\r")
        places = [line for line in shown.split("\r\x1b[K") if line.startswith("[")]
        self.assertGreater(len(set(places)), 1)
        self.assertTrue(all(len(line) < 60 for line in places))
        self.assertTrue(shown.rpartition("s\r")[2].startswith("\r\x1b[K"), shown[-200:])

    def test_nothing_moves_before_a_second_is_over(self):
        self.assertNotIn("[#", self.while_it_waits(seconds=0.1))

    def test_nothing_moves_where_nobody_wants_it(self):
        self.assertEqual(self.while_it_waits("--quiet"), "")
        self.assertNotIn("[#", self.while_it_waits(TERM="dumb"))

    def test_what_is_no_terminal_gets_none_of_it(self):
        with subprocess.Popen([PROGRAM, "why", "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as process:
            time.sleep(1.5)
            _, said = process.communicate(self.LOG)
        self.assertNotIn(b"\x1b", said)
        self.assertNotIn(b"[#", said)


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


class BashAtATerminal(unittest.TestCase):
    """The tab key in an interactive bash, which ends words at = and : before it asks."""

    def press_tab(self, typed):
        ours, theirs = pty.openpty()
        environment = {"PATH": f"{os.path.dirname(PROGRAM)}:/usr/bin:/bin", "HOME": HOME, "TERM": "dumb", "PS1": "$ ",
                       "INPUTRC": "/dev/null"}
        process = subprocess.Popen(["bash", "--norc", "--noprofile", "-i"], stdin=theirs, stdout=theirs, stderr=theirs,
                                   env=environment, start_new_session=True)
        os.close(theirs)
        os.write(ours, f"bind 'set bell-style none'; source <(plimsoll complete --script bash); echo re''ady\n".encode())
        self.read_until(ours, r"ready\r\n.*\$ ")  # and the line is being edited
        # Tab, then to the begin of the line: what is there now is printed instead of being run.
        os.write(ours, f"{typed}\t\x01echo now: \n".encode())
        found = self.read_until(ours, r"\nnow: (.*?)\r\n")
        os.write(ours, b"exit\n")
        process.wait(timeout=20)
        os.close(ours)
        return found and found[1]

    @staticmethod
    def read_until(file, words):
        said, end = "", time.monotonic() + 20
        while time.monotonic() < end:
            if found := re.search(words, said, re.DOTALL):
                return found
            if select.select([file], [], [], 1)[0]:
                said += os.read(file, 65536).decode(errors="replace")
        return None

    def test_values_stand_behind_their_sign(self):
        for typed, wanted in {
                "plimsoll gpus --color=alw": "plimsoll gpus --color=always",
                "plimsoll fit --gpu=h100-s": "plimsoll fit --gpu=h100-sxm-80gb",
                "plimsoll fit --sweep recompute_granularity=no": "plimsoll fit --sweep recompute_granularity=none",
                "plimsoll fit --recompute-modules mlp,cor": "plimsoll fit --recompute-modules mlp,core_attn",
                "plimsoll replay --set expandable_s": "plimsoll replay --set expandable_segments:",
        }.items():
            with self.subTest(typed=typed):
                self.assertEqual(self.press_tab(typed), wanted)


@unittest.skipUnless(shutil.which("zsh"), "there is no zsh")
class Zsh(unittest.TestCase):
    def complete(self, *words):
        """What the function of zsh hands to the shell, which is played by two functions."""
        script = (f'PATH={os.path.dirname(PROGRAM)}:$PATH; compdef() {{ }}; _files() {{ print :files }}; '
                  '_describe() { print -rl -- ${(P)2} }; source <(plimsoll complete --script zsh); '
                  'words=(plimsoll "$@"); CURRENT=$#words; _plimsoll')
        done = subprocess.run(["zsh", "-f", "-c", script, "zsh", *words], capture_output=True, text=True, check=False,
                              env={"PATH": "/usr/bin:/bin", "HOME": HOME})
        self.assertEqual(done.stderr, "")
        return done.stdout.splitlines()

    def test_completes_verbs_values_and_files(self):
        self.assertTrue(self.complete("fi")[0].startswith("fit:does a training job fit"))
        self.assertTrue(any(line.startswith("h100-sxm-80gb:") for line in self.complete("fit", "--gpu", "h100-s")))
        self.assertIn(":files", self.complete("fit", ""))
        # A colon of the word itself does not end it.
        self.assertTrue(any(line.startswith("expandable_segments\\::")
                            for line in self.complete("replay", "--set", "expandable")))


@unittest.skipUnless(shutil.which("fish"), "there is no fish")
class Fish(unittest.TestCase):
    def complete(self, line):
        script = f'set PATH {os.path.dirname(PROGRAM)} $PATH; plimsoll complete --script fish | source; complete -C "{line}"'
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=False,
                                  env={"PATH": "/usr/bin:/bin", "HOME": home})
        return [word.split("\t")[0] for word in done.stdout.splitlines()]

    def test_completes_verbs_flags_values_models_and_gpus(self):
        self.assertEqual(self.complete("plimsoll fi"), ["fit"])
        self.assertIn("--recompute-granularity", self.complete("plimsoll fit --recomp"))
        self.assertIn("selective", self.complete("plimsoll fit --recompute-granularity "))
        self.assertIn("llama3-70b", self.complete("plimsoll fit llama3-7"))
        self.assertIn("h100-sxm-80gb", self.complete("plimsoll fit --gpu h100-s"))


if __name__ == "__main__":
    unittest.main()
