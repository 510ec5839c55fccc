# SPDX-License-Identifier: Apache-2.0
"""Every verb answers from Python as on the command line, to the byte."""
import subprocess
import sys
import threading
import time
import unittest

import plimsoll as pl
from support import DATA, EXAMPLES, ROOT, program, program_text

JOBS = [
    [EXAMPLES / "llama3-70b.toml"],
    [EXAMPLES / "llama3-70b-8k.toml"],
    [EXAMPLES / "torchtitan" / "llama3-8b.toml", "--gpu", "h100-sxm-80gb", "--gpus", "8"],
    [EXAMPLES / "transformers" / "config.json", EXAMPLES / "transformers" / "training_args.json", "--gpu",
     "h200-sxm-141gb", "--gpus", "1"],
    [EXAMPLES / "transformers" / "config.json", EXAMPLES / "transformers" / "training_args.json",
     EXAMPLES / "transformers" / "ds_zero3.json", "--gpu", "h100-sxm-80gb", "--gpus", "8"],
    [EXAMPLES / "transformers" / "config.json", EXAMPLES / "transformers" / "training_args.json",
     EXAMPLES / "transformers" / "accelerate_fsdp.yaml", "--gpu", "h100-sxm-80gb", "--gpus", "8"],
    [EXAMPLES / "transformers" / "naive.toml"],
    [EXAMPLES / "megatron-bridge" / "llama3-70b-sft-fp8.toml"],
    [EXAMPLES / "megatron-bridge" / "overrides.py", "--model", "llama3-70b", "--gpu", "h100-sxm-80gb", "--gpus", "64"],
    [EXAMPLES / "megatron-bridge" / "harness.sh"],
    [EXAMPLES / "megatron-lm" / "llama3-8b.sh", "--gpu", "h100-sxm-80gb", "--gpus", "8"],
    [EXAMPLES / "tutorial" / "job.toml"],
]


def read(words):
    files = [word for word in words if not isinstance(word, str)]
    flags = [word for word in words if isinstance(word, str)]
    keys = {flags[i].removeprefix("--"): flags[i + 1] for i in range(0, len(flags), 2)}
    return pl.read(*files, **keys)


