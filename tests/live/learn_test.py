# SPDX-License-Identifier: Apache-2.0
"""plimsoll learn: what runs that trained say of later predictions, and what they may not say."""

import copy
import json

import live

RECORDED = live.ROOT / "tests/data/live/h200/fit-llama-events/run.json"
PREDICTED = 0.17484843067755892  # seconds, in the record


class Learn(live.Live):
    def write_runs(self, factors, outside=900 << 20, gpu=None):
        """Runs whose steps took these times the prediction."""
        record = json.loads(RECORDED.read_text())
        for number, factor in enumerate(factors):
            run = copy.deepcopy(record)
            run["records"][0]["measured"].update(step_seconds=PREDICTED * factor, outside=outside)
            if gpu:
                run["job"] = run["job"].replace("h200-sxm-141gb", gpu)
            folder = self.folder / "runs" / f"{gpu or 'same'}-{number}"
            folder.mkdir(parents=True)
            (folder / "run.json").write_text(json.dumps(run))

    def seconds(self, *flags):
        fit = self.plimsoll("fit", live.ROOT / "tests/data/live/h200/fit-llama-events/job.toml", "--json", *flags)
        return json.loads(fit.stdout)["time"]["step_seconds"], fit.stderr

    def test_a_steady_factor_is_learned_and_acts(self):
        self.write_runs([1.30, 1.31, 1.29, 1.30])
        done = self.plimsoll("learn", "runs", "--out", "learned.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        group = json.loads((self.folder / "learned.json").read_text())["groups"][0]
        before, _ = self.seconds()
        self.assertAlmostEqual(group["time_factor"] * before / (1.30 * PREDICTED), 1, places=2)
        self.assertEqual(group["context"], 900 << 20)
        after, said = self.seconds("--calibration", self.folder / "learned.json")
        self.assertAlmostEqual(after / before, group["time_factor"], places=3)
        self.assertIn("learned from 4 runs", said)

    def test_the_table_still_sums_to_the_capacity(self):
        self.write_runs([1.1, 1.1, 1.1])
        self.plimsoll("learn", "runs", "--out", "learned.json")
        fit = self.plimsoll("fit", live.ROOT / "tests/data/live/h200/fit-llama-events/job.toml", "--json", "--calibration",
                            "learned.json")
        rank = json.loads(fit.stdout)["ranks"][0]
        self.assertEqual(sum(row["bytes"] for row in rank["table"]), rank["capacity_bytes"])
        self.assertEqual([row["bytes"] for row in rank["table"] if row["name"] == "CUDA context"], [900 << 20])

    def test_noise_is_not_learned(self):
        self.write_runs([0.5, 1.6, 0.6, 1.5, 1.02], outside=0)
        done = self.plimsoll("learn", "runs", "--out", "learned.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("would not have come out nearer", done.stdout)
        self.assertFalse((self.folder / "learned.json").exists())

    def test_two_runs_are_too_few(self):
        self.write_runs([1.3, 1.3])
        done = self.plimsoll("learn", "runs")
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 runs; wanted 3", done.stdout)

    def test_another_gpu_is_left_alone_and_told_so(self):
        self.write_runs([1.3, 1.3, 1.3], gpu="h100-sxm-80gb")
        self.assertEqual(self.plimsoll("learn", "runs", "--out", "learned.json").returncode, 0)
        before, _ = self.seconds()
        after, said = self.seconds("--calibration", self.folder / "learned.json")
        self.assertEqual(before, after)
        self.assertIn("it does not act", said)

    def test_a_run_that_failed_teaches_nothing(self):
        done = self.plimsoll("learn", live.ROOT / "tests/data/live/h200/oom-forward")
        self.assertEqual(done.returncode, 3)
        self.assertIn("the run failed", done.stderr)

    def test_a_run_of_another_job_than_it_says_teaches_nothing(self):
        done = self.plimsoll("learn", live.ROOT / "tests/data/live/h200/wrong-knob")
        self.assertEqual(done.returncode, 3)
        self.assertIn("not of the job that --job named", done.stderr)

    def test_files_that_are_no_runs_are_refused(self):
        (self.folder / "x.json").write_text("{}")
        self.assertEqual(self.plimsoll("learn", "x.json").returncode, 3)
        (self.folder / "bad.json").write_text('{"kind": "plimsoll-learned", "groups": [{"gpu": "h100", "framework": "x", "time_factor": 99}]}')
        done = self.plimsoll("fit", live.ROOT / "examples/llama3-70b.toml", "--calibration", "bad.json")
        self.assertEqual(done.returncode, 3)
        self.assertIn("time_factor is 99", done.stderr)


if __name__ == "__main__":
    live.main()
