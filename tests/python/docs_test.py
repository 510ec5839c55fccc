# SPDX-License-Identifier: Apache-2.0
"""Sessions of Python in the documents answer what they show: blocks marked ```pycon, run from the root."""
import doctest
import os
import re
import unittest

from support import ROOT

BLOCK = re.compile(r"^```pycon\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Documents(unittest.TestCase):
    def test_sessions_answer_what_they_show(self):
        os.environ["COLUMNS"] = "100"
        os.chdir(ROOT)
        tried = 0
        for path in sorted(ROOT.glob("docs/**/*.md")) + [ROOT / "README.md"]:
            names = {}
            for block in BLOCK.findall(path.read_text(encoding="utf-8")):
                test = doctest.DocTestParser().get_doctest(block, names, path.name, str(path), 0)
                said = []
                runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
                runner.run(test, out=said.append, clear_globs=False)
                names = test.globs
                self.assertEqual(runner.failures, 0, "".join(said))
                tried += runner.tries
        self.assertGreater(tried, 5)


if __name__ == "__main__":
    unittest.main()
