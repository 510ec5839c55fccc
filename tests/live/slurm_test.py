# SPDX-License-Identifier: Apache-2.0
"""On a real Slurm: several daemons on this machine, made for the test and ended with it. Needs slurmctld, slurmd, munged
and root; ./test --long runs it where they are there."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import live

G = 1 << 30
NODES = 3
CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=10 OverSubscribe=YES State=UP
"""


def missing():
    if os.environ.get("PLIMSOLL_LONG") != "1":
        return "only in ./test --long"
    if os.geteuid() != 0:
        return "needs root"
    for program in ("slurmctld", "slurmd", "munged", "sbatch", "srun"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return ""


@unittest.skipIf(missing(), missing())
class Slurm(live.Live):
    @classmethod
    def setUpClass(cls):
        cls.cluster = pathlib.Path(tempfile.mkdtemp(prefix="plimsoll-slurm-"))
        cls.cluster.chmod(0o755)
        port = 20000 + os.getpid() % 20000
        (cls.cluster / "state").mkdir()
        (cls.cluster / "munge.key").write_bytes(os.urandom(128))
        (cls.cluster / "munge.key").chmod(0o400)
        (cls.cluster / "slurm.conf").write_text(CONF.format(
            host=socket.gethostname().split(".")[0], folder=cls.cluster, port=port, nodes=NODES, first=port + 1,
            last=port + NODES))
        cls.conf = {"SLURM_CONF": str(cls.cluster / "slurm.conf")}
        environment = dict(os.environ, **cls.conf)
        munge = [f"--{name}-file={cls.cluster}/munge.{name}" for name in ("key", "pid", "log", "seed")]
        cls.start(["munged", "--force", f"--socket={cls.cluster}/munge.socket", *munge], environment)
        cls.start(["slurmctld"], environment)
        for node in range(1, NODES + 1):
            cls.start(["slurmd", "-N", f"n{node}"], environment)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            states = subprocess.run(["sinfo", "--noheader", "--Node", "--format=%T"], env=environment, text=True,
                                    capture_output=True).stdout.split()
            if states == ["idle"] * NODES:
                return
            time.sleep(0.5)
        raise unittest.SkipTest("Slurm did not come up here: " + " ".join(states))

    @classmethod
    def start(cls, command, environment):
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=30)

    @classmethod
    def tearDownClass(cls):
        # Only those that this test has started, by the numbers that they wrote down.
        for path in cls.cluster.glob("*.pid"):
            try:
                os.kill(int(path.read_text()), signal.SIGTERM)
            except (OSError, ValueError):
                pass
        time.sleep(1)
        shutil.rmtree(cls.cluster, ignore_errors=True)

    def environment(self, **more):
        return super().environment(**self.conf, PLIMSOLL=live.PROGRAM, **more)

    def sbatch(self, *arguments):
        done = subprocess.run(["sbatch", "--parsable", *map(str, arguments)], cwd=self.folder, env=self.environment(),
                              text=True, capture_output=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_an_array_maps_and_a_job_after_it_merges(self):
        folder = self.folder / "ranks"
        folder.mkdir()
        for rank in range(50):
            lines = [{"event": "begin", "rank": rank, "world": 50, "host": "n", "device": 0, "total": 80 * G},
                     {"event": "step", "n": 3, "peak_allocated": 20 * G, "peak_reserved": 21 * G}]
            (folder / f"rank-{rank}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        examples = live.ROOT / "examples/slurm"
        array = self.sbatch("--array=1-6", "--mem=0", examples / "map.sbatch", folder, self.folder / "parts")
        self.sbatch(f"--dependency=afterok:{array}", "--wait", "--output", self.folder / "merged.txt",
                    examples / "merge.sbatch", self.folder / "parts")
        self.assertEqual((self.folder / "merged.txt").read_text(), self.plimsoll("map", folder).stdout)

    def test_ranks_of_several_nodes_report_into_one_folder(self):
        done = self.plimsoll("run", "--out", "r", "--", "srun", "--nodes", str(NODES), "--ntasks", str(NODES),
                             "--export=ALL", sys.executable, "train.py", "4")
        self.assertEqual(done.returncode, 0, done.stderr)
        ranks = self.record()["ranks"]
        self.assertEqual([rank["rank"] for rank in ranks], list(range(NODES)))
        self.assertEqual({rank["world"] for rank in ranks}, {NODES})
        self.assertEqual({rank["steps"] for rank in ranks}, {4})

    def test_a_rank_that_runs_out_on_another_node_is_explained(self):
        done = self.plimsoll("run", "--out", "r", "--", "srun", "--nodes", str(NODES), "--ntasks", str(NODES),
                             "--export=ALL", sys.executable, "train.py", "3", "backward")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(json.loads(self.plimsoll("why", "r", "--json").stdout)["class"], "activation-bound")


if __name__ == "__main__":
    live.main()
