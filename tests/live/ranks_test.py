# SPDX-License-Identifier: Apache-2.0
"""Folders of many ranks: grouped, split into parts and joined again, compared."""

import json
import os
import pickle
import random
import shutil
import subprocess

import live

G = 1 << 30


class Ranks(live.Live):
    def write_folder(self, name, count, large=(), growth=0, out=()):
        folder = self.folder / name
        folder.mkdir()
        for rank in range(count):
            held = 20 * G + (30 * G if rank in large else 0) + growth
            lines = [{"event": "begin", "rank": rank, "world": count, "host": f"node{rank // 8}", "device": 0,
                      "total": 80 * G}]
            lines += [{"event": "step", "n": n, "seconds": 0.5, "allocated": held, "reserved": held + G,
                       "peak_allocated": held, "peak_reserved": held + G} for n in (1, 2, 3)]
            if rank in out:
                lines.append({"event": "oom", "phase": "backward", "requested": G, "step": 3})
            (folder / f"rank-{rank}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return folder

    def write_snapshots(self, name, count):
        folder = self.folder / name
        folder.mkdir()
        for rank in range(count):
            size = (4 << 20) + (rank % 4) * (2 << 20)
            segment = {"device": 0, "address": 1 << 30, "total_size": 16 << 20, "allocated_size": size, "active_size": size,
                       "requested_size": size, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
                       "is_expandable": False, "frames": [],
                       "blocks": [{"address": 1 << 30, "size": size, "requested_size": size, "state": "active_allocated",
                                   "frames": []},
                                  {"address": (1 << 30) + size, "size": (16 << 20) - size,
                                   "requested_size": 0, "state": "inactive", "frames": []}]}
            with open(folder / f"rank-{rank}.pickle", "wb") as file:
                pickle.dump({"segments": [segment], "device_traces": [[]], "allocator_settings": {}}, file)
        return folder

    def test_ranks_that_hold_the_same_are_one_row(self):
        self.write_folder("a", 512, large=(300,), out=(300,))
        text = self.plimsoll("map", "a").stdout
        self.assertIn("512 of 512 files", text)
        self.assertIn("0-299, 301-511", text)
        self.assertIn("stands out", text)
        self.assertIn("ran out in backward: rank 300", text)
        self.assertIn("host node37", text)

    def write_logs(self, name, count, out=(), lost=()):
        """As torchrun redirects them: a folder per rank with two files."""
        for rank in range(count):
            folder = self.folder / name / "attempt_0" / str(rank)
            folder.mkdir(parents=True)
            (folder / "stdout.log").write_text("".join(
                f"iteration {step}/ 100 | elapsed time per iteration (ms): 900.0 | lm loss: 2.{step:02}E+00 |\n"
                for step in range(1, 20)))
            error = ""
            if rank in out:
                error = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total capacity of "
                         "79.10 GiB of which 1.41 GiB is free. Including non-PyTorch memory, this process has 77.69 GiB memory "
                         "in use. Of the allocated memory 74.10 GiB is allocated by PyTorch, and 2.10 GiB is reserved by "
                         "PyTorch but unallocated.\n")
            if rank in lost:
                error = ("[rank%d]:[E ProcessGroupNCCL.cpp:607] [Rank %d] Watchdog caught collective operation timeout: "
                         "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600045 milliseconds before timing "
                         "out.\n" % (rank, rank))
            (folder / "stderr.log").write_text(error)

    def test_logs_say_what_each_rank_died_of(self):
        self.write_logs("logs", 12, out=(7,), lost=(1, 2))
        text = self.plimsoll("map", "logs").stdout
        self.assertIn("24 of 24 files", text)
        self.assertIn("only report that another rank was lost: rank 1-2\n", text)
        self.assertIn("no failure: rank 0, 3-6, 8-11\n", text)
        self.assertRegex(text, r"(?m)^[a-z-]+: rank 7$")
        self.assertRegex(text, r"(?m)^7 +1 +74\.10 +76\.20 ")

    def test_folders_of_logs_are_compared_where_they_show_memory(self):
        self.write_logs("a", 3, out=(1,))
        self.write_logs("b", 3, out=(1, 2))
        text = self.plimsoll("diff", "a", "b").stdout
        self.assertRegex(text, r"(?m)^1 +1 +74\.10 +\+0\.00% +76\.20 +\+0\.00%")
        self.assertIn("without a counterpart: rank 2", text)
        self.assertIn("rank 7", self.plimsoll("replay", self.write_logs("c", 9, out=(7,)) or "c").stdout)
        self.write_logs("silent", 2)
        refused = self.plimsoll("diff", "a", "silent")
        self.assertEqual(refused.returncode, 3)
        self.assertIn("shows what a rank held", refused.stderr)

    def test_parts_of_logs_join_to_the_same_bytes(self):
        self.write_logs("logs", 9, out=(3, 4), lost=(5,))
        (self.folder / "logs/attempt_0/6/stdout.log").write_bytes(b"\x7fELF\0\0\0\1" * 100)
        whole = self.plimsoll("map", "logs", "--json").stdout
        names = []
        for part in (3, 1, 2):
            names.append(f"part-{part}.json")
            self.plimsoll("map", "logs", "--part", f"{part}/3", "--out", names[-1])
        self.assertEqual(self.plimsoll("merge", *names, "--json").stdout, whole)
        self.assertIn("not read: attempt_0/6/stdout.log", self.plimsoll("merge", *names).stdout)

    def test_rank_files_say_who_failed_first_or_vanished(self):
        lost = {"event": "error", "type": "RuntimeError", "message": "NCCL error: remote process exited or there was a network "
                "error, Connection reset by peer"}
        folder = self.write_folder("a", 24)

        def append(rank, *lines):
            with open(folder / f"rank-{rank}.jsonl", "a") as file:
                file.write("".join(json.dumps(line) + "\n" for line in lines))
        for rank in (*range(8), *range(16, 24)):
            append(rank, dict(lost, time=100.0 + rank), {"event": "end", "steps": 3})
        text = self.plimsoll("map", "a").stdout
        self.assertRegex(text, r"ranks 8-15 \(all of \w+\) vanished without an error, the first after step \d+: .*; 16 others")
        append(20, {"event": "error", "time": 200.0, "type": "ValueError", "message": "nan in the loss"})
        text = self.plimsoll("map", "a").stdout
        self.assertIn("rank 20 on ", text)
        self.assertIn("failed first, after step ", text)
        self.assertIn("ValueError: nan in the loss; 15 more failed, 15 of them only because another was lost", text)
        for part in (1, 2, 3):
            self.plimsoll("map", "a", "--part", f"{part}/3", "--out", f"p{part}.json")
        self.assertEqual(self.plimsoll("merge", "p2.json", "p3.json", "p1.json").stdout, text)

    def test_a_run_under_way_has_lost_nobody(self):
        self.write_folder("a", 4)
        self.assertNotIn("ended", self.plimsoll("map", "a").stdout)

    def test_stages_and_experts_that_hold_more_are_named_where_the_job_is_known(self):
        # 64 ranks: four stages, eight ranks that share the experts of a layer.
        folder = self.folder / "a"
        folder.mkdir()
        (folder / "job.toml").write_text(
            'framework = "megatron-bridge"\nmodel = "qwen3-30b-a3b"\ngpu = "h100"\ngpus = 64\n'
            "tensor_model_parallel_size = 1\npipeline_model_parallel_size = 4\nexpert_model_parallel_size = 8\n"
            "seq_length = 4096\nmicro_batch_size = 1\nglobal_batch_size = 64\n")
        for rank in range(64):
            held = 20 * G + (6 * G if rank < 16 else 0) + (3 * G if rank % 8 == 5 else 0)
            (folder / f"rank-{rank}.jsonl").write_text(
                json.dumps({"event": "begin", "rank": rank, "world": 64, "host": "one"}) + "\n"
                + json.dumps({"event": "step", "n": 2, "seconds": 0.5, "peak_allocated": held, "peak_reserved": held})
                + "\n")
        text = self.plimsoll("map", "a").stdout
        self.assertIn("stage 0: 26.38 GiB reserved per rank", text)
        self.assertIn("of 4 stages", text)
        self.assertIn("expert rank 5: 24.50 GiB reserved per rank", text)
        self.assertIn("of 8 expert ranks", text)
        self.assertIn("(stage 3)", text)
        for part in (1, 2):
            self.plimsoll("map", "a", "--part", f"{part}/2", "--out", f"{part}.json")
        self.assertEqual(self.plimsoll("merge", "2.json", "1.json").stdout, text)

    def test_a_run_of_which_one_rank_ran_out_shows_all_its_ranks(self):
        self.write_folder("a", 32, out=(3,))
        self.write_snapshots("s", 4)
        os.rename(self.folder / "s/rank-3.pickle", self.folder / "a/rank-3.oom.pickle")
        text = self.plimsoll("map", "a").stdout
        self.assertIn("32 of 32 files", text)
        self.assertIn("ran out in backward: rank 3", text)

    def test_parts_join_to_the_same_bytes_in_any_order_and_split(self):
        self.write_folder("a", 101, large=(7,))
        whole = self.plimsoll("map", "a", "--json").stdout
        generator = random.Random(7)
        for parts in (1, 2, 5, 16, 101, 150):
            names = []
            for part in range(1, parts + 1):
                name = f"p{parts}-{part}.json"
                self.plimsoll("map", "a", "--part", f"{part}/{parts}", "--out", name)
                names.append(name)
            generator.shuffle(names)
            self.assertEqual(self.plimsoll("merge", *names, names[0], "--json").stdout, whole)
        self.plimsoll("merge", "p5-1.json", "p5-3.json", "--out", "half.json")
        again = self.plimsoll("merge", "p5-5.json", "half.json", "p5-2.json", "p5-4.json", "--json")
        self.assertEqual(again.stdout, whole)

    def test_a_folder_of_parts_is_one_argument(self):
        self.write_folder("a", 10)
        (self.folder / "parts").mkdir()
        for part in (1, 2, 3):
            self.plimsoll("map", "a", "--part", f"{part}/3", "--out", f"parts/part-{part}.json")
        (self.folder / "parts/merge.txt").write_text("what was merged before")
        self.assertEqual(self.plimsoll("merge", "parts").stdout, self.plimsoll("map", "a").stdout)

    def test_a_missing_part_is_said(self):
        self.write_folder("a", 10)
        self.plimsoll("map", "a", "--part", "1/2", "--out", "one.json")
        done = self.plimsoll("merge", "one.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("5 of 10 files", done.stderr)

    def test_parts_of_two_folders_are_refused(self):
        for name, count in (("a", 4), ("b", 5)):
            self.write_folder(name, count)
            self.plimsoll("map", name, "--part", "1/2", "--out", f"{name}.json")
        self.assertEqual(self.plimsoll("merge", "a.json", "b.json").returncode, 3)

    def test_damaged_files_are_named_and_the_rest_is_shown(self):
        folder = self.write_folder("a", 20)
        (folder / "rank-3.jsonl").write_text("nonsense")
        text = self.plimsoll("map", "a").stdout
        self.assertIn("not read: rank-3.jsonl", text)
        self.assertIn("0-2, 4-19", text)
        os.remove(folder / "rank-4.jsonl")
        os.mkfifo(folder / "rank-4.jsonl")  # nobody will ever write into it
        for question in (("map", "a"), ("replay", "a"), ("diff", "a", "a"), ("watch", "a", "--count", "1")):
            self.assertEqual(self.plimsoll(*question).returncode, 0, question)
        self.assertIn("rank-4.jsonl is a pipe; wanted a file", self.plimsoll("map", "a").stdout)
        for share in ("0/2", "3/2", "x", "1/", "1/0"):
            self.assertEqual(self.plimsoll("map", "a", "--part", share).returncode, 2, share)
        self.assertEqual(self.plimsoll("map", "nowhere").returncode, 3)
        (self.folder / "bad.json").write_text('{"kind": "plimsoll-part", "files": 2, "rows": [{"index": 7, "file": "x"}]}')
        self.assertEqual(self.plimsoll("merge", "bad.json").returncode, 3)

    def test_replay_of_a_folder_of_snapshots_groups_them(self):
        self.write_snapshots("s", 40)
        text = self.plimsoll("replay", "s").stdout
        self.assertIn("40 of 40 files", text)
        self.assertEqual(self.plimsoll("replay", "s", "--json").stdout, self.plimsoll("map", "s", "--json").stdout)

    def test_a_folder_of_one_snapshot_is_replayed_and_one_of_none_is_said(self):
        (self.folder / "one").mkdir()
        shutil.copy(live.ROOT / "tests/data/snapshots/blind-graphs.pickle.gz", self.folder / "one/rank-0.pickle.gz")
        self.assertIn("events reproduced", self.plimsoll("replay", "one").stdout)
        (self.folder / "none").mkdir()
        done = self.plimsoll("replay", "none")
        self.assertEqual(done.returncode, 3)
        self.assertIn("neither snapshots nor rank files in it", done.stderr)

    def test_diff_of_two_folders_compares_rank_by_rank(self):
        self.write_folder("a", 64)
        self.write_folder("b", 64, growth=2 * G)
        text = self.plimsoll("diff", "a", "b").stdout
        self.assertIn("0-63", text)
        self.assertIn("+10.00%", text)
        diff = json.loads(self.plimsoll("diff", "a", "b", "--json").stdout)
        self.assertEqual([row["rank"] for row in diff["ranks"]], list(range(64)))
        row = diff["ranks"][5]["allocated_bytes"]
        self.assertEqual(row["after"] - row["before"], 2 * G)
        self.assertEqual(self.plimsoll("diff", "a", "b", "--limit", "5%").returncode, 1)
        self.assertEqual(self.plimsoll("diff", "a", "b", "--limit", "50%").returncode, 0)
        self.assertFalse(json.loads(self.plimsoll("diff", "a", "b", "--json", "--limit", "1GiB").stdout)["within_limit"])

    def test_folders_of_nothing_readable_are_no_answer(self):
        folder = self.write_folder("a", 3)
        self.write_folder("b", 2)
        (folder / "rank-2.jsonl").write_text("nonsense")
        done = self.plimsoll("diff", "a", "b")
        self.assertEqual(done.returncode, 0)
        self.assertIn("not read: rank-2.jsonl", done.stdout)
        for name in ("rank-0.jsonl", "rank-1.jsonl"):
            (folder / name).write_text("nonsense")
        for arguments in (["map", "a"], ["diff", "a", "b"], ["diff", "b", "a"]):
            done = self.plimsoll(*arguments)
            self.assertEqual(done.returncode, 3, done.stdout)
            self.assertIn("rank-", done.stderr)

    def test_the_slurm_scripts_do_the_same_work(self):
        self.write_folder("a", 30)
        script = live.ROOT / "examples/slurm/map.sbatch"
        for task in range(1, 5):
            env = self.environment(PLIMSOLL=live.PROGRAM, SLURM_ARRAY_TASK_ID=str(task), SLURM_ARRAY_TASK_COUNT="4")
            subprocess.run(["bash", script, "a", "parts"], cwd=self.folder, check=True, env=env, capture_output=True)
        merged = subprocess.run(["bash", live.ROOT / "examples/slurm/merge.sbatch", "parts"], cwd=self.folder,
                                env=self.environment(PLIMSOLL=live.PROGRAM), capture_output=True, text=True)
        self.assertEqual(merged.stdout, self.plimsoll("map", "a").stdout)


if __name__ == "__main__":
    os.umask(0o022)
    live.main()
