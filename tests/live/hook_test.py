# SPDX-License-Identifier: Apache-2.0
"""The hook inside a training: what it writes is what torch counts, and nothing of the training changes by it."""

import json
import os
import subprocess
import sys

import live

G = 1 << 30


# How optimizers of PyTorch 1 are followed by its own profiler; it has no hooks of all optimizers.
PYTORCH_1 = """
class Optimizer:
    def __init__(self):
        self._hook_for_profile()

    def _hook_for_profile(self):
        if not getattr(type(self).step, "hooked", None):
            step = type(self).step
            def profiled(this): return step(this)
            type(self).step = profiled
            profiled.hooked = True

    def step(self):
        pass
"""


class Hook(live.Live):
    def test_writes_torchs_own_counters_per_step(self):
        self.run_training("5")
        steps = self.events("step")
        self.assertEqual([step["n"] for step in steps], [1, 2, 3, 4, 5])
        self.assertEqual({step["peak_allocated"] for step in steps}, {16 * G})
        self.assertEqual({step["allocated"] for step in steps}, {10 * G})
        self.assertIsNone(steps[0]["seconds"])
        self.assertTrue(all(step["seconds"] >= 0.01 for step in steps[1:]))
        # Each step has its own backward, the first as well, though only the second closes it.
        self.assertTrue(all(0 <= step["backward"] < 0.01 for step in steps))
        self.assertEqual(self.events("end")[0]["steps"], 5)

    def test_keeps_a_peak_that_the_training_resets(self):
        self.run_training("3", "reset")
        self.assertEqual(self.events("end")[0]["peak_allocated"], 30 * G)

    def test_says_in_which_phase_memory_ran_out(self):
        for phase in ("forward", "backward"):
            with self.subTest(phase):
                out = f"out-{phase}"
                self.plimsoll("run", "--out", out, "--", sys.executable, "train.py", "2", phase)
                oom = self.events("oom", folder=out)[0]
                self.assertEqual((oom["phase"], oom["step"], oom["requested"]), (phase, 2, 100 * G))
                self.assertTrue(any("train.py" in frame for frame in oom["stack"]))
                self.assertTrue((self.folder / out / "rank-0.oom.pickle").stat().st_size > 0)

    def test_an_error_that_the_training_survives_leaves_it_alone(self):
        done = self.run_training("2", "caught")
        self.assertEqual(done.returncode, 0)
        self.assertIn("went on", done.stdout)
        self.assertEqual(len(self.events("oom")), 1)
        self.assertEqual(self.events("error"), [])

    def test_a_process_without_torch_is_not_touched(self):
        (self.folder / "plain.py").write_text("import sys\nprint('torch' in sys.modules)\n")
        done = self.plimsoll("run", "--out", "r", "--", sys.executable, "plain.py")
        self.assertEqual(done.stdout, "False\n")
        self.assertEqual(list(self.folder.glob("r/rank-*")), [])

    def test_the_users_own_sitecustomize_still_runs(self):
        own = self.folder / "own"
        own.mkdir()
        (own / "sitecustomize.py").write_text("import builtins\nbuiltins.GREETING = 'mine'\n")
        (self.folder / "plain.py").write_text("import sys\nprint(GREETING, sys.modules['sitecustomize'].__file__)\n")
        env = self.environment(PYTHONPATH=f"{own}:{live.STUB}")
        done = self.plimsoll("run", "--out", "r", "--", sys.executable, "plain.py", env=env)
        self.assertEqual(done.stdout, f"mine {own}/sitecustomize.py\n")

    def test_a_forked_worker_writes_nothing(self):
        (self.folder / "fork.py").write_text(
            "import os, torch\no = torch.optim.Optimizer()\ntorch.use(1)\no.step()\npid = os.fork()\n"
            "if pid == 0:\n    o.step(); os._exit(0)\nos.waitpid(pid, 0)\no.step()\n")
        self.plimsoll("run", "--out", "r", "--", sys.executable, "fork.py")
        self.assertEqual([path.name for path in self.folder.glob("r/rank-*")], ["rank-0.jsonl"])
        self.assertEqual(len(self.events("step")), 2)

    def test_every_rank_has_a_file_of_its_own(self):
        (self.folder / "launch.sh").write_text(
            f"for r in 0 1 2; do RANK=$r WORLD_SIZE=3 {sys.executable} train.py 3 & done; wait\n")
        self.plimsoll("run", "--out", "r", "--", "sh", "launch.sh")
        self.assertEqual([rank["rank"] for rank in self.record()["ranks"]], [0, 1, 2])
        self.assertEqual({rank["world"] for rank in self.record()["ranks"]}, {3})

    def test_two_optimizers_make_one_step(self):
        (self.folder / "two.py").write_text(
            "import torch\na, b = torch.optim.Optimizer(), torch.optim.Optimizer()\ntorch.use(1)\n"
            "for _ in range(5):\n    a.step(); b.step()\n")
        self.plimsoll("run", "--out", "r", "--", sys.executable, "two.py")
        self.assertEqual([step["n"] for step in self.events("step")], [1, 2, 3, 4, 5])

    def test_a_hook_that_fails_is_the_hooks_own_affair(self):
        for name, change in {"counters": "_C._cuda_memoryStats = None", "backward": "del autograd.backward",
                             "observer": "_C._cuda_attach_out_of_memory_observer = lambda f: 1 / 0",
                             "hooks": "del optim.optimizer.register_optimizer_step_post_hook"}.items():
            with self.subTest(name):
                stub = self.folder / f"stub-{name}"
                subprocess.run(["cp", "-r", live.STUB, stub], check=True)
                with open(stub / "torch/__init__.py", "a") as file:
                    file.write(change + "\n")
                (self.folder / "steps.py").write_text(
                    "import torch\no = torch.optim.Optimizer()\ntorch.use(1)\nfor _ in range(3): o.step()\nprint('done')\n"
                    if name != "hooks" else "import torch\ntorch.use(1)\nprint('done')\n")
                done = self.plimsoll("run", "--out", f"r-{name}", "--", sys.executable, "steps.py",
                                     env=self.environment(PYTHONPATH=str(stub)))
                self.assertEqual((done.returncode, done.stdout), (0, "done\n"))

    def test_history_is_kept_as_asked_and_never_twice(self):
        (self.folder / "history.py").write_text(
            "import torch\ntorch.use(1)\nprint([(h['context'], h['max_entries']) for h in torch.State.history])\n")
        for flags, expected in (([], "[(None, 100000)]"), (["--history", "events"], "[(None, 100000)]"),
                                (["--history", "stacks", "--entries", "7"], "[('alloc', 7)]"),
                                (["--history", "off"], "[]"), (["--no-hook"], "[]")):
            done = self.plimsoll("run", "--out", f"r{len(list(self.folder.iterdir()))}", *flags, "--", sys.executable,
                                 "history.py")
            self.assertEqual(done.stdout.strip(), expected)

    def test_a_history_that_would_be_felt_is_given_up_unless_it_was_asked_for(self):
        # 400 allocations a step of 2 ms: a hundred times what a step on a busy device has.
        (self.folder / "launches.py").write_text(
            "import time, torch\no = torch.optim.Optimizer()\ntorch.use(1)\n"
            "for _ in range(600):\n    torch.State.allocations += 400; time.sleep(0.002); o.step()\n"
            "print([h['enabled'] for h in torch.State.history])\n")
        for flags, kept in (([], "['all', None]"), (["--history", "events"], "['all']")):
            out = f"r{len(flags)}"
            done = self.plimsoll("run", "--out", out, *flags, "--", sys.executable, "launches.py")
            self.assertEqual(done.stdout.strip(), kept)
            given_up = [line["allocations_per_second"] for line in self.events("history", folder=out)]
            self.assertEqual(len(given_up), 0 if flags else 1)
            self.assertTrue(all(rate > 10000 for rate in given_up))  # on a busy machine a step takes longer
            self.assertEqual("history_given_up" in self.record(out)["ranks"][0], not flags)

    def test_a_history_is_kept_where_the_device_waits_for_nobody(self):
        # The device is asked once a backward begins whether it has come to the end of the step before.
        program = ("import time, torch\no = torch.optim.Optimizer()\ntorch.use(1)\n"
                   "class Event:\n    def record(self): pass\n    def query(self): return {done}\n"
                   "torch.cuda.Event = Event\ntorch.cuda.is_current_stream_capturing = lambda: {capturing}\n"
                   "for _ in range(600):\n    torch.State.allocations += 400; time.sleep(0.002)\n"
                   "    torch.autograd.backward(); o.step()\n"
                   "print([h['enabled'] for h in torch.State.history])\n")
        for done, capturing, kept in ((False, False, "['all']"), (True, False, "['all', None]"),
                                      (False, True, "['all', None]")):
            with self.subTest(f"{done} {capturing}"):
                (self.folder / "busy.py").write_text(program.format(done=done, capturing=capturing))
                ran = self.plimsoll("run", "--out", f"r{done}{capturing}", "--", sys.executable, "busy.py")
                self.assertEqual(ran.stdout.strip(), kept)

    def test_a_history_that_costs_nothing_is_kept(self):
        (self.folder / "calm.py").write_text(
            "import time, torch\no = torch.optim.Optimizer()\ntorch.use(1)\n"
            "for _ in range(80):\n    torch.State.allocations += 5; time.sleep(0.02); o.step()\n"
            "print([h['enabled'] for h in torch.State.history])\n")
        done = self.plimsoll("run", "--out", "r", "--", sys.executable, "calm.py")
        self.assertEqual(done.stdout.strip(), "['all']")

    def test_a_recording_of_the_trainings_own_is_never_ended(self):
        (self.folder / "own.py").write_text(
            "import time, torch\no = torch.optim.Optimizer()\ntorch.use(1)\n"
            "torch.cuda.memory._record_memory_history(enabled='all', context='alloc')\n"
            "for _ in range(600):\n    torch.State.allocations += 400; time.sleep(0.002); o.step()\n"
            "print([h['enabled'] for h in torch.State.history])\n")
        done = self.plimsoll("run", "--out", "r", "--", sys.executable, "own.py")
        self.assertEqual(done.stdout.strip(), "['all', 'all']")

    def test_every_rank_of_a_machine_writes_what_it_holds_when_one_runs_out(self):
        (self.folder / "waits.py").write_text(
            "import os, sys, time, torch\no = torch.optim.Optimizer()\ntorch.use(1 << 30)\no.step(); o.step()\n"
            "if os.environ['RANK'] == '1':\n    time.sleep(1); torch.use(100 << 30)\n"
            "time.sleep(30)\n")  # as in a message that never comes
        (self.folder / "launch.py").write_text(
            "import os, subprocess, sys\n"
            "ranks = [subprocess.Popen([sys.executable, 'waits.py'], env=dict(os.environ, RANK=str(r), LOCAL_WORLD_SIZE='3',"
            " WORLD_SIZE='3')) for r in range(3)]\n"
            "code = ranks[1].wait()\n"
            "for r in (0, 2): ranks[r].terminate(); ranks[r].wait()\nsys.exit(code)\n")
        done = self.plimsoll("run", "--out", "r", "--", sys.executable, "launch.py")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(sorted(path.name for path in (self.folder / "r").glob("*.pickle")),
                         ["rank-0.peer.pickle", "rank-1.oom.pickle", "rank-2.peer.pickle"])
        self.assertIn("rank-1.oom.pickle", done.stderr)  # why and replay take that of the rank that ran out

    def test_ranks_that_are_started_again_are_another_start(self):
        # As under torchrun --max-restarts: the folder is the same, what an earlier start left in it is history.
        (self.folder / "waits.py").write_text(
            "import os, sys, time, torch\no = torch.optim.Optimizer()\ntorch.use(1 << 30)\n"
            "for _ in range(2): o.step()\nlast = os.environ['TORCHELASTIC_RESTART_COUNT'] == '2'\n"
            "if os.environ['RANK'] == '1' and not last:\n    time.sleep(1); torch.use(100 << 30)\n"
            "o.step()\ntime.sleep(1.5 if last else 30)\n")
        (self.folder / "launch.py").write_text(
            "import os, subprocess, sys\nfor restart in '012':\n"
            "    ranks = [subprocess.Popen([sys.executable, 'waits.py'], env=dict(os.environ, RANK=str(r),"
            " LOCAL_WORLD_SIZE='3', WORLD_SIZE='3', TORCHELASTIC_RESTART_COUNT=restart)) for r in range(3)]\n"
            "    code = ranks[1].wait()\n"
            "    if code:\n        for r in (0, 2): ranks[r].terminate()\n"
            "    for r in (0, 2): ranks[r].wait()\nsys.exit(code)\n")
        done = self.plimsoll("run", "--out", "r", "--", sys.executable, "launch.py")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(path.name for path in (self.folder / "r").glob("*.pickle")),
                         ["rank-0-restart-1.peer.pickle", "rank-0.peer.pickle", "rank-1-restart-1.oom.pickle",
                          "rank-1.oom.pickle", "rank-2-restart-1.peer.pickle", "rank-2.peer.pickle"])
        self.assertIn("the launcher started the ranks 3 times; shown are those of the last start; in start 1 rank 1 ran "
                      "out in", done.stderr)
        record = self.record()
        self.assertEqual([(rank["rank"], rank["restart"]) for rank in record["ranks"]], [(0, 2), (1, 2), (2, 2)])
        self.assertEqual(len(record["earlier_ranks"]), 6)
        view = json.loads(self.plimsoll("watch", "r", "--json").stdout.splitlines()[0])
        self.assertEqual([(rank["rank"], rank["ran_out"]) for rank in view["ranks"]], [(0, False), (1, False), (2, False)])

    def test_the_phases_of_a_checkpoint(self):
        for phase, names in {"save": ("save_checkpoint", "state_dict"), "load": ("load_checkpoint", "load_state_dict"),
                             "forward": ("save_checkpoint", "forward")}.items():
            with self.subTest(phase):
                (self.folder / "phase.py").write_text(
                    f"import torch\no = torch.optim.Optimizer()\ntorch.use(1)\no.step()\n"
                    f"def {names[1]}(): torch.use(100 << 30)\ndef {names[0]}(): {names[1]}()\n{names[0]}()\n")
                self.plimsoll("run", "--out", f"p-{phase}", "--", sys.executable, "phase.py")
                self.assertEqual(self.events("oom", folder=f"p-{phase}")[0]["phase"], phase)

    def test_an_old_pytorch_without_this_history_still_counts(self):
        stub = self.folder / "stub-old"
        subprocess.run(["cp", "-r", live.STUB, stub], check=True)
        with open(stub / "torch/cuda/memory.py", "a") as file:
            file.write("def _record_memory_history(enabled, record_context=True): raise AssertionError\n")
        self.run_training("3", env=self.environment(PYTHONPATH=str(stub)))
        self.assertEqual(len(self.events("step")), 3)
        self.assertIn("TypeError", self.events("end")[0]["trouble"])

    def test_optimizers_of_pytorch_1_are_followed_through_their_classes(self):
        stub = self.folder / "stub-1"
        subprocess.run(["cp", "-r", live.STUB, stub], check=True)
        (stub / "torch/optim/optimizer.py").write_text(PYTORCH_1)
        (self.folder / "two.py").write_text(
            "import torch\n"
            "class Mine(torch.optim.Optimizer):\n    def step(self): self.ran = True\n"
            "class Heir(Mine): pass\n"
            "torch.use(1 << 30)\none, other, heir = Mine(), Mine(), Heir()\n"
            "for _ in range(4): one.step(), other.step(), heir.step()\n"
            "print(one.ran, heir.ran, Mine.step.hooked)\n")
        done = self.plimsoll("run", "--out", "r", "--", sys.executable, "two.py",
                             env=self.environment(PYTHONPATH=str(stub)))
        self.assertEqual(done.stdout, "True True True\n")
        self.assertEqual([line["n"] for line in self.events("step")], [1, 2, 3, 4])

    def test_processes_of_multiprocessing_are_ranks(self):
        (self.folder / "spawn.py").write_text(
            "import multiprocessing, os\n"
            "def work(rank):\n    os.environ.update(RANK=str(rank), WORLD_SIZE='2')\n    import torch\n"
            "    o = torch.optim.Optimizer(); torch.use(1 << 30)\n    for _ in range(4): o.step()\n"
            "if __name__ == '__main__':\n    context = multiprocessing.get_context('spawn')\n"
            "    workers = [context.Process(target=work, args=(rank,)) for rank in range(2)]\n"
            "    for worker in workers: worker.start()\n    for worker in workers: worker.join()\n")
        self.plimsoll("run", "--out", "r", "--", sys.executable, "spawn.py")
        ranks = self.record()["ranks"]
        self.assertEqual([(rank["rank"], rank["world"], rank["steps"]) for rank in ranks], [(0, 2, 4), (1, 2, 4)])
        self.assertEqual([rank["ended"] for rank in ranks], [True, True])

    def test_a_launcher_that_fails_is_no_rank(self):
        (self.folder / "launch.py").write_text(
            "import subprocess, sys, torch\n"
            "subprocess.run([sys.executable, 'train.py', '2', 'error'], check=True)\n")
        done = self.plimsoll("run", "--out", "r", "--", sys.executable, "launch.py")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([path.name for path in self.folder.glob("r/rank-*")], ["rank-0.jsonl"])
        self.assertEqual(self.events("error")[0]["type"], "ValueError")

    def test_many_steps_do_not_fill_a_disk(self):
        (self.folder / "many.py").write_text(
            "import torch\no = torch.optim.Optimizer()\ntorch.use(1)\nfor _ in range(20000): o.step()\n")
        self.plimsoll("run", "--out", "r", "--", sys.executable, "many.py")
        lines = self.lines()
        self.assertLess(len(lines), 100)
        self.assertEqual(lines[-1]["steps"], 20000)

    def test_counters_are_read_only_for_steps_that_get_a_line(self):
        (self.folder / "many.py").write_text(
            "import torch\no = torch.optim.Optimizer()\ntorch.use(1)\nfor _ in range(5000): o.step()\n"
            "print(torch.State.reads)\n")
        done = self.plimsoll("run", "--out", "r", "--", sys.executable, "many.py")
        steps = [line for line in self.lines() if line["event"] == "step"]
        self.assertLess(abs(int(done.stdout) - len(steps)), 16)  # what all processes use is asked for rarely


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    live.main()
