#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plimsoll check in a repository of its own: against a revision, as a hook of pre-commit, in the templates of examples/ci,
whose commands are run as their services would. The program is $PLIMSOLL."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest
import xml.etree.ElementTree

try:
    import yaml
except ImportError:  # the templates are not read then
    yaml = None

PROGRAM = os.path.abspath(os.environ["PLIMSOLL"])
CI = pathlib.Path(__file__).resolve().parents[2] / "examples" / "ci"
JOB = """framework = "fsdp2"
model = "llama3-8b"
[cluster]
gpu = "h200-sxm-141gb"
gpus = 8
[batch]
seq_length = 4096
micro_batch_size = {}
[precision]
bf16 = true
"""
LIST = """[limits]
memory_growth = "5%"
[[job]]
name = "pretraining"
files = ["{}"]
set = {{ seq_length = {} }}
"""


@unittest.skipUnless(shutil.which("git"), "there is no git")
class Repository(unittest.TestCase):
    """training/plimsoll.toml names a file beside its folder; main has micro-batches of 1, the change some of 2."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.folder = self.scratch / "repository"
        for name in ("training", "configs and more"):
            (self.folder / name).mkdir(parents=True)
        self.environment = {"PATH": f"{self.scratch}/bin:/usr/bin:/bin", "HOME": scratch.name, "LC_ALL": "C.UTF-8",
                            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
                            "GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_NOSYSTEM": "1"}
        (self.scratch / "bin").mkdir()
        (self.scratch / "bin" / "plimsoll").symlink_to(PROGRAM)
        self.write_job(1)
        self.write_list()
        self.run_here("git", "init", "--quiet", "--initial-branch", "main", ".")
        self.commit("as it was")

    def run_here(self, *words, expect=(0,), **more):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                              cwd=self.folder, env={**self.environment, **more})
        self.assertIn(done.returncode, expect, f"{words}\n{done.stdout}{done.stderr}")
        return done

    def commit(self, subject):
        self.run_here("git", "add", "--all")
        self.run_here("git", "commit", "--quiet", "--message", subject)

    def write_job(self, micro_batch):
        (self.folder / "configs and more" / "job.toml").write_text(JOB.format(micro_batch))

    def write_list(self, length=4096):
        (self.folder / "training" / "plimsoll.toml").write_text(LIST.format("../configs and more/job.toml", length))

    def check(self, *words, expect=(0, 1)):
        done = self.run_here("plimsoll", "check", "training/plimsoll.toml", *words, "--json", expect=expect)
        return json.loads(done.stdout)["jobs"][0]

    def test_a_change_of_a_file_beside_the_list_is_seen(self):
        self.assertTrue(self.check("--against", "main", expect=(0,))["passes"])
        self.write_job(2)
        job = self.check("--against", "main", expect=(1,))
        self.assertEqual([one["id"] for one in job["complaints"]], ["memory-grew"])
        self.assertGreater(job["device_used_bytes"], job["base_device_used_bytes"])

    def test_a_change_of_the_list_is_seen(self):
        self.write_list(8192)
        self.assertIn("memory-grew", [one["id"] for one in self.check("--against", "main")["complaints"]])

    def test_another_checkout_is_compared_folder_by_folder(self):
        shutil.copytree(self.folder, self.scratch / "other")
        self.write_job(2)
        self.assertIn("base_device_used_bytes", self.check("--against", "../other"))

    def test_the_temporary_folder_is_left_as_it_was(self):
        (self.scratch / "tmp").mkdir()
        self.environment["TMPDIR"] = str(self.scratch / "tmp")
        self.check("--against", "main")
        self.assertEqual(list((self.scratch / "tmp").iterdir()), [])

    def test_code_scanning_finds_the_file_from_the_root(self):
        self.write_job(2)
        for words in (["training/plimsoll.toml"], [self.folder / "training" / "plimsoll.toml"]):
            self.run_here("plimsoll", "check", *words, "--against", "main", "--sarif", "x.sarif", "--force", expect=(1,))
            run = json.loads((self.folder / "x.sarif").read_text())["runs"][0]
            place = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
            self.assertEqual(place["uri"], "configs%20and%20more/job.toml")
            self.assertIn(run["results"][0]["ruleId"], [rule["id"] for rule in run["tool"]["driver"]["rules"]])

    def commands(self, script, expect=(0, 1)):
        """As a service runs them: every one in bash, which ends at the first that fails."""
        return self.run_here("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script, expect=expect)

    def make_tarball(self):
        launcher = self.scratch / "launcher"
        launcher.write_text(f'#!/bin/sh\nexec "{PROGRAM}" "$@"\n')
        launcher.chmod(0o755)
        path = self.scratch / "plimsoll-1.0-linux-x86_64.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            archive.add(launcher, "plimsoll-1.0/bin/plimsoll")
        return str(path)

    @unittest.skipUnless(yaml, "no YAML in this Python")
    def test_the_github_action_fails_with_a_summary_and_files(self):
        action = yaml.safe_load((CI / "github-action" / "action.yml").read_text())
        self.write_job(2)
        runner = self.scratch / "runner"
        runner.mkdir()
        self.environment |= {"RUNNER_TEMP": str(runner), "GITHUB_PATH": str(runner / "path"),
                             "GITHUB_OUTPUT": str(runner / "output"), "GITHUB_STEP_SUMMARY": str(runner / "summary"),
                             "TARBALL": self.make_tarball(), "SHA256": "", "LIST": "training/plimsoll.toml", "AGAINST": "main"}
        unpack, check = action["runs"]["steps"]
        self.assertEqual(self.commands(unpack["run"]).returncode, 0)
        self.environment["PATH"] = (runner / "path").read_text().strip() + ":/usr/bin:/bin"
        for _ in range(2):  # a runner that is kept has the files of the run before
            self.assertEqual(self.commands(check["run"]).returncode, 1)
        self.assertIn("1 of 1 jobs do not hold (against main)", (runner / "summary").read_text())
        outputs = self.outputs(runner)
        self.assertEqual(set(outputs), set(action["outputs"]))
        for path in outputs.values():
            self.assertTrue(pathlib.Path(path).exists(), path)
        failure = xml.etree.ElementTree.parse(outputs["junit"]).find("testcase/failure")
        self.assertIn("memory-grew: device memory grew", failure.text)
        self.environment["AGAINST"] = ""
        self.assertEqual(self.commands(check["run"]).returncode, 0)

        # Without a check there is nothing for the steps behind it, and what was left by another run is not taken for it.
        (runner / "output").unlink()
        self.environment["LIST"] = "no-such.toml"
        self.assertNotEqual(self.commands(check["run"], (2, 3)).returncode, 0)
        self.assertEqual(self.outputs(runner), {})

    @staticmethod
    def outputs(runner):
        path = runner / "output"
        return dict(line.split("=", 1) for line in path.read_text().splitlines()) if path.exists() else {}

    @unittest.skipUnless(yaml, "no YAML in this Python")
    def test_the_github_action_takes_no_other_tarball_than_was_named(self):
        unpack = yaml.safe_load((CI / "github-action" / "action.yml").read_text())["runs"]["steps"][0]["run"]
        tarball = self.make_tarball()
        digest = hashlib.sha256(pathlib.Path(tarball).read_bytes()).hexdigest()
        self.environment |= {"RUNNER_TEMP": str(self.scratch), "GITHUB_PATH": str(self.scratch / "path")}
        for given, code in ((digest, 0), (f"{digest}  plimsoll-1.0-linux-x86_64.tar.gz", 0), ("0" * 64, 1)):
            self.environment |= {"TARBALL": tarball, "SHA256": given}
            self.assertEqual(self.commands(unpack).returncode, code, given)
        self.environment |= {"TARBALL": "", "SHA256": ""}
        self.assertIn("::error::the input tarball", self.commands(unpack).stdout)

    @unittest.skipUnless(yaml, "no YAML in this Python")
    def test_the_workflow_keeps_one_comment(self):
        steps = yaml.safe_load((CI / "github-workflow.yml").read_text())["jobs"]["check"]["steps"]
        comment = next(step["run"] for step in steps if "gh api" in step.get("run", ""))
        fake = self.scratch / "bin" / "gh"
        fake.write_text('#!/bin/sh\necho "$*" >>"$HOME/asked"\ncase $* in *--jq*) cat "$HOME/ids" ;; esac\n')
        fake.chmod(0o755)
        self.environment |= {"GITHUB_REPOSITORY": "we/ours", "NUMBER": "7", "COMMENT": "/x.md"}
        for ids, wanted in (("", "--method POST repos/we/ours/issues/7/comments "),
                            ("11\n12\n", "--method PATCH repos/we/ours/issues/comments/11 ")):
            (self.scratch / "ids").write_text(ids)
            self.assertEqual(self.commands(comment).returncode, 0)
            last = (self.scratch / "asked").read_text().splitlines()[-1]
            self.assertIn(wanted + "--field body=@/x.md", last)
        self.write_job(2)  # the first words of a comment are those that the workflow looks for
        self.run_here("plimsoll", "check", "training/plimsoll.toml", "--markdown", "x.md")
        prefix = re.search(r'startswith\("(.+?)"\)', comment)[1]
        self.assertTrue((self.folder / "x.md").read_text().startswith(prefix))

    @unittest.skipUnless(yaml, "no YAML in this Python")
    def test_the_workflow_gives_the_action_what_it_takes(self):
        action = yaml.safe_load((CI / "github-action" / "action.yml").read_text())
        workflow = (CI / "github-workflow.yml").read_text()
        step = next(step for step in yaml.safe_load(workflow)["jobs"]["check"]["steps"] if step.get("id") == "plimsoll")
        self.assertLessEqual(set(step["with"]), set(action["inputs"]))
        for output in ("markdown", "sarif"):
            self.assertIn(output, action["outputs"])
            self.assertIn(f"steps.plimsoll.outputs.{output} }}}}", workflow)

    @unittest.skipUnless(yaml, "no YAML in this Python")
    def test_the_gitlab_job_fails_with_its_reports(self):
        job = yaml.safe_load((CI / "gitlab-ci.yml").read_text())["plimsoll"]
        shutil.move(self.folder / "training" / "plimsoll.toml", self.folder)
        (self.folder / "plimsoll.toml").write_text(LIST.format("configs and more/job.toml", 4096))
        self.commit("the list at the root")
        self.write_job(2)
        base = self.run_here("git", "rev-parse", "HEAD").stdout.strip()
        self.environment |= {"PLIMSOLL_TARBALL": self.make_tarball(), "CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
        self.assertEqual(self.commands("\n".join(job["script"])).returncode, 1)
        for path in (*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]):
            self.assertIn("memory", (self.folder / path).read_text())

    @unittest.skipUnless(shutil.which("pre-commit"), "there is no pre-commit")
    def test_pre_commit_stops_a_commit_that_does_not_fit(self):
        (self.folder / "plimsoll.toml").write_text(LIST.format("configs and more/job.toml", 4096))
        shutil.copy(CI / "pre-commit-config.yaml", self.folder / ".pre-commit-config.yaml")
        self.commit("the hook")
        self.run_here("pre-commit", "install")
        self.write_job(1)
        (self.folder / "configs and more" / "notes.json").write_text("{}")
        self.commit("something that holds")
        self.write_job(64)
        self.run_here("git", "add", "--all")
        done = self.run_here("git", "commit", "--message", "too large", expect=(1,))
        self.assertIn("does-not-fit", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
