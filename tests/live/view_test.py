# SPDX-License-Identifier: Apache-2.0
"""plimsoll view of folders: of a run, of many ranks' snapshots, of many ranks' logs; and with what was learned."""

import json
import pickle
import re
import shutil

import live

RECORDED = live.ROOT / "tests/data/live/h200"
MIB = 1 << 20


class View(live.Live):
    def setUp(self):
        super().setUp()
        page = self.folder / "page"
        page.mkdir()
        for name, text in {"index.html": "<!doctype html><title>page</title>", "page.js": "console.log(1)",
                           "page.css": "body{}", "page.js.sha256": "sha256-abc=\n"}.items():
            (page / name).write_text(text)
        self.env = self.environment(PLIMSOLL_PAGE=str(page))

    def shown(self, *words):
        """The names of the files on the page, by kind, and the page."""
        done = self.plimsoll("view", *words, "--html", "page.html", "--force", env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = (self.folder / "page.html").read_text()
        files = json.loads(re.search(r'"files": (\[.*?\n  \])', text, re.S).group(1))
        return [(item["kind"], item["name"].rsplit("/", 1)[1]) for item in files], text

    def write_snapshot(self, path, size):
        segment = {"device": 0, "address": 1 << 30, "total_size": 64 * MIB, "allocated_size": size, "active_size": size,
                   "requested_size": size, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
                   "is_expandable": False, "frames": [],
                   "blocks": [{"address": 1 << 30, "size": size, "requested_size": size, "state": "active_allocated",
                               "frames": []},
                              {"address": (1 << 30) + size, "size": 64 * MIB - size, "requested_size": 0,
                               "state": "inactive", "frames": []}]}
        with open(path, "wb") as file:
            pickle.dump({"segments": [segment], "device_traces": [[]], "allocator_settings": {}}, file)

    def test_a_run_shows_its_job_its_logs_and_its_snapshot(self):
        shutil.copytree(RECORDED / "leak", self.folder / "r")
        self.write_snapshot(self.folder / "r/rank-0.oom.pickle", 8 * MIB)
        files, _ = self.shown("r")
        self.assertEqual(files, [("job", "job.toml"), ("log", "steps.log"), ("log", "output.log"),
                                 ("recording", "rank-0.oom.pickle")])

    def test_of_many_ranks_one_of_each_group_is_shown_and_outliers_first(self):
        (self.folder / "s").mkdir()
        for rank in range(40):
            self.write_snapshot(self.folder / f"s/rank-{rank}.pickle", (32 if rank == 17 else 8 + rank % 2) * MIB)
        files, _ = self.shown("s")
        self.assertEqual(files[0], ("recording", "rank-17.pickle"))
        self.assertEqual(len(files), 3)

    def test_of_logs_those_that_say_why(self):
        (self.folder / "logs").mkdir()
        for rank in range(30):
            (self.folder / f"logs/rank-{rank}.log").write_text("step 1 loss 2.0\nstep 2 loss 1.9\n")
        shutil.copy(RECORDED / "oom-forward/output.log", self.folder / "logs/rank-11.log")
        files, text = self.shown("logs")
        self.assertEqual(files, [("log", "rank-11.log")])
        self.assertIn("activation-bound", text)

    def test_what_holds_nothing_to_show_is_refused(self):
        (self.folder / "empty").mkdir()
        (self.folder / "bare").mkdir()
        (self.folder / "bare/rank-0.jsonl").write_text('{"event":"begin","rank":0}\n')
        for folder in ("empty", "bare", "nowhere"):
            self.assertEqual(self.plimsoll("view", folder, "--html", "x.html", env=self.env).returncode, 3, folder)

    def test_a_job_without_an_answer_leaves_no_page(self):
        (self.folder / "job.toml").write_text('framework = "megatron-lm"\nmodel = "no-such-model"\n')
        done = self.plimsoll("view", "job.toml", "--html", "x.html", env=self.env)
        self.assertEqual(done.returncode, 3)
        self.assertIn("no-such-model", done.stderr)
        self.assertFalse((self.folder / "x.html").exists())

    def test_what_was_learned_acts_and_is_said_on_the_page(self):
        (self.folder / "learned.json").write_text(json.dumps(
            {"schema": 1, "kind": "plimsoll-learned",
             "groups": [{"gpu": "h100-sxm-80gb", "framework": "megatron-bridge", "runs": 4, "time_factor": 1.5}]}))
        job = live.ROOT / "examples/llama3-70b.toml"
        seconds = []
        for flags in ((), ("--calibration", "learned.json")):
            _, text = self.shown(job, *flags)
            self.assertEqual("learned from 4 runs" in text, bool(flags))
            seconds.append(float(re.search(r'"step_seconds": ([0-9.]+)', text).group(1)))
        self.assertAlmostEqual(seconds[1] / seconds[0], 1.5, places=6)


if __name__ == "__main__":
    live.main()
