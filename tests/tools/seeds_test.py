#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/seeds/items.md: every item leads to a section that a command answers, or says why none can."""
import importlib.machinery
import importlib.util
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEEDS = ROOT / "docs" / "seeds"
ITEM = re.compile(r"^\| ([A-F])(\d+) \| (.+) \| (.+) \|$", re.MULTILINE)
LEAST_ITEMS = 282  # as many were counted in the five documents; a list may be finer, not coarser

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("site_tool", str(ROOT / "tools" / "site"))
site = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(site)


def sections(path):
    """Anchor -> text of a document's sections."""
    found, taken, current = {}, {}, None
    in_code = False
    for line in path.read_text(encoding="utf-8").splitlines():
        in_code ^= line.startswith("```")
        if not in_code and line.startswith("## "):
            current = site.slug(line[3:], taken)
            found[current] = ""
        elif current:
            found[current] += line + "\n"
    return found


class Items(unittest.TestCase):
    def setUp(self):
        self.items = ITEM.findall((SEEDS / "items.md").read_text(encoding="utf-8"))

    def test_are_as_many_as_were_counted_and_numbered_in_order(self):
        self.assertGreaterEqual(len(self.items), LEAST_ITEMS)
        for letter in "ABCDEF":
            numbers = [int(number) for group, number, _, _ in self.items if group == letter]
            self.assertEqual(numbers, list(range(1, len(numbers) + 1)))

    def test_lead_to_a_section_with_a_session_or_say_why_not(self):
        texts = {path.name: sections(path) for path in SEEDS.glob("*.md")}
        for letter, number, item, answer in self.items:
            with self.subTest(item=f"{letter}{number} {item}"):
                if answer.startswith("cannot: "):
                    self.assertGreater(len(answer), 30)
                    continue
                name, anchor = re.search(r"\]\(([\w-]+\.md)#([\w-]+)\)", answer).groups()
                self.assertRegex(texts[name][anchor], r"```console\n\$ plimsoll ")


if __name__ == "__main__":
    unittest.main()
