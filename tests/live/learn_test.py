# SPDX-License-Identifier: Apache-2.0
"""plimsoll learn: what runs that trained say of later predictions, and what they may not say."""

import copy
import json

import live

RECORDED = live.ROOT / "tests/data/live/h200/fit-llama-events/run.json"
PREDICTED = 0.17484843067755892  # seconds, in the record


class Learn(live.Live):
    def write_runs(self, factors, outside=900 << 20, gpu=None, tensors=1.0, cached=1.0):
        """Runs whose steps took these times the prediction; tensors and the allocator's cache, so many times theirs."""
        record = json.loads(RECORDED.read_text())
        rank = json.loads(self.plimsoll("fit", RECORDED.parent / "job.toml", "--json").stdout)["ranks"][0]
        predicted = (rank["peak_allocated_bytes"], rank["peak_reserved_bytes"] - rank["peak_allocated_bytes"])
        for number, factor in enumerate(factors):
            run = copy.deepcopy(record)
            run["records"][0]["measured"].update(step_seconds=PREDICTED * factor, outside=outside)
            if tensors != 1 or cached != 1:
                allocated = round(predicted[0] * (tensors + 0.0001 * number))
                run["records"][0]["measured"].update(
                    peak_allocated=allocated, peak_reserved=allocated + round(predicted[1] * (cached + 0.01 * number)))
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

    def test_residuals_of_tensors_and_of_the_cache_are_learned_apart(self):
        self.write_runs([1.0, 1.001, 0.999, 1.0], outside=0, tensors=1.03, cached=2.5)
        self.assertEqual(self.plimsoll("learn", "runs", "--out", "learned.json").returncode, 0)
        group = json.loads((self.folder / "learned.json").read_text())["groups"][0]
        self.assertAlmostEqual(group["tensor_factor"], 1.03, places=3)
        self.assertAlmostEqual(group["cached_factor"], 2.5, places=1)
        job = RECORDED.parent / "job.toml"
        ranks = [json.loads(self.plimsoll("fit", job, "--json", *flags).stdout)["ranks"][0]
                 for flags in ((), ("--calibration", "learned.json"))]
        kept = [rank["peak_reserved_bytes"] - rank["peak_allocated_bytes"] for rank in ranks]
        self.assertAlmostEqual(ranks[1]["peak_allocated_bytes"] / ranks[0]["peak_allocated_bytes"], group["tensor_factor"], places=6)
        self.assertAlmostEqual(kept[1] / kept[0], group["cached_factor"], places=6)
        for rank in ranks:
            self.assertEqual(sum(row["bytes"] for row in rank["table"]), rank["capacity_bytes"])
        said = self.plimsoll("fit", job, "--calibration", "learned.json").stderr
        self.assertIn("tensors take 1.03", said)
        self.assertIn("the allocator keeps 2.5", said)

    def test_a_plan_leaves_room_for_what_tensors_take_more(self):
        group = {"gpu": "h100-sxm-80gb", "framework": "fsdp2", "runs": 4, "tensor_factor": 1.08}
        (self.folder / "more.json").write_text(json.dumps({"schema": 1, "kind": "plimsoll-learned", "groups": [group]}))
        words = ("plan", "--model", "llama3.2-1b", "--gpu", "h100", "--gpus", "8", "--seq-length", "4096",
                 "--global-batch-size", "64", "--framework", "fsdp2", "--top", "3", "--json")
        before = json.loads(self.plimsoll(*words).stdout)["plans"]
        after = json.loads(self.plimsoll(*words, "--calibration", "more.json").stdout)["plans"]
        same = {json.dumps(row["settings"]): row for row in before}
        matched = [(same[key], row) for row in after if (key := json.dumps(row["settings"])) in same]
        self.assertTrue(matched)
        for old, new in matched:
            self.assertAlmostEqual(new["peak_allocated"] / old["peak_allocated"], 1.08, places=6)

    def test_figures_out_of_range_are_refused(self):
        for key, value in (("tensor_factor", 1.5), ("cached_factor", -1), ("context", -5)):
            group = {"gpu": "h100-sxm-80gb", "framework": "fsdp2", "runs": 4, key: value}
            (self.folder / "bad.json").write_text(json.dumps({"schema": 1, "kind": "plimsoll-learned", "groups": [group]}))
            done = self.plimsoll("fit", live.ROOT / "examples/llama3-70b.toml", "--calibration", "bad.json")
            self.assertEqual(done.returncode, 3, key)
            self.assertIn(f"{key} is", done.stderr)

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


FACTOR = 1.5
CONTEXT = 3 << 30
JOB = live.ROOT / "examples/llama3-70b.toml"  # Megatron-Bridge on 32 H100


