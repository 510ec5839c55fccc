# SPDX-License-Identifier: Apache-2.0
"""examples/notebook/tour.ipynb runs without a screen and shows the table, the picture and the error."""
import base64
import json
import pathlib
import re
import subprocess
import sys
import unittest

import plimsoll as pl
from support import EXAMPLES

# Debian's Jupyter belongs to Debian's Python; the module has to be of the same version.
PYTHONS = [sys.executable, "/usr/bin/python3"]
ASK = "import nbconvert, ipykernel, sys; sys.path.insert(0, sys.argv[1]); import plimsoll"


def python_with_jupyter():
    module = str(pathlib.Path(pl.__file__).parents[1])
    for python in PYTHONS:
        if subprocess.run([python, "-c", ASK, module], capture_output=True, check=False).returncode == 0:
            return python
    return None


class Notebook(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        python = python_with_jupyter()
        if python is None:
            raise unittest.SkipTest("no nbconvert and ipykernel for this Python: tools/packages test installs Debian's")
        path = EXAMPLES / "notebook" / "tour.ipynb"
        done = subprocess.run([python, "-m", "nbconvert", "--to", "notebook", "--execute", "--stdout", path],
                              capture_output=True, text=True, check=False, timeout=250)
        if done.returncode != 0:
            raise AssertionError(done.stderr[-3000:])
        cls.cells = [cell for cell in json.loads(done.stdout)["cells"] if cell["cell_type"] == "code"]

    def shown(self, cell, kind):
        for output in self.cells[cell]["outputs"]:
            if kind in output.get("data", {}):
                return "".join(output["data"][kind])
        self.fail(f"cell {cell} shows no {kind}")

    def test_the_answer_is_a_table_whose_rows_are_those_of_the_answer(self):
        page = self.shown(0, "text/html")
        worst = pl.fit(EXAMPLES / "llama3-70b.toml").worst
        self.assertIn("fits: ", page)
        for row in worst.table:
            if row.bytes > 0:
                self.assertIn(f"{row.bytes / 2**30:,.2f}", page)

    def test_the_picture_has_a_bar_for_every_variant(self):
        picture = base64.b64decode(re.search(r"base64,([^\"]+)", self.shown(1, "text/html")).group(1)).decode()
        for name in ("as it is", "micro-batch 2", "tensor parallel 8", "MLP recomputed, too"):
            self.assertIn(f">{name}</text>", picture)
        self.assertEqual(picture.count("<line"), 4)
        self.assertGreater(picture.count("<title>activations:"), 3)

    def test_the_ladder_makes_it_fit(self):
        self.assertIn("<b>fits: ", self.shown(3, "text/html"))

    def test_the_plan_is_a_table(self):
        self.assertEqual(self.shown(4, "text/html").count("<tr>"), 4)

    def test_errors_have_their_words(self):
        said = "".join("".join(output.get("text", "")) for output in self.cells[5]["outputs"])
        self.assertIn("32 GPUs cannot be split into groups of TP 3", said)


if __name__ == "__main__":
    unittest.main()
