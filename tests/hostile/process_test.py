#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Signals, refused memory and threads, closed pipes: words and a defined exit code, never a half answer."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hostile
from hostile import LONG_PLAN, PATIENCE, SMALL_PLAN, Hostile, limited

SECONDS = 0.2 * PATIENCE + 0.1  # 200 ms, and what a busy machine takes to start and end processes


class Signals(Hostile):
    def setUp(self):
        super().setUp()
        if hostile.SANITIZED:
            self.skipTest("a sanitized program ends slowly")

    def ends_in_time(self, arguments, after=1.0, number=signal.SIGINT):
        code, seconds, out, err = self.interrupt(arguments, after, number)
        self.assertIsNotNone(seconds, f"ended before the signal: {err}")
        self.assertEqual(code, 128 + number, err)
        self.assertLess(seconds, SECONDS)
        self.assertIn("interrupted", err)
        return out, err

    def test_a_search_says_what_it_knows(self):
        out, _ = self.ends_in_time(LONG_PLAN)
        if out:
            self.assertIn("interrupted", out)

    def test_json_of_an_interrupted_search_says_so(self):
        out, _ = self.ends_in_time([*LONG_PLAN, "--json"])
        if out:
            self.assertTrue(json.loads(out)["interrupted"])

    def test_questions_of_several_searches_never_answer_as_if_complete(self):
        for question in (["--min-gpus"], ["--max", "seq_length"], ["--max", "micro_batch_size"],
                         ["--objective", "gpu-hours"]):
            with self.subTest(question=question):
                # The shortest of them is answered within a second by an idle machine.
                out, _ = self.ends_in_time([*LONG_PLAN, *question], after=0.3)
                self.assertNotIn("does not fit on up to", out)
                self.assertNotIn("largest", out)
                if out:
                    self.assertIn("interrupted", out)

    def test_a_terminated_program_says_so(self):
        self.ends_in_time(LONG_PLAN, number=signal.SIGTERM)

    def test_an_endless_input_can_be_left(self):
        for arguments in (["fit", "/dev/zero"], ["fit", "-"]):
            code, seconds, _, err = self.interrupt_reading(arguments)
            self.assertIn(code, (3, 130), err)
            if seconds is not None:
                self.assertLess(seconds, SECONDS)

    def interrupt_reading(self, arguments):
        process = subprocess.Popen([hostile.PROGRAM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, cwd=self.folder)
        try:
            process.wait(timeout=0.5)
            return process.returncode, None, "", process.stderr.read()
        except subprocess.TimeoutExpired:
            started = time.monotonic()
            process.send_signal(signal.SIGINT)
            process.wait(timeout=10)
            return process.returncode, time.monotonic() - started, process.stdout.read(), process.stderr.read()
        finally:
            for stream in (process.stdin, process.stdout, process.stderr):
                stream.close()

    def test_a_closed_pipe_is_quiet(self):
        done = subprocess.run(["bash", "-c", f"set -o pipefail; '{hostile.PROGRAM}' keys | head -1"],
                              capture_output=True, text=True)
        self.assertIn(done.returncode, (0, 141))
        self.assertEqual(done.stderr, "")

    def test_a_signal_that_was_ignored_stays_ignored(self):
        # nohup and shells' background jobs start programs so.
        process = subprocess.Popen([hostile.PROGRAM, *LONG_PLAN], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        try:
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            time.sleep(0.5)
            self.assertIsNone(process.poll(), "it went on")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=10), 143)
        finally:
            process.kill()
            process.communicate()


class LongWork(Hostile):
    def test_progress_is_shown_to_whoever_watches(self):
        """Every question that searches for more than a second says how far it is, and can be left."""
        for question in ([], ["--max", "seq_length"]):
            with self.subTest(question=question):
                shown, code = self.watch([*LONG_PLAN, *question], 4 * PATIENCE)
                self.assertRegex(shown, r"\d", "a figure that moves")
                self.assertGreaterEqual(len(shown.splitlines()), 2, shown)
                self.assertEqual(code, 130)

    def watch(self, arguments, seconds):
        """What a terminal shows of standard error until Ctrl-C."""
        master, slave = os.openpty()
        process = subprocess.Popen([hostile.PROGRAM, *arguments], stdout=subprocess.DEVNULL, stderr=slave, cwd=self.folder)
        os.close(slave)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        shown = b""
        try:
            while piece := os.read(master, 65536):
                shown += piece
        except OSError:
            pass  # the other side is closed: Linux says so with an error
        os.close(master)
        return shown.decode(errors="replace"), process.wait(timeout=20)


class Refusals(Hostile):
    COMMANDS = (SMALL_PLAN, ["fit", "--model", "llama3-8b", "--framework", "megatron-lm", "--gpu", "h100", "--gpus", "8",
                             "--seq-length", "4096", "--micro-batch-size", "1", "--global-batch-size", "16"],
                ["rl", "run.toml", "--plan"])
    RUN = ('framework = "telescope"\nmodel = "qwen3-1.7b"\ngpu = "h100"\ngpus = 8\ngroup_size = 8\n'
           "prompts_batch_size_for_trainer = 16\nprompt_mean = 200\ncompletion_mean = 500\nmax_tokens = 1000\n")

    def test_refused_threads_give_the_same_answer(self):
        self.write("run.toml", self.RUN)
        for command in self.COMMANDS:
            with self.subTest(command=command[0]):
                # Root is not bound by the limit on processes: the library that fails thread starts covers it there.
                free = self.run_program(command)
                bound = self.run_program(command, before=limited(resource.RLIMIT_NPROC, 0))
                self.assertEqual(free.returncode, bound.returncode, bound.stderr)
                self.assertEqual(free.stdout, bound.stdout)

    def test_refused_memory_is_exit_4_with_words(self):
        if hostile.SANITIZED:
            self.skipTest("sanitizers need address space of their own")
        self.write("run.toml", self.RUN)
        refused = 0
        for command in self.COMMANDS:
            for mebibytes in (16, 24, 32, 40, 48, 64, 96, 128, 192):
                with self.subTest(command=command[0], mebibytes=mebibytes):
                    done = self.run_program(command, before=limited(resource.RLIMIT_AS, mebibytes << 20))
                    if done.returncode == 127 or "shared librar" in done.stderr or "cannot allocate" in done.stderr.lower():
                        continue  # the loader did not get as far as the program
                    self.assertIn(done.returncode, (0, 1, 4), done.stderr)
                    if done.returncode == 4:
                        refused += 1
                        self.assertIn("not enough memory", done.stderr)
                        self.assertEqual(done.stdout, "")
        self.assertGreater(refused, 0)


if __name__ == "__main__":
    hostile.main()