class EveryVerb(live.Live):
    """What learn wrote acts on every verb that predicts, by the same factor and the same bytes, and each says so."""

    def setUp(self):
        super().setUp()
        groups = [{"gpu": "h100-sxm-80gb", "framework": framework, "runs": 4, "time_factor": FACTOR, "context": CONTEXT}
                  for framework in ("megatron-bridge", "megatron-lm", "fsdp2", "transformers")]
        (self.folder / "learned.json").write_text(
            json.dumps({"schema": 1, "kind": "plimsoll-learned", "groups": groups}))

    def both(self, *words, flags=("--calibration", "learned.json")):
        """The answers without it and with it; that the second says so."""
        plain = self.plimsoll(*words)
        learned = self.plimsoll(*words, *flags)
        self.assertNotIn("learned from", plain.stderr)
        self.assertIn("the step is 1.500 times the built-in prediction, learned from 4 runs", learned.stderr)
        self.assertIn("context and libraries take 3.00 GiB of a device, learned from 4 runs", learned.stderr)
        return plain, learned

    def both_json(self, *words, **more):
        return [json.loads(done.stdout) for done in self.both(*words, "--json", **more)]

    def assert_acts(self, before, after, seconds, used, context=512 << 20):
        self.assertAlmostEqual(seconds(after) / seconds(before), FACTOR, places=6)
        self.assertEqual(used(after) - used(before), CONTEXT - context)

    def test_fit(self):
        self.assert_acts(*self.both_json("fit", JOB), lambda a: a["time"]["step_seconds"],
                         lambda a: a["ranks"][0]["device_used_bytes"])

    def test_plan_prices_its_rows_with_it(self):
        words = ("plan", "--model", "llama3.2-1b", "--gpu", "h100", "--gpus", "8", "--seq-length", "4096",
                 "--global-batch-size", "64", "--framework", "fsdp2", "--top", "3")
        before, after = self.both_json(*words)
        self.assertEqual([row["settings"] for row in before["plans"]], [row["settings"] for row in after["plans"]])
        for old, new in zip(before["plans"], after["plans"]):
            self.assert_acts(old, new, lambda row: row["step_seconds"], lambda row: row["device_used"])

    def test_a_plan_that_the_context_leaves_no_room_for_is_not_offered(self):
        groups = [{"gpu": "h100-sxm-80gb", "framework": "fsdp2", "runs": 4, "context": 60 << 30}]
        (self.folder / "full.json").write_text(
            json.dumps({"schema": 1, "kind": "plimsoll-learned", "groups": groups}))
        words = ("plan", "--model", "llama3-8b", "--gpu", "h100", "--gpus", "8", "--seq-length", "8192",
                 "--global-batch-size", "64", "--framework", "fsdp2", "--json")
        before = json.loads(self.plimsoll(*words).stdout)["plans"]
        after = json.loads(self.plimsoll(*words, "--calibration", "full.json").stdout)["plans"]
        self.assertGreater(max(row["device_used"] for row in before), 20 << 30)
        self.assertTrue(all(row["headroom"] >= 0 for row in after))
        self.assertNotEqual([row["settings"] for row in before], [row["settings"] for row in after])

    def test_climbing_from_a_job(self):
        plain, learned = self.both("plan", "--from", JOB)
        self.assertIn("fits already", plain.stdout)
        self.assertNotIn("fits already", learned.stdout)

    def test_how_few_gpus_and_how_much_fits(self):
        words = ("plan", "--model", "llama3.2-1b", "--gpu", "h100", "--framework", "fsdp2", "--seq-length", "4096",
                 "--global-batch-size", "64")
        self.both(*words, "--gpus", "8", "--min-gpus")
        self.both(*words, "--gpus", "4", "--max", "seq_length")

    def test_a_post_training_run(self):
        before, after = self.both_json("rl", live.ROOT / "examples/rl/telescope-megatron.toml")
        self.assertGreater(after["period_seconds"], 1.2 * before["period_seconds"])  # the trainer is what it waits for
        peaks = [[peak["bytes"] for peak in answer["trainer_memory"]["peaks"]] for answer in (before, after)]
        self.assertEqual([new - old for old, new in zip(*peaks)], 3 * [CONTEXT - (512 << 20)])

    def test_why_prices_its_fixes_with_it(self):
        log = live.ROOT / "tests/data/live/h200/oom-forward/output.log"
        self.both("why", log, "--job", JOB)

    def test_a_run_is_compared_with_it(self):
        words = ("run", "--job", JOB, "--out")
        plain = self.plimsoll(*words, "a", "--", "true")
        learned = self.plimsoll(*words, "b", "--calibration", "learned.json", "--", "true")
        self.assertNotIn("learned from", plain.stderr)
        self.assertIn("learned from 4 runs", learned.stderr)
        self.assertIn("predicted 77.58 GiB", plain.stderr)
        self.assertIn("predicted 80.08 GiB", learned.stderr)

    def test_watching(self):
        self.plimsoll("run", "--job", JOB, "--out", "r", "--", "true")
        (self.folder / "r/rank-0.jsonl").write_text('{"event":"begin","rank":0,"world":32,"device":0,"total":84942979072}\n')
        self.both_json("watch", "r", "--count", "1")

    def test_two_jobs_compared(self):
        other = live.ROOT / "examples/llama3-70b-8k.toml"
        self.assert_acts(*self.both_json("diff", JOB, other), lambda a: a["a"]["step_seconds"],
                         lambda a: a["b"]["device_used"])

    def test_scores(self):
        job = live.ROOT / "tests/data/live/h200/fit-llama-events"
        learned = json.loads((self.folder / "learned.json").read_text())
        for group in learned["groups"]:
            group["gpu"] = "h200-sxm-141gb"
        (self.folder / "learned.json").write_text(json.dumps(learned))
        before, after = self.both_json("score", job, "--quantity", "step_seconds")
        self.assertAlmostEqual(after["rows"][0]["predicted"] / before["rows"][0]["predicted"], FACTOR, places=6)

    def test_the_list_of_a_repository(self):
        for name, calibration in (("plain", ""), ("learned", 'calibration = "learned.json"\n')):
            (self.folder / f"{name}.toml").write_text(f'{calibration}[[job]]\nname = "j"\nfiles = ["{JOB}"]\n')
        answers = [self.plimsoll("check", f"{name}.toml", "--json") for name in ("plain", "learned")]
        self.assertNotIn("learned from", answers[0].stderr)
        self.assertIn("learned from 4 runs", answers[1].stderr)
        seconds = [json.loads(done.stdout)["jobs"][0]["step_seconds"] for done in answers]
        self.assertAlmostEqual(seconds[1] / seconds[0], FACTOR, places=6)


if __name__ == "__main__":
    live.main()
