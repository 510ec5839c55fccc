# SPDX-License-Identifier: Apache-2.0
"""plimsoll doctor on machines played by stand-ins: with and without a driver, with and without PyTorch."""

import json
import os
import subprocess
import sys

import live


class Doctor(live.Live):
    def findings(self, *words, **environment):
        done = subprocess.run([live.PROGRAM, "doctor", "--json", *words], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **environment}, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertTrue(answer["sound"])
        return {finding["what"]: finding for finding in answer["findings"]}

    def test_a_machine_without_a_driver_says_what_does_not_work(self):
        found = self.findings(PLIMSOLL_NVML="/nowhere/libnvidia-ml.so.1")
        self.assertEqual(found["NVIDIA driver"]["health"], "limited")
        self.assertIn("predictions need no GPU", found["NVIDIA driver"]["means"])

    def test_a_device_that_the_catalogue_does_not_have_is_given_by_its_memory(self):
        state = self.folder / "nvml"
        state.write_text("0")
        found = self.findings(PLIMSOLL_NVML=live.NVML, PLIMSOLL_FAKE_NVML=str(state))
        self.assertEqual(found["GPU"]["found"], "1 x Fake GPU, 80.00 GiB each")
        self.assertIn("--gpu-memory 80.00 GiB", found["GPU"]["means"])

    def test_a_device_of_the_catalogue_has_its_name_there(self):
        state = self.folder / "nvml"
        state.write_text(str(30 << 30))
        found = self.findings(PLIMSOLL_NVML=live.NVML, PLIMSOLL_FAKE_NVML=str(state),
                              PLIMSOLL_FAKE_NVML_NAME="NVIDIA H100 80GB HBM3")
        self.assertIn("(--gpu h100-sxm-80gb)", found["GPU"]["found"])
        self.assertIn("1 in use already", found["GPU"]["means"])

    def test_a_driver_that_aborts_is_a_finding(self):
        state = self.folder / "nvml"
        state.write_text("0 0 1")
        found = self.findings(PLIMSOLL_NVML=live.NVML, PLIMSOLL_FAKE_NVML=str(state))
        self.assertIn("ended the process that asked it (signal 6)", found["NVIDIA driver"]["found"])
        found = self.findings(PLIMSOLL_NVML=live.NVML, PLIMSOLL_FAKE_NVML=str(state), PLIMSOLL_FAKE_NVML_ABORTS="1")
        self.assertIn("ended the process that asked it (signal 6)", found["NVIDIA driver"]["found"])

    def test_a_python_that_is_not_there_and_one_without_pytorch(self):
        self.assertIn("cannot be run", self.findings("--python", "/nowhere/python")["Python"]["found"])
        empty = self.folder / "python"
        empty.write_text(f"#!/bin/sh\nexec {sys.executable} -S \"$@\"\n")
        empty.chmod(0o755)
        self.assertIn("without PyTorch", self.findings("--python", str(empty))["Python"]["found"])

    def test_an_old_pytorch_is_said_to_be_old(self):
        (self.folder / "torch.py").write_text(
            "__version__ = '2.1.0'\nclass cuda:\n    is_available = staticmethod(lambda: False)\n")
        found = self.findings(PYTHONPATH=str(self.folder))
        self.assertIn("2.5 or newer", found["Python"]["means"])

    def test_a_python_that_never_answers_is_not_waited_for_forever(self):
        slow = self.folder / "python"
        slow.write_text("#!/bin/sh\nexit 3\n")
        slow.chmod(0o755)
        self.assertEqual(self.findings("--python", str(slow))["Python"]["health"], "limited")


if __name__ == "__main__":
    live.main()
