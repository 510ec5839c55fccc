# SPDX-License-Identifier: Apache-2.0
"""plimsoll watch on a run under way, on a process, and for a scraper."""

import json
import subprocess
import sys
import time
import urllib.request

import live

G = 1 << 30


class Watch(live.Live):
    def write_ranks(self, count, grows=(), large=()):
        folder = self.folder / "r"
        folder.mkdir()
        for rank in range(count):
            lines = [{"event": "begin", "rank": rank, "world": count, "host": f"node{rank // 8}", "device": 0,
                      "total": 80 * G}]
            for step in range(1, 21):
                held = 20 * G + (step * G if rank in grows else 0) + (20 * G if rank in large else 0)
                lines.append({"event": "step", "n": step, "count": 1, "t": step * 0.5, "seconds": 0.5, "allocated": held,
                              "reserved": held, "peak_allocated": held, "peak_reserved": held})
            (folder / f"rank-{rank}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return folder

    def test_says_what_grows_and_when_it_is_full(self):
        self.write_ranks(2, grows=(1,))
        text = self.plimsoll("watch", "r", "--count", "1").stdout
        self.assertIn("rank 1 step 20 500.0 ms allocated 40.00 GiB", text)
        self.assertIn("grows 1.00 GiB per step, full in 20 s", text)
        self.assertEqual(text.count("grows"), 1)

    def test_names_the_rank_that_holds_more_than_its_peers(self):
        self.write_ranks(64, large=(41,))
        view = json.loads(self.plimsoll("watch", "r", "--count", "1", "--json").stdout)
        self.assertEqual([rank["rank"] for rank in view["ranks"] if rank["outlier"]], [41])
        lines = self.plimsoll("watch", "r", "--count", "1").stdout.splitlines()
        self.assertIn("rank 41", next(line for line in lines if " rank " in line))

    def test_ends_with_the_run(self):
        self.run_training("3", "exit", "5")
        done = self.plimsoll("watch", "r")  # would go on for ever
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout.count(" rank 0 "), 1)
        self.assertIn("the run has ended with exit code 5; plimsoll why r", done.stdout)
        self.assertTrue(json.loads(self.plimsoll("watch", "r", "--json").stdout)["run_ended"])

    def test_a_rank_that_failed_is_not_one_that_ended(self):
        folder = self.write_ranks(2)
        for rank, lines in ((0, [{"event": "error", "type": "ValueError", "message": "nan"}, {"event": "end"}]),
                            (1, [{"event": "end"}])):
            with open(folder / f"rank-{rank}.jsonl", "a") as file:
                file.write("".join(json.dumps(line) + "\n" for line in lines))
        lines = self.plimsoll("watch", "r", "--count", "1").stdout.splitlines()
        self.assertEqual([line.rsplit(": ")[-1] for line in lines if " rank " in line], ["failed", "ended"])

    def test_a_run_of_which_nobody_has_reported_says_so(self):
        (self.folder / "r").mkdir()
        self.assertIn("no rank has reported yet", self.plimsoll("watch", "r", "--count", "1").stdout)

    def test_follows_a_file_that_grows(self):
        folder = self.write_ranks(1)
        process = subprocess.Popen([live.PROGRAM, "watch", "r", "--json", "--every", "100"], cwd=self.folder,
                                   stdout=subprocess.PIPE, text=True, env=self.environment())
        self.assertEqual(json.loads(process.stdout.readline())["ranks"][0]["step"], 20)
        line = json.dumps({"event": "step", "n": 21, "allocated": 5, "peak_reserved": 50 * G}) + "\n"
        with open(folder / "rank-0.jsonl", "a") as file:
            file.write(line[:20])
            file.flush()
            time.sleep(0.3)
            file.write(line[20:])
        deadline = time.monotonic() + 10
        steps = 20
        while steps != 21 and time.monotonic() < deadline:
            steps = json.loads(process.stdout.readline())["ranks"][0]["step"]
        process.terminate()
        self.assertEqual(process.wait(timeout=10), 0)
        self.assertEqual(steps, 21)
        process.stdout.close()

    def test_a_process_is_watched_from_outside(self):
        program = "import time; x = bytearray(50 << 20); print('holds it', flush=True); time.sleep(30)"
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdout.readline()
        view = json.loads(self.plimsoll("watch", process.pid, "--count", "1", "--json").stdout)
        self.assertGreater(view["host_run"], 50 << 20)

    def test_a_scraper_gets_metrics(self):
        self.write_ranks(2)
        process = subprocess.Popen([live.PROGRAM, "watch", "r", "--every", "200", "--prometheus", "0"], cwd=self.folder,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=self.environment())
        port = int(process.stderr.readline().split("port ")[1].split(",")[0])
        time.sleep(0.5)
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
        process.terminate()
        process.wait(timeout=10)
        process.stderr.close()
        self.assertIn('plimsoll_rank_steps_total{rank="1",host="node0"} 20\n', text)
        self.assertIn("# TYPE plimsoll_rank_allocated_bytes gauge\n", text)

    def test_devices_and_their_holders(self):
        state = self.folder / "nvml"
        state.write_text(f"{70 * G} {subprocess.os.getpid()}")
        env = self.environment(PLIMSOLL_NVML=live.NVML, PLIMSOLL_FAKE_NVML=str(state))
        text = self.plimsoll("watch", "--all", "--count", "1", env=env).stdout
        self.assertIn("gpu 0 used 70.00 GiB of 80.00 GiB", text)
        self.assertIn("holds 70.00 GiB", text)

    def test_a_driver_that_aborts_leaves_the_rest_of_the_view(self):
        state = self.folder / "nvml"
        state.write_text("0 0 1")
        env = self.environment(PLIMSOLL_NVML=live.NVML, PLIMSOLL_FAKE_NVML=str(state))
        done = self.plimsoll("watch", "--all", "--count", "2", "--every", "100", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("NVIDIA's library ended the process that asked it (signal 6)", done.stdout)
        self.assertIn("host", done.stdout)

    def test_what_is_not_there_is_refused(self):
        self.assertEqual(self.plimsoll("watch").returncode, 2)
        self.assertEqual(self.plimsoll("watch", "nowhere").returncode, 3)
        self.assertEqual(self.plimsoll("watch", "999999999").returncode, 3)
        self.assertEqual(self.plimsoll("watch", ".", "--count", "1", "--prometheus", "x").returncode, 2)


if __name__ == "__main__":
    live.main()
