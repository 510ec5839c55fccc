# SPDX-License-Identifier: Apache-2.0
"""Runs recorded on an H200 (tests/data/live/h200): what the hook wrote is what torch counted, and every failure is
diagnosed right from its folder."""

import json
import shutil

import live

RECORDED = live.ROOT / "tests/data/live/h200"
CAUSES = {
    "oom-forward": "activation-bound",
    "oom-backward": "activation-bound",
    "oom-load": "genuine-capacity",
    "oom-eval": "eval-accumulation",
    "leak": "memory-leak",
    "zombie": "other-process",
    "retry": "activation-bound",
}
PHASES = {"oom-forward": "forward", "oom-backward": "backward", "oom-load": "start", "oom-eval": "evaluation",
          "leak": "backward", "zombie": "forward", "retry": "forward"}


class Recorded(live.Live):
    def test_every_failure_is_diagnosed(self):
        for name, cause in CAUSES.items():
            with self.subTest(name):
                answer = json.loads(self.plimsoll("why", RECORDED / name, "--json").stdout)
                self.assertEqual(answer["class"], cause)

    def test_the_hook_saw_the_phase(self):
        for name, phase in PHASES.items():
            oom = [json.loads(line) for line in (RECORDED / name / "rank-0.jsonl").read_text().splitlines()]
            self.assertEqual([line["phase"] for line in oom if line["event"] == "oom"][-1], phase, name)

    def test_measured_is_what_torch_counted(self):
        for path in RECORDED.glob("*/torch.json"):
            torch = json.loads(path.read_text())
            run = json.loads((path.parent / "run.json").read_text())
            with self.subTest(path.parent.name):
                measured = run["records"][0]["measured"]
                self.assertEqual(measured["peak_allocated"], torch["allocated"])
                self.assertEqual(measured["peak_reserved"], torch["reserved"])
                self.assertLess(abs(measured["step_seconds"] / torch["seconds"] - 1), 0.005)

    def test_recorded_runs_are_scored(self):
        folders = [RECORDED / "fit-llama-events", RECORDED / "retry-retry-1"]
        scored = json.loads(self.plimsoll("score", *folders, "--json").stdout)
        text = json.dumps(scored)
        self.assertIn("peak_allocated", text)
        rows = self.plimsoll("score", *folders).stdout
        self.assertIn("peak_reserved", rows)

    def test_a_leak_is_seen_while_it_runs(self):
        folder = self.folder / "r"
        shutil.copytree(RECORDED / "leak", folder)
        lines = (folder / "rank-0.jsonl").read_text().splitlines()[:21]
        (folder / "rank-0.jsonl").write_text("\n".join(lines) + "\n")
        view = json.loads(self.plimsoll("watch", folder, "--count", "1", "--json").stdout)
        self.assertTrue(view["ranks"][0]["grows"])
        self.assertAlmostEqual(view["ranks"][0]["bytes_per_step"] / 2**30, 3, places=2)


if __name__ == "__main__":
    live.main()
