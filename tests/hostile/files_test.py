#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files appear whole or not at all, and what was there stays."""

import os
import pathlib
import re
import resource
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hostile
from hostile import Hostile, SMALL_PLAN, limited

EMIT = [*SMALL_PLAN, "--emit", "transformers"]
SVG = [*SMALL_PLAN, "--svg", "front.svg"]


class Files(Hostile):
    def test_a_folder_of_emitted_files_appears_whole(self):
        done = self.run_program([*EMIT, "a/b/run"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("README.md", self.names("a/b/run"))
        self.assertTrue(os.access(self.folder / "a/b/run/launch.sh", os.X_OK))

    def test_existing_files_are_kept_without_force(self):
        (self.folder / "run").mkdir()
        self.write("run/README.md", "mine\n")
        done = self.run_program([*EMIT, "run"])
        self.assertEqual(done.returncode, 3)
        self.assertIn("run/README.md exists", done.stderr)
        self.assertIn("--force", done.stderr)
        self.assertEqual(self.names("run"), ["README.md"])
        self.assertEqual((self.folder / "run/README.md").read_text(), "mine\n")
        self.assertIn("llama3.2-1b", done.stdout, "the answer of the search is not lost with the file")

    def test_force_replaces_files_and_keeps_their_permissions(self):
        (self.folder / "run").mkdir()
        readme = self.write("run/README.md", "mine\n")
        readme.chmod(0o600)
        self.assertEqual(self.run_program([*EMIT, "run", "--force"]).returncode, 0)
        self.assertNotEqual(readme.read_text(), "mine\n")
        self.assertEqual(readme.stat().st_mode & 0o777, 0o600)

    def test_links_are_not_written_through(self):
        (self.folder / "run").mkdir()
        target = self.write("precious", "mine\n")
        (self.folder / "run/README.md").symlink_to(target)
        self.assertEqual(self.run_program([*EMIT, "run"]).returncode, 3)
        self.assertEqual(target.read_text(), "mine\n")
        self.assertEqual(self.run_program([*EMIT, "run", "--force"]).returncode, 0)
        self.assertEqual(target.read_text(), "mine\n")
        self.assertFalse((self.folder / "run/README.md").is_symlink(), "the link itself is replaced")

    def test_a_limit_on_file_sizes_leaves_nothing_behind(self):
        done = self.run_program([*EMIT, "a/b/run"], before=limited(resource.RLIMIT_FSIZE, 600))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("cannot write", done.stderr)
        self.assertEqual(self.names(), [])

    def test_a_limit_on_file_sizes_keeps_the_old_content(self):
        old = self.write("front.svg", "old\n")
        done = self.run_program([*SVG, "--force"], before=limited(resource.RLIMIT_FSIZE, 100))
        self.assertEqual(done.returncode, 4)
        self.assertEqual(old.read_text(), "old\n")
        self.assertEqual(self.names(), ["front.svg"])

    def test_a_full_disk_keeps_the_old_content(self):
        done = self.run_program([*SMALL_PLAN, "--svg", "/dev/full"])
        self.assertEqual(done.returncode, 4)
        self.assertIn("No space left", done.stderr)

    def test_a_folder_that_may_not_be_written_is_named(self):
        if os.geteuid() == 0:
            self.skipTest("root writes everywhere")
        (self.folder / "closed").mkdir(mode=0o500)
        done = self.run_program([*EMIT, "closed"])
        self.assertEqual(done.returncode, 4)
        self.assertIn("closed", done.stderr)

    def test_a_file_where_a_folder_is_wanted_is_named(self):
        self.write("run", "mine\n")
        done = self.run_program([*EMIT, "run"])
        self.assertEqual(done.returncode, 4)
        self.assertIn("cannot make the folder run", done.stderr)
        self.assertEqual((self.folder / "run").read_text(), "mine\n")

    def test_devices_are_written_directly(self):
        self.assertEqual(self.run_program([*SMALL_PLAN, "--svg", "/dev/null"]).returncode, 0)
        self.assertIn("<svg", self.run_program([*SMALL_PLAN, "--svg", "/dev/stdout"]).stdout)
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())

    def test_readers_never_see_half_a_file(self):
        self.assertEqual(self.run_program(SVG).returncode, 0)
        path = self.folder / "front.svg"
        whole = len(path.read_text())
        seen, stop = set(), threading.Event()

        def look():
            while not stop.is_set():
                try:
                    seen.add(len(path.read_text()))
                except OSError as error:
                    seen.add(str(error))

        reader = threading.Thread(target=look)
        reader.start()
        for _ in range(10):
            self.run_program([*SVG, "--force"])
        stop.set()
        reader.join()
        self.assertEqual(seen, {whole})

    def test_an_unknown_target_is_reported_before_the_search(self):
        done = self.run_program([*hostile.LONG_PLAN, "--emit", "nonsense", "run"], before=limited(resource.RLIMIT_CPU, 2))
        self.assertEqual(done.returncode, 2)
        self.assertIn("nonsense", done.stderr)

    def test_a_model_named_by_a_flag_can_be_emitted(self):
        words = [word for word in SMALL_PLAN if word != "llama3.2-1b"]
        done = self.run_program([*words, "--model", "llama3.2-1b", "--emit", "job", "run"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.names("run"), ["job.toml"])

    def test_a_plan_of_pools_is_one_that_its_framework_can_be_told_of(self):
        run = self.write("run.toml", POOLS)
        done = self.run_program(["rl", run, "--plan", "--emit", "prime-rl", "out"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.names("out"), ["rl.toml"])


POOLS = """framework = "prime-rl"
model = "llama3-8b"
gpu = "h100"
gpus = 16
group_size = 8
prompts_batch_size_for_trainer = 64
prompt_mean = 300
completion_mean = 1000
max_tokens = 4000
"""

class Security(Hostile):
    # Flags that name a file to read, a name or a number; every other one that takes a place writes there.
    READ = {"job", "snapshot", "calibration", "proof", "config", "script", "run", "python", "from", "model", "library"}

    def test_the_threat_model_names_every_flag_that_writes(self):
        told = (hostile.ROOT / "SECURITY.md").read_text()
        verbs = re.findall(r"(?m)^  ([a-z]+)  +\S", self.run_program(["help"]).stdout)
        self.assertGreater(len(verbs), 20)
        places = set()
        for verb in verbs:
            text = self.run_program(["help", verb]).stdout
            places |= set(re.findall(r"(?m)^  (?:-\w, )?--([a-z-]+) (?:FILE|FOLDER|DIR|TARGET|FRAMEWORK|PLACE)", text))
        self.assertIn("svg", places)
        for flag in sorted(places - self.READ):
            self.assertIn(f"`--{flag}`", told)


if __name__ == "__main__":
    hostile.main()