class Fit(unittest.TestCase):
    def test_says_what_the_command_line_says(self):
        for words in JOBS:
            with self.subTest(words=words):
                self.assertEqual(pl.fit(read(words), changes=True).to_json(), program_text("fit", *words))

    def test_every_example_of_a_job_is_asked(self):
        asked = {word for words in JOBS for word in words if not isinstance(word, str)}
        # Not jobs: logs, post-training runs, scripts of clusters, lists of jobs, what belongs to another file.
        others = {"ci", "logs", "rl", "slurm", "notebook"}
        there = {path for path in EXAMPLES.rglob("*") if path.is_file() and path.suffix != ".md"
                 and path.relative_to(EXAMPLES).parts[0] not in others}
        self.assertEqual(there - asked, {EXAMPLES / "tutorial" / "config.json"})

    def test_has_its_figures_as_attributes(self):
        answer = pl.fit(EXAMPLES / "llama3-70b.toml")
        worst = answer.to_dict()["ranks"][0]
        self.assertEqual(answer.fits, answer.to_dict()["fits"])
        self.assertEqual(answer.worst.device_used, worst["device_used_bytes"])
        self.assertEqual(sum(row.bytes for row in answer.worst.table), answer.worst.capacity)
        self.assertEqual(answer.time.seconds, answer.to_dict()["time"]["step_seconds"])
        self.assertEqual(answer.job.framework, answer.to_dict()["job"]["framework"])

    def test_of_a_varied_job_is_that_of_its_flags(self):
        job = pl.read(EXAMPLES / "llama3-70b.toml")
        for keys in ({"micro_batch_size": 2}, {"tp": 8}, {"sequence_parallel": False},
                     {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}):
            flags = []
            for key, value in keys.items():
                name = key.replace("_", "-")
                flags += [f"--no-{name}"] if value is False else [f"--{name}", str(value)]
            with self.subTest(keys=keys):
                self.assertEqual(pl.fit(job.with_(**keys), changes=True).to_dict(),
                                 program("fit", EXAMPLES / "llama3-70b.toml", *flags))

    def test_a_job_does_not_change_when_it_is_varied(self):
        job = pl.read(EXAMPLES / "llama3-70b.toml")
        before = pl.fit(job).worst.device_used
        job.with_(micro_batch_size=4)
        self.assertEqual(pl.fit(job).worst.device_used, before)

    def test_what_is_told_at_once_is_what_the_walk_tells(self):
        for words in JOBS:
            with self.subTest(words=words):
                job = read(words)
                at_once, walked = pl.fit(job), pl.fit(job).to_dict()
                time_of = walked["time"]
                self.assertEqual((at_once.time.seconds, at_once.time.low, at_once.time.high, at_once.time.mfu),
                                 (time_of["step_seconds"], *time_of["interval"].values(), time_of["mfu"]))
                self.assertEqual(at_once.estimate.tensors, max(walked["tensor_peak_bytes_by_stage"]))
                self.assertIsNone(at_once._walked)
                self.assertEqual(at_once.fits, walked["fits"])

    def test_what_cannot_fit_is_said_without_a_walk(self):
        answer = pl.fit(pl.read(EXAMPLES / "llama3-70b.toml", seq_length=16384))
        self.assertEqual((answer.may_fit, answer.fits, bool(answer), answer._walked), (False, False, False, None))
        self.assertFalse(answer.to_dict()["fits"])

    def test_errors_come_with_the_call(self):
        job = pl.read(EXAMPLES / "llama3-70b.toml")
        with self.assertRaisesRegex(pl.InputError, "R001"):
            pl.fit(job.with_(tp=3))
        with self.assertRaisesRegex(pl.InputError, "unknown allocator setting 'nonsense'"):
            pl.fit(job.with_(environment={"PYTORCH_CUDA_ALLOC_CONF": "nonsense:1"}))
        with self.assertRaisesRegex(pl.UsageError, "pipeline ranks 0 to 3"):
            pl.fit(job, rank=9)

    def test_five_thousand_what_ifs_in_a_second(self):
        """Of one core: seconds, tensors and whether it may fit. The best of some rounds, because others work here."""
        job = pl.read(EXAMPLES / "llama3-70b.toml")
        rounds = []
        for _ in range(10):
            begun = time.process_time()
            for index in range(200):
                answer = pl.fit(job.with_(micro_batch_size=1 + index % 2))
                self.assertGreater(answer.time.seconds * answer.estimate.tensors, 0)
                self.assertEqual(answer.may_fit, index % 2 == 0)
            rounds.append(200 / (time.process_time() - begun))
        self.assertGreater(max(rounds), 5000)

    def test_repr_is_the_text_and_html_has_the_bar(self):
        answer = pl.fit(EXAMPLES / "llama3-70b.toml")
        self.assertIn("memory of rank", repr(answer))
        page = answer._repr_html_()
        self.assertIn("GiB", page)
        self.assertNotIn("<script", page)
        self.assertEqual(page.count("<div"), page.count("</div"))


    def test_chart_draws_every_answer_to_one_scale(self):
        job = pl.read(EXAMPLES / "llama3-70b.toml")
        chart = pl.chart({"one": pl.fit(job), "two & more": pl.fit(job.with_(micro_batch_size=2))})
        self.assertIn("two &amp; more", chart.svg)
        self.assertEqual(chart.svg.count("<line"), 2)
        self.assertIn("two & more: does not fit", repr(chart))
        with self.assertRaises(TypeError):
            pl.chart([1, 2])
        with self.assertRaises(TypeError):
            pl.chart({})


class Estimate(unittest.TestCase):
    def test_has_the_tensors_and_seconds_of_fit(self):
        for words in JOBS:
            with self.subTest(words=words):
                job = read(words)
                estimate, answer = job.estimate(), pl.fit(job).to_dict()
                self.assertEqual(estimate.tensors, max(answer["tensor_peak_bytes_by_stage"]))
                self.assertEqual(estimate.time.seconds, answer["time"]["step_seconds"])
                self.assertEqual(estimate.capacity, answer["ranks"][0]["capacity_bytes"])

    def test_what_may_not_fit_does_not(self):
        job = pl.read(EXAMPLES / "llama3-70b.toml")
        told = {length: job.with_(seq_length=length).estimate().may_fit for length in (4096, 16384)}
        self.assertEqual(told, {4096: True, 16384: False})
        self.assertFalse(pl.fit(job.with_(seq_length=16384)).fits)

    def test_errors_are_those_of_fit(self):
        with self.assertRaisesRegex(pl.InputError, "R001"):
            pl.estimate(EXAMPLES / "llama3-70b.toml", tp=3)


class Values(unittest.TestCase):
    def test_they_print_what_they_hold(self):
        job = pl.read(EXAMPLES / "llama3-70b.toml")
        fit, estimate = pl.fit(job), job.estimate()
        self.assertRegex(repr(fit.worst), r"^rank pp=0: 77\.58 GiB of 79\.10 GiB, 1\.52 GiB free; peak 75\.18 GiB allocated")
        self.assertIn("parameters: 8.46 GiB", repr(fit.worst.table))
        self.assertRegex(repr(fit.time), r"^3\.\d+ s a step \(interval ")
        self.assertRegex(repr(estimate), r"^may fit: 75\.18 GiB of tensors and 1\.25 GiB outside PyTorch of 79\.10 GiB")
        self.assertRegex(repr(pl.fit(job.with_(seq_length=16384)).worst), r"GiB too much; peak")

    def test_they_are_dictionaries_and_tables_too(self):
        fit = pl.fit(EXAMPLES / "llama3-70b.toml")
        self.assertEqual(sum(row["bytes"] for row in fit.worst.to_dict()["table"]), fit.worst.capacity)
        estimate = pl.estimate(EXAMPLES / "llama3-70b.toml")
        self.assertEqual(estimate.to_dict()["time"]["seconds"], estimate.time.seconds)
        self.assertIn("<td>8.46 GiB</td>", fit.worst._repr_html_())


