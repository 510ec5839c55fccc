# SPDX-License-Identifier: Apache-2.0
"""plimsoll run around a command: its output, end and signals are its own, and nothing of ours can harm it."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import live

ROOT = live.ROOT
G = 1 << 30


class Run(live.Live):
    def test_output_passes_through_byte_for_byte(self):
        (self.folder / "bytes.py").write_text(
            "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 4000)\nsys.stdout.flush()\n"
            "sys.stderr.buffer.write(b'\\xff\\x00no newline')\n")
        done = subprocess.run([live.PROGRAM, "run", "-q", "--out", "r", "--", sys.executable, "bytes.py"],
                              cwd=self.folder, capture_output=True, env=self.environment(), timeout=60)
        self.assertEqual(done.stdout, bytes(range(256)) * 4000)
        self.assertEqual(done.stderr, b"\xff\x00no newline")

    def test_streams_that_are_one_keep_their_order(self):
        (self.folder / "order.py").write_text(
            "import sys\nfor i in range(300):\n    print('out', i, flush=True)\n    print('err', i, file=sys.stderr, flush=True)\n")
        with open(self.folder / "both", "wb") as both:
            subprocess.run([live.PROGRAM, "run", "-q", "--out", "r", "--", sys.executable, "order.py"], cwd=self.folder,
                           stdout=both, stderr=both, env=self.environment(), timeout=60)
        expected = "".join(f"out {i}\nerr {i}\n" for i in range(300))
        self.assertEqual((self.folder / "both").read_text(), expected)
        self.assertEqual((self.folder / "r/output.log").read_text(), expected)

    def test_a_terminal_stays_a_terminal(self):
        import pty
        (self.folder / "tty.py").write_text("import os\nprint(os.isatty(1), os.get_terminal_size().columns)\n")
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.environ["COLUMNS"] = ""
            os.execv(live.PROGRAM, [live.PROGRAM, "run", "-q", "--out", "r", "--", sys.executable, "tty.py"])
        text = b""
        try:
            while chunk := os.read(terminal, 4096):
                text += chunk
        except OSError:
            pass
        os.waitpid(pid, 0)
        self.assertIn(b"True", text)
        self.assertNotIn(b"\r\r\n", text)

    def test_the_exit_code_is_the_commands(self):
        for code in (0, 1, 3, 42, 255):
            done = self.plimsoll("run", "-q", "--out", f"r{code}", "--", sys.executable, "train.py", "1", "exit", str(code))
            self.assertEqual(done.returncode, code)

    def test_a_signal_that_ends_the_command_ends_us(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            done = self.plimsoll("run", "-q", "--out", f"r{number}", "--", sys.executable, "train.py", "1", "signal",
                                 str(int(number)))
            self.assertEqual(done.returncode, -number)

    def test_signals_reach_the_command(self):
        (self.folder / "wait.py").write_text(
            "import os, signal, time\n"
            "signal.signal(signal.SIGUSR1, lambda *_: (os.write(1, b'saved\\n'), os._exit(7)))\n"
            "print('ready', flush=True)\ntime.sleep(30)\n")
        process = subprocess.Popen([live.PROGRAM, "run", "-q", "--out", "r", "--", sys.executable, "wait.py"],
                                   cwd=self.folder, stdout=subprocess.PIPE, text=True, env=self.environment())
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.communicate(timeout=20)[0], "saved\n")
        self.assertEqual(process.returncode, 7)

    def test_a_reader_that_leaves_ends_the_command_as_without_us(self):
        done = subprocess.run(f"{live.PROGRAM} run -q --out r -- yes | head -1", shell=True, cwd=self.folder,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "y\n")

    def test_a_command_that_is_not_there_says_so(self):
        self.assertEqual(self.plimsoll("run", "--out", "a", "--", "no-such-command").returncode, 127)
        (self.folder / "data").write_text("x")
        self.assertEqual(self.plimsoll("run", "--out", "b", "--", "./data").returncode, 126)
        self.assertEqual(self.plimsoll("run", "--out", "c").returncode, 2)

    def test_what_a_command_leaves_behind_does_not_hold_us(self):
        begun = time.monotonic()
        self.plimsoll("run", "-q", "--out", "r", "--", "sh", "-c", "sleep 20 & echo started")
        self.assertLess(time.monotonic() - begun, 10)

    def test_a_folder_that_cannot_be_written_does_not_stop_the_training(self):
        (self.folder / "file").write_text("")
        done = self.plimsoll("run", "--out", "file/r", "--", sys.executable, "train.py", "3")
        self.assertEqual((done.returncode, done.stdout.count("step")), (0, 3))
        self.assertIn("nothing is kept", done.stderr)

    def test_a_folder_that_holds_a_run_is_kept_and_the_next_run_as_well(self):
        self.run_training("2")
        before = (self.folder / "r/run.json").read_bytes()
        done = self.run_training("3")  # the same script, after its job was requeued
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"a run is in it already; this one is kept in {self.folder}/r-2", done.stderr)
        self.assertEqual((self.folder / "r/run.json").read_bytes(), before)
        self.assertEqual(self.record("r-2")["ranks"][0]["steps"], 3)
        self.plimsoll("run", "--out", "r/", "--", sys.executable, "train.py", "4")
        self.assertEqual(self.record("r-3")["ranks"][0]["steps"], 4)

    def test_runs_that_begin_at_once_do_not_share_a_folder(self):
        started = [subprocess.Popen([live.PROGRAM, "run", "--out", "r", "--", sys.executable, "train.py", str(steps)],
                                    cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                    env=self.environment()) for steps in range(2, 8)]
        self.assertEqual([process.wait(timeout=60) for process in started], [0] * 6)
        records = [json.loads(path.read_text()) for path in self.folder.glob("r*/run.json")]
        self.assertEqual(sorted(record["ranks"][0]["steps"] for record in records), list(range(2, 8)))

    def run_ranks(self, fates, **options):
        """Ranks of one launcher, each with words for its end: "error SECONDS TEXT", "kill SECONDS" or "end SECONDS"."""
        (self.folder / "fate.py").write_text(
            "import os, sys, time, torch\no = torch.optim.Optimizer()\ntorch.use(1 << 30)\n"
            "for _ in range(3): o.step()\n"
            "fate, seconds, *text = sys.argv[1].split(' ', 2)\ntime.sleep(float(seconds))\n"
            "if fate == 'kill': os.kill(os.getpid(), 9)\n"
            "if fate == 'error': raise RuntimeError(text[0])\n")
        (self.folder / "launch.py").write_text(
            "import os, subprocess, sys\nranks = [subprocess.Popen([sys.executable, 'fate.py', fate], env=dict(os.environ, "
            "RANK=str(rank), WORLD_SIZE=str(len(sys.argv) - 1))) for rank, fate in enumerate(sys.argv[1:])]\n"
            "sys.exit(max(abs(rank.wait()) for rank in ranks))\n")
        return self.plimsoll("run", "--out", "r", "--", sys.executable, "launch.py", *fates, **options)

    def test_the_rank_that_failed_first_is_named(self):
        lost = "[pair.cc:589] Read error [127.0.0.1]:59554: Connection reset by peer"
        done = self.run_ranks(["error 0.5 " + lost, "error 1.5 too late", "error 1 index 7 is out of bounds", "end 0"])
        self.assertIn("failed first, after step 3: RuntimeError: index 7 is out of bounds; 2 more failed, 1 of them only "
                      "because another was lost", done.stderr)
        self.assertRegex(done.stderr, "rank 2 on .* failed first")
        self.assertIn("failed first", " ".join(self.record()["differences"]))

    def test_a_rank_that_vanishes_is_named(self):
        lost = "[pair.cc:589] Read error [127.0.0.1]:59554: Connection reset by peer"
        done = self.run_ranks(["error 1 " + lost, "kill 0.1", "error 1 " + lost, "end 0"])
        self.assertRegex(done.stderr, r"rank 1 \(on .*\) vanished without an error, after step [23]: killed, ended in native "
                                      "code, or the machine went; 2 others only lost a peer")
        self.assertNotRegex(done.stderr, r"rank \d on .* failed first")

    def test_where_all_ranks_are_ended_from_outside_none_is_blamed(self):
        done = self.run_ranks(["kill 0.1", "kill 0.1"])
        self.assertIn("all 2 ranks ended without an error of their own", done.stderr)
        self.assertNotIn("vanished", done.stderr)
        self.assertNotIn("ended without an error", self.run_ranks(["end 0", "end 0"]).stderr)

    def test_what_the_hook_left_out_is_said_once_for_all_ranks(self):
        stub = self.folder / "stub"
        shutil.copytree(live.STUB, stub)
        with open(stub / "torch/__init__.py", "a") as file:
            file.write("del autograd.backward\n")
        done = self.run_ranks(["end 0"] * 3, env=self.environment(PYTHONPATH=str(stub)))
        self.assertEqual(done.stderr.count("the hook "), 1)
        self.assertIn("ranks 0-2: the hook left something out: AttributeError", done.stderr)

    def test_a_full_disk_does_not_stop_the_training(self):
        # A limit on file sizes fails writes as a full disk does.
        (self.folder / "loud.py").write_text(
            "import torch\no = torch.optim.Optimizer()\ntorch.use(1)\n"
            "for i in range(50):\n    o.step()\n    print('x' * 2000)\nprint('end')\n")
        done = subprocess.run(["sh", "-c", f"ulimit -f 16; exec {live.PROGRAM} run --out r -- {sys.executable} loud.py"],
                              cwd=self.folder, capture_output=True, text=True, env=self.environment(), timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.endswith("end\n"))

    def test_a_job_that_cannot_be_read_does_not_stop_the_training(self):
        (self.folder / "job.toml").write_text("nonsense = [")
        done = self.run_training("2", flags=("--job", "job.toml"))
        self.assertEqual((done.returncode, done.stdout.count("step")), (0, 2))
        self.assertIn("nothing can be predicted", done.stderr)

    def test_secrets_are_not_written(self):
        env = self.environment(WANDB_API_KEY="secret-one", HF_TOKEN="secret-two", PYTORCH_CUDA_ALLOC_CONF="backend:native")
        self.run_training("2", "--hub_token", "secret-three", "--api-key=secret-four", env=env)
        kept = b"".join(path.read_bytes() for path in self.folder.glob("r/**/*") if path.is_file())
        self.assertNotIn(b"secret", kept.replace(b"secrets", b""))
        self.assertEqual(self.record()["ranks"][0]["settings"], {"PYTORCH_CUDA_ALLOC_CONF": "backend:native"})


class Kill(live.Live):
    def test_a_kill_that_was_not_the_kernels_is_told_from_one_that_was(self):
        done = self.run_training("1", "signal", str(int(signal.SIGKILL)))
        if "cgroup" not in self.record()["machine"]:
            self.skipTest("no memory group here")
        self.assertIn("somebody else sent the signal", done.stderr)
        self.assertEqual(json.loads(self.plimsoll("why", "r", "--json").stdout)["class"], "unknown")


class Comparison(live.Live):
    def test_measured_stands_beside_predicted_and_score_reads_it(self):
        done = self.run_training("4", flags=("--job", ROOT / "examples/llama3-70b.toml"))
        self.assertEqual(done.returncode, 0)
        record = self.record()
        self.assertEqual(record["ranks"][0]["allocated"]["measured"], 16 * G)
        self.assertIn("predicted", done.stderr)
        self.assertTrue((self.folder / "r/job.toml").exists())

    def test_a_run_folder_is_scored(self):
        job = ("--model", "llama3.2-1b", "--framework", "transformers", "--gpu", "h100", "--gpus", "1", "--seq-length",
               "2048", "--micro-batch-size", "1")
        self.run_training("4", flags=job)
        scored = json.loads(self.plimsoll("score", "r", "--json").stdout)
        self.assertIn("r-rank-0", json.dumps(scored))

    def test_a_failure_is_explained_from_the_folder_alone(self):
        done = self.run_training("3", "backward")
        self.assertEqual(done.returncode, 1)
        self.assertIn("activation-bound", done.stderr)
        again = self.plimsoll("why", "r", "--json")
        self.assertEqual(json.loads(again.stdout)["class"], "activation-bound")

    def test_a_leak_is_named(self):
        done = self.run_training("12", "leak")
        self.assertIn("grows by 128.00 MiB per step", done.stderr)

    def test_the_device_is_sampled_and_what_was_there_before_is_said(self):
        state = self.folder / "nvml"
        state.write_text(str(30 * G))
        env = self.environment(PLIMSOLL_NVML=live.NVML, PLIMSOLL_FAKE_NVML=str(state))
        done = self.run_training("3", env=env)
        device = self.record()["machine"]["devices"][0]
        self.assertEqual((device["name"], device["used_before"]), ("Fake GPU", 30 * G))
        self.assertIn("30.00 GiB of it before the run began", done.stderr)

    def test_a_driver_that_aborts_or_hangs_does_not_touch_the_run(self):
        state = self.folder / "nvml"
        env = self.environment(PLIMSOLL_NVML=live.NVML, PLIMSOLL_FAKE_NVML=str(state))
        for trouble, said in ((1, "ended the process that asked it"), (2, "does not answer")):
            with self.subTest(said):
                state.write_text(f"0 0 {trouble}")
                done = self.run_training("3", env=env)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("step 2", done.stdout)
                self.assertIn(said, done.stderr)
                self.assertIn(said, self.record()["nvml"])
                shutil.rmtree(self.folder / "r")

    def test_a_machine_without_a_driver_says_so(self):
        env = self.environment(PLIMSOLL_NVML="/no/such/library.so")
        self.assertIn("no NVIDIA driver", self.run_training("2", env=env).stderr)

    def test_retry_ends_in_a_run_that_trains(self):
        (self.folder / "hf.py").write_text(
            "import json, sys, torch\nG = 1 << 30\nargs = json.load(open(sys.argv[1]))\n"
            "batch = args['per_device_train_batch_size']\no = torch.optim.Optimizer()\ntorch.use(8 * G)\n"
            "for _ in range(3):\n    torch.use(batch * 4 * G); torch.drop(batch * 4 * G); o.step()\n"
            "print('trained', batch, args.get('gradient_accumulation_steps', 1))\n")
        (self.folder / "args.json").write_text(json.dumps({"per_device_train_batch_size": 32, "bf16": True}))
        config = ROOT / "examples/transformers/config.json"
        done = self.plimsoll("run", "--out", "r", "--job", config, "--job", "args.json", "--gpu", "a100-sxm-80gb", "--gpus",
                             "1", "--seq-length", "1024", "--retry", "3", "--", sys.executable, "hf.py", "args.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        words = done.stdout.split()
        self.assertEqual(words[0], "trained")
        self.assertEqual(int(words[1]) * int(words[2]), 32)
        self.assertEqual(json.loads((self.folder / "args.json").read_text())["per_device_train_batch_size"], 32)

    def test_retry_changes_what_is_learned_only_where_that_was_named(self):
        (self.folder / "hf.py").write_text(
            "import json, sys, torch\nargs = json.load(open(sys.argv[1]))\no = torch.optim.Optimizer()\n"
            "torch.use((100 if args['optim'] == 'adamw_torch' else 40) << 30)\nfor _ in range(3): o.step()\n"
            "print('trained', args['optim'])\n")
        (self.folder / "args.json").write_text(json.dumps(
            {"per_device_train_batch_size": 1, "bf16": True, "gradient_checkpointing": True, "optim": "adamw_torch"}))
        config = ROOT / "examples/transformers/config.json"

        def retried(name, *flags):
            return self.plimsoll("run", "--out", name, "--job", config, "--job", "args.json", "--gpu", "a100-sxm-80gb",
                                 "--gpus", "1", "--seq-length", "1024", "--retry", "1", *flags, "--", sys.executable,
                                 "hf.py", "args.json")
        alone = retried("alone")
        self.assertNotEqual(alone.returncode, 0)
        self.assertIn("no retry: ", alone.stderr)
        self.assertIn("--allow", alone.stderr)
        named = retried("named", "--allow", "adafactor")
        self.assertEqual(named.stdout.split(), ["trained", "adafactor"], named.stderr)
        self.assertIn("this changes what is learned; --allow named it", named.stderr)
        self.assertIn("did you mean adafactor?", retried("typo", "--allow", "adafacto").stderr)


class MemoryGroup(live.Live):
    """A process that the kernel ends for a limit; needs a memory group that we may make."""

    def test_a_kill_by_the_kernel_is_named(self):
        group = self.make_group(64 << 20)
        if group is None:
            self.skipTest("no memory group can be made here")
        (self.folder / "eat.py").write_text("x = bytearray()\nwhile True:\n    x.extend(b'1' * (8 << 20))\n")
        enter = f"echo $$ > {group}/cgroup.procs; exec {sys.executable} eat.py"
        done = self.plimsoll("run", "--out", "r", "--", "sh", "-c", enter)
        self.assertEqual(done.returncode, -signal.SIGKILL)
        answer = json.loads(self.plimsoll("why", "r", "--json").stdout)
        self.assertEqual(answer["class"], "host-ram-kill")

    def make_group(self, limit):
        for mount, name in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            group = pathlib.Path(mount) / f"plimsoll-test-{os.getpid()}"
            try:
                group.mkdir()
            except OSError:
                continue
            self.addCleanup(lambda: group.rmdir() if group.exists() else None)
            try:
                (group / name).write_text(str(limit))
                return group
            except OSError:
                continue
        return None


if __name__ == "__main__":
    live.main()
