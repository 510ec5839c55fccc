# SPDX-License-Identifier: Apache-2.0
"""plimsoll calibrate on devices whose clock is simulated (fake_cuda.cpp): what it writes is what they reach."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = None
LIBRARY = None


class Calibrate(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("libcublasLt.so.12", "libnccl.so.2"):
            (self.folder / name).symlink_to(LIBRARY)

    def run_program(self, *words, how="", cuda=None):
        environment = {**os.environ, "PLIMSOLL_CUDA": cuda or LIBRARY, "PLIMSOLL_FAKE_CUDA": how,
                       "PLIMSOLL_NVML": "/nowhere/libnvidia-ml.so.1"}
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=120, env=environment)

    def calibrate(self, *words, how=""):
        if "--python" not in words:
            words += ("--python", self.python("print('{\"missing\": \"there is no PyTorch here\"}')"))
        return self.run_program("calibrate", "--quick", "--library", str(self.folder), *words, how=how)

    def python(self, body):
        """A stand-in for the user's Python, which answers whatever it is asked."""
        path = self.folder / f"python-{len(list(self.folder.iterdir()))}"
        path.write_text(f"#!{sys.executable}\n{body}\n")
        path.chmod(0o755)
        return str(path)

    def answer(self, *words, how=""):
        done = self.calibrate("--json", *words, how=how)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def values(self, answer):
        found = {**answer["values"], **answer["devices"]["h200-sxm-141gb"]}
        return {name: entry["value"] for name, entry in found.items()}

    def test_the_rates_of_the_device_come_out(self):
        answer = self.answer()
        self.assertEqual(answer["gpu"], "h200-sxm-141gb")
        self.assertEqual(answer["machine"]["gpu_name"], "NVIDIA H200")
        values = self.values(answer)
        # The simulated products know nothing of waves and launches, which the formula charges for.
        self.assertAlmostEqual(values["gemm_bf16"], 600 / 989, delta=0.03)
        self.assertAlmostEqual(values["half_depth_bf16"], 100, delta=40)
        # A warm one loses a tenth, which the formats after the first have met.
        self.assertAlmostEqual(values["gemm_fp8"], 0.94 * 1000 / 1979, delta=0.03)
        self.assertAlmostEqual(values["gemm_tf32"], 300 / 1.1 / 494.5, delta=0.05)
        self.assertAlmostEqual(values["gemm_fp32"], 50 / 1.1 / 67, delta=0.05)
        moved = 2 * (224 << 20)  # copies of 32, 64 and 128 MiB, each with 2 us of its launch
        self.assertAlmostEqual(values["stream"], moved / (moved / 3e12 + 3 * 2e-6) / 4.8e12, delta=0.002)
        self.assertAlmostEqual(values["host_link"], 40 / 63, delta=0.01)
        self.assertAlmostEqual(values["kernel_floor"], 2.1e-6, delta=2e-7)
        self.assertGreater(answer["measured"]["launch_seconds"], 0)
        self.assertNotIn("nvlink", values)

    def test_a_host_that_is_twice_as_fast_halves_what_the_host_costs(self):
        def pass_of(seconds):
            times = [seconds / 2] * 40
            return self.python("import json; print(json.dumps({'python': '3.12.3', 'torch': '2.11.0', 'launches': 581, "
                               f"'weights': 64, 'forward_seconds': {times}, 'backward_seconds': {times}}}))")

        slow, fast = (self.answer("--python", pass_of(seconds)) for seconds in (0.016, 0.008))
        self.assertAlmostEqual(self.values(fast)["host_speed"] / self.values(slow)["host_speed"], 2, delta=1e-6)
        self.assertAlmostEqual(self.values(slow)["host_speed"], 0.85 * (581 + 64) * 29e-6 / 0.016, delta=0.01)
        self.assertEqual(fast["measured"]["host"]["launches"], 581)
        said = self.calibrate("--python", pass_of(0.016)).stdout
        self.assertIn("27.5 us with Python and PyTorch", said)

    def test_a_python_that_tells_nothing_useful_is_left_out_and_said(self):
        for body, said in (("print('{\"missing\": \"there is no PyTorch here\"}')", "there is no PyTorch here"),
                           ("print('hello')", "JSON"), ("raise SystemExit(1)", "failed"),
                           ("print('{\"launches\": 0}')", "launches"),
                           ("print('{\"launches\": 5, \"weights\": 2, \"forward_seconds\": [1, 2]}')", "forward_seconds"),
                           ("print('{\"launches\": 5, \"weights\": 2, \"forward_seconds\": [1, 2, -3, 4, 5]}')", "-3")):
            with self.subTest(body):
                answer = self.answer("--python", self.python(body))
                self.assertNotIn("host_speed", self.values(answer))
                self.assertTrue(any("on the host" in left and said in left for left in answer["left_out"]),
                                answer["left_out"])
        answer = self.answer("--python", "/nowhere/python3")
        self.assertNotIn("host_speed", self.values(answer))

    def test_messages_between_two_gpus(self):
        values = self.values(self.answer(how="two"))
        self.assertAlmostEqual(values["nvlink"], 200 / 450, delta=0.01)
        self.assertAlmostEqual(values["all_to_all_nvlink"], 100 / 450, delta=0.01)
        self.assertAlmostEqual(values["latency_nvlink"], 10e-6, delta=1e-6)

    def test_the_file_is_taken_by_jobs_on_that_gpu_and_refused_by_others(self):
        out = self.folder / "mine.json"
        done = self.calibrate("--out", str(out))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("gemm_bf16", done.stdout)
        job = ["fit", "--model", "llama3-8b", "--seq-length", "4096", "--micro-batch-size", "1", "--bf16",
               "--framework", "fsdp2", "--gpus", "8", "--json"]
        seconds = []
        for words in ([], ["--calibration", str(out)]):
            fit = self.run_program(*job, "--gpu", "h200", *words)
            self.assertIn(fit.returncode, (0, 1), fit.stderr)
            seconds.append(json.loads(fit.stdout)["time"]["step_seconds"])
        self.assertGreater(seconds[1], 1.1 * seconds[0], "600 TFLOP/s against the 761 of a real one")
        refused = self.run_program(*job, "--gpu", "h100", "--calibration", str(out))
        self.assertEqual(refused.returncode, 3)
        self.assertIn("measured on h200-sxm-141gb", refused.stderr)
        plan = self.run_program("plan", *job[1:-1], "--gpu", "h100", "--calibration", str(out))
        self.assertEqual(plan.returncode, 3, plan.stdout)
        again = self.calibrate("--out", str(out))
        self.assertEqual(again.returncode, 3, "a file that is there stays")

    def test_what_the_library_does_not_multiply_is_left_out_and_said(self):
        answer = self.answer(how="no-fp8")
        self.assertNotIn("gemm_fp8", self.values(answer))
        self.assertTrue(any("fp8" in left for left in answer["left_out"]), answer["left_out"])

    def test_a_driver_that_aborts_ends_neither_the_words_nor_the_exit_code(self):
        done = self.calibrate("--out", str(self.folder / "mine.json"), how="abort")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("signal 6", done.stderr)
        self.assertFalse((self.folder / "mine.json").exists())

    def test_what_is_missing_is_exit_4_and_named(self):
        for how, said in (("no-device", "sees no GPU"), ("no-init", "CUDA_ERROR_NO_DEVICE"),
                          ("no-memory", "CUDA_ERROR_OUT_OF_MEMORY"), ("stuck", "clock did not advance"),
                          ("other", "not in the catalogue")):
            with self.subTest(how):
                done = self.calibrate(how=how)
                self.assertEqual(done.returncode, 4, done.stdout)
                self.assertIn(said, done.stderr)
        done = self.run_program("calibrate", cuda="/nowhere/libcuda.so.1")
        self.assertEqual(done.returncode, 4)
        self.assertIn("no NVIDIA driver", done.stderr)
        (self.folder / "libcublasLt.so.12").unlink()
        (self.folder / "libcublasLt.so.12").write_text("not a library")
        done = self.calibrate()
        self.assertEqual(done.returncode, 4)
        self.assertIn("libcublasLt", done.stderr)
        done = self.calibrate("--device", "7")
        self.assertEqual(done.returncode, 4)
        self.assertEqual(self.calibrate("--device", "x").returncode, 2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--library", required=True)
    options, rest = parser.parse_known_args()
    PROGRAM, LIBRARY = os.path.abspath(options.program), os.path.abspath(options.library)
    unittest.main(argv=[sys.argv[0], *rest])