class Import(unittest.TestCase):
    def test_takes_little_time_and_imports_no_framework(self):
        ask = ("import sys, time; begun = time.process_time(); import plimsoll; "
               "print(time.process_time() - begun, sum(name in sys.modules for name in ('torch', 'numpy')))")
        took = []
        for _ in range(5):
            done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
            took.append(float(done.stdout.split()[0]))
            self.assertEqual(done.stdout.split()[1], "0")
        self.assertLess(min(took), 0.05)


class Threads(unittest.TestCase):
    def test_an_answer_leaves_the_interpreter_to_others(self):
        """Held for the whole search, the lock would let the counting thread run before and after it only."""
        done = threading.Event()
        moments = []

        def search():
            begun = time.perf_counter()
            pl.plan("llama3-8b", gpu="h100-sxm-80gb", gpus=16, seq_length=4096, global_batch_size=64)
            moments.append((begun, time.perf_counter()))
            done.set()

        worker = threading.Thread(target=search)
        worker.start()
        ticks = []
        while not done.wait(0.001):
            ticks.append(time.perf_counter())
        worker.join()
        begun, ended = moments[0]
        within = [tick for tick in ticks if begun + 0.2 * (ended - begun) < tick < ended - 0.2 * (ended - begun)]
        self.assertGreater(len(within), 3)


class Errors(unittest.TestCase):
    def test_have_the_words_and_the_code_of_the_command_line(self):
        with self.assertRaises(pl.InputError) as caught:
            pl.fit(EXAMPLES / "llama3-70b.toml", tp=3)
        self.assertEqual(caught.exception.code, 3)
        self.assertIn("32 GPUs cannot be split into groups of TP 3", str(caught.exception))
        with self.assertRaises(pl.InputError):
            pl.read("no-such-file.toml")
        with self.assertRaises(pl.Error):
            pl.fit(EXAMPLES / "llama3-70b.toml", micro_batch_sise=2)

    def test_are_values_that_a_caller_can_catch_as_such(self):
        with self.assertRaises(ValueError):
            pl.fit(EXAMPLES / "llama3-70b.toml", micro_batch_size="two")


class OtherVerbs(unittest.TestCase):
    def test_plan(self):
        keys = {"gpu": "h100-sxm-80gb", "gpus": 16, "seq_length": 4096, "global_batch_size": 64}
        answer = pl.plan("llama3-8b", **keys)
        said = program("plan", "llama3-8b", "--gpu", "h100-sxm-80gb", "--gpus", 16, "--seq-length", 4096,
                       "--global-batch-size", 64)
        self.assertEqual(answer.to_dict()["plans"], said["plans"])
        self.assertEqual(pl.fit(answer.job).worst.device_used, answer.best.device_used)
        self.assertIn("<table>", answer._repr_html_())

    def test_why(self):
        log = next(EXAMPLES.joinpath("logs").iterdir())
        self.assertEqual(pl.why(log).to_dict()["class"], program("why", log)["class"])

    def test_lint_understand_diff_and_climb(self):
        path = EXAMPLES / "llama3-70b.toml"
        self.assertEqual(pl.lint(path).to_dict(), program("lint", path))
        self.assertEqual(pl.understand(path).to_dict(), program("read", path))
        change = pl.diff(path, EXAMPLES / "llama3-70b-8k.toml").to_dict()
        self.assertEqual(change["steps"], program("diff", path, EXAMPLES / "llama3-70b-8k.toml")["steps"])
        ladder = pl.climb(EXAMPLES / "llama3-70b-8k.toml").to_dict()
        self.assertEqual(ladder, program("plan", "--from", EXAMPLES / "llama3-70b-8k.toml"))

    def test_recordings(self):
        path = sorted((DATA / "snapshots").glob("*.pickle.gz"))[0]
        recording = pl.open(path)
        self.assertTrue(recording.has_history)
        self.assertEqual(recording.what_if().to_dict(), program("replay", path, "--what-if"))
        self.assertEqual(recording.replay("expandable_segments:True", peak=True).to_dict(),
                         program("replay", path, "--set", "expandable_segments:True", "--peak"))

    def test_score_and_rl(self):
        truth = sorted((DATA / "truth").glob("*.json"))[0]
        self.assertEqual(pl.score(truth).to_dict()["files"][0]["records"],
                         program("score", truth.relative_to(ROOT))["files"][0]["records"])
        run = sorted(EXAMPLES.joinpath("rl").glob("*.toml"))[0]
        self.assertEqual(pl.rl(run).to_dict(), program("rl", run))


if __name__ == "__main__":
    unittest.main()
