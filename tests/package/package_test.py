#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes all packages twice and tries each: the tarball without the system's libraries, the wheel in a fresh folder.

With PLIMSOLL_LONG the program is built in two folders and compared, too; that takes as long as two builds.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import urllib.request
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "packages"
JOB = ROOT / "examples" / "llama3-70b.toml"


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **more)
    if done.returncode not in (0, 1):
        raise AssertionError(f"{words}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def served_page(program):
    """What `view` of a package serves: the library that speaks HTTP is a file beside it."""
    process = subprocess.Popen([program, "view", "--no-browser"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True, env={"PATH": "/usr/bin:/bin"}, cwd="/")
    try:
        return urllib.request.urlopen(process.stdout.readline().strip(), timeout=10).read().decode()
    finally:
        process.terminate()
        process.wait(timeout=10)
        process.stdout.close()


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # One interpreter: the others differ in python/core.cpp alone.
        os.environ["PLIMSOLL_PYTHONS"] = sys.executable
        run(ROOT / "tools" / "package", "all")
        cls.first = (OUT / "SHA256SUMS").read_text()

    def test_two_builds_are_equal_bit_for_bit(self):
        run(ROOT / "tools" / "package", "all")
        self.assertEqual((OUT / "SHA256SUMS").read_text(), self.first)

    def test_nothing_names_the_folder_it_was_built_in(self):
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(next(OUT.glob("plimsoll-*-linux-*.tar.gz"))) as archive:
                archive.extractall(folder)
            with zipfile.ZipFile(next(OUT.glob("*.whl"))) as archive:
                archive.extractall(folder)
            for path in pathlib.Path(folder).rglob("*"):
                if path.is_file() and not path.is_symlink():
                    self.assertNotIn(str(ROOT).encode() + b"/", path.read_bytes(), path)

    @unittest.skipUnless(os.environ.get("PLIMSOLL_LONG"), "two builds from nothing: with --long")
    def test_two_folders_make_one_program(self):
        made = []
        with tempfile.TemporaryDirectory() as folder:
            for name in ("one", "another-one"):
                checkout = pathlib.Path(folder) / name
                run("git", "clone", "--quiet", "--no-hardlinks", ROOT, checkout)
                run("cmake", "--preset", "program", cwd=checkout)
                run("cmake", "--build", "--preset", "program", cwd=checkout)
                made.append((checkout / "build" / "program" / "src" / "plimsoll").read_bytes())
        self.assertEqual(made[0], made[1])

    def test_the_tarball_answers_wherever_it_is_unpacked(self):
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(next(OUT.glob("plimsoll-*-linux-*.tar.gz"))) as archive:
                archive.extractall(folder)
            unpacked = next(pathlib.Path(folder).iterdir())
            link = pathlib.Path(folder) / "called-otherwise"
            link.symlink_to(unpacked / "bin" / "plimsoll")
            said = run(link, "fit", JOB, env={"PATH": "/usr/bin:/bin"}, cwd="/")
            self.assertIn("memory of rank", said)
            libraries = run(unpacked / "lib" / "loader", "--list", "--library-path", unpacked / "lib",
                            unpacked / "lib" / "plimsoll")
            outside = [line for line in libraries.splitlines() if "=> /" in line and str(unpacked) not in line]
            self.assertEqual(outside, [])
            self.assertTrue((unpacked / "share" / "plimsoll" / "page" / "index.html").exists())
            self.assertIn("<html", served_page(link))
            page = unpacked / "share" / "man" / "man1" / "plimsoll-fit.1.gz"
            self.assertIn("plimsoll fit", run("man", "--warnings", "--local-file", page, env={"PATH": "/usr/bin:/bin"}))

    def test_the_wheel_imports_and_answers(self):
        wheel = next(OUT.glob("*.whl"))
        with tempfile.TemporaryDirectory() as folder:
            with zipfile.ZipFile(wheel) as archive:
                self.assertIsNone(archive.testzip())
                archive.extractall(folder)
            program = "import plimsoll as pl, sys; print(pl.fit(sys.argv[1]).fits, pl.__version__)"
            said = run(sys.executable, "-c", program, JOB, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": folder})
            self.assertEqual(said.split()[0], "True")

    def test_the_check_of_packages_finds_them_good(self):
        said = run(ROOT / "tools" / "package", "check")
        self.assertRegex(said, r"this system +tarball +holds")
        if os.geteuid() == 0:
            self.assertRegex(said, r"laid out as RPM systems +tarball, by a link +holds")
        self.assertNotIn("FAILS", said)

    def test_the_deb_names_what_it_depends_on(self):
        said = run("dpkg-deb", "--info", next(OUT.glob("*.deb")))
        self.assertRegex(said, r"Depends: .*\blibc6\b")
        listed = run("dpkg-deb", "--contents", next(OUT.glob("*.deb")))
        self.assertIn("./usr/bin/plimsoll", listed)
        self.assertIn("./usr/share/man/man1/plimsoll-fit.1.gz", listed)
        with tempfile.TemporaryDirectory() as folder:
            run("dpkg-deb", "--extract", next(OUT.glob("*.deb")), folder)
            self.assertIn("<html", served_page(pathlib.Path(folder) / "usr" / "bin" / "plimsoll"))

    def test_a_program_alone_answers_and_says_what_serving_needs(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = pathlib.Path(folder) / "plimsoll"
            shutil.copy(ROOT / "build" / "release" / "src" / "plimsoll", alone)
            self.assertIn("memory of rank", run(alone, "fit", JOB))
            done = subprocess.run([alone, "view", "--no-browser"], capture_output=True, text=True, check=False,
                                  env={**os.environ, "PLIMSOLL_PAGE": str(ROOT / "build" / "page")})
            self.assertEqual(done.returncode, 4)
            self.assertIn("plimsoll-http.so is not beside", done.stderr)


if __name__ == "__main__":
    unittest.main()
