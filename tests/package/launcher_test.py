#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""./plimsoll takes an installed or unpacked program of the same sources, and builds where there is none.

The program is $PLIMSOLL.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ["PLIMSOLL"]).resolve()
COMPILED = ("src", "catalog", "cmake", "include", "python", "CMakeLists.txt", "CMakePresets.json", "plimsoll",
            "tools/digest")


class Launcher(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.checkout = self.home / "somewhere" / "checkout"
        for name in COMPILED:
            into = self.checkout / name
            into.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy2)(ROOT / name, into)
        self.write(self.checkout / "tools" / "packages", "#!/bin/sh\nexit 0\n")
        # A build that says so instead of taking minutes.
        self.write(self.home / "stub" / "cmake", "#!/bin/sh\necho a build was begun\nexit 1\n")

    @staticmethod
    def write(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def call(self, *folders):
        path = ":".join(map(str, [self.home / "stub", *folders, "/usr/bin", "/bin"]))
        return subprocess.run([self.checkout / "plimsoll", "--version"], capture_output=True, text=True, check=False,
                              env={"PATH": path, "HOME": str(self.home)}, cwd="/")

    def install(self, folder, program=None):
        folder.mkdir(parents=True)
        (folder / "plimsoll").symlink_to(program or PROGRAM)
        return folder

    def test_without_a_program_it_builds(self):
        done = self.call()
        self.assertEqual((done.returncode, "a build was begun" in done.stderr), (4, True), done.stderr)

    def test_one_on_the_path_is_taken_without_a_word(self):
        done = self.call(self.install(self.home / "bin"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("sources ", done.stdout)

    def test_one_unpacked_beside_the_checkout_is_taken(self):
        self.install(self.checkout.parent / "plimsoll-0.1.0-linux-x86_64" / "bin")
        done = self.call()
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_changed_source_is_built_even_when_a_program_was_found_before(self):
        folder = self.install(self.home / "bin")
        self.assertEqual(self.call(folder).returncode, 0)
        time.sleep(0.05)  # the kernel stamps files with a clock that ticks every few milliseconds
        with open(self.checkout / "src" / "cli" / "main.cpp", "a", encoding="utf-8") as file:
            file.write("// changed\n")
        self.assertIn("a build was begun", self.call(folder).stderr)

    def test_a_changed_catalogue_is_built(self):
        (self.checkout / "catalog" / "gpus.json").write_text("{}")
        self.assertIn("a build was begun", self.call(self.install(self.home / "bin")).stderr)

    def test_a_program_of_the_same_number_and_other_sources_is_not_taken(self):
        self.write(self.home / "old" / "plimsoll", "#!/bin/sh\necho plimsoll 0.1.0\necho sources 0123456789abcdef\n")
        self.assertIn("a build was begun", self.call(self.home / "old").stderr)
        self.assertEqual(self.call(self.home / "old", self.install(self.home / "bin")).returncode, 0)

    def test_the_launcher_of_another_checkout_is_not_asked(self):
        other = self.home / "other"
        self.write(other / "plimsoll", f"#!/bin/sh\ntouch {self.home}/asked\n")
        self.write(other / "CMakeLists.txt", "")
        self.call(other)
        self.assertFalse((self.home / "asked").exists())

    def test_the_digest_depends_on_contents_and_not_on_the_place(self):
        def digest(root):
            return subprocess.run([root / "tools" / "digest"], capture_output=True, text=True, check=True).stdout
        first = digest(ROOT)
        self.assertEqual(digest(self.checkout), first)
        (self.checkout / "src" / "cli" / "main.cpp~").write_text("left by an editor")
        self.assertEqual(digest(self.checkout), first)
        os.rename(self.checkout / "src" / "cli" / "main.cpp", self.checkout / "src" / "cli" / "other.cpp")
        self.assertNotEqual(digest(self.checkout), first)


if __name__ == "__main__":
    unittest.main()
