#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/unity-groups: which sources may be compiled as one."""

import pathlib
import subprocess
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/unity-groups"


def hidden(*lines):
    return "\n".join(["namespace plimsoll {", "namespace {", "", *lines, "", "}  // namespace", "}  // namespace plimsoll", ""])


class Groups(unittest.TestCase):
    def groups(self, *texts):
        """The group of each source, in their order."""
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for number, text in enumerate(texts):
                files.append(pathlib.Path(folder) / f"source_{number}.cpp")
                files[-1].write_text(text)
            rows = subprocess.run([TOOL, *files], check=True, capture_output=True, text=True).stdout.splitlines()
        self.assertEqual([row.split(" ", 1)[1] for row in rows], [str(file) for file in files])
        return [int(row.split()[0]) for row in rows]

    def assert_together(self, *texts):
        self.assertEqual(len(set(self.groups(*texts))), 1)

    def assert_apart(self, one, other):
        self.assertEqual(self.groups(one, other), [1, 2])
        self.assertEqual(self.groups(other, one), [1, 2])

    def test_sources_that_share_no_name_are_one(self):
        self.assert_together(hidden("int rows(int n) { return n; }"), hidden("int columns(int n) { return n; }"))

    def test_two_functions_of_one_name_are_apart(self):
        self.assert_apart(hidden("int rows(int n) { return n; }"), hidden("int rows(char c) { return c; }"))

    def test_every_kind_of_declaration_counts(self):
        for declaration in ("constexpr std::string_view kMarks[] = {", "struct Row {", "enum class Row : int {", "struct Row : Base {",
                            "const std::map<int, std::vector<int>>& marks() {", "std::function<bool(int)> marks(int n) {",
                            "template <typename T> T marks(T value) {", "using Marks = std::vector<int>;", "double marks;"):
            name = next(word for word in ("kMarks", "Row", "Marks", "marks") if word in declaration)
            self.assert_apart(hidden(declaration), f"void print() {{ take({name}); }}\n")

    def test_a_name_that_the_other_takes_from_a_header_is_not_hidden_by_it(self):
        self.assert_apart(hidden("int bytes_of(int n) { return n; }"), "int size() { return bytes_of(3); }\n")

    def test_macros_and_static_functions_count(self):
        self.assert_apart("#define ROW(a) a\n", "int x = ROW(1);\n")
        self.assert_apart("static int rows() { return 1; }\n", "int x = rows();\n")

    def test_members_words_and_comments_do_not(self):
        one = hidden("int rows(int n) { return n; }")
        self.assert_together(one, 'int f(Table t) { return t.rows() + t->rows + Table::rows; }  // rows\nauto s = "rows";\n')
        self.assert_together("int Table::rows() { return 1; }\n", "int f() { return rows; }\n")

    def test_the_same_alias_twice_is_no_clash_and_another_of_its_name_is(self):
        self.assert_together("using base::Bytes;\nBytes a;\n", "using base::Bytes;\nBytes b;\n")
        self.assert_apart("using base::Bytes;\nBytes a;\n", "using other::Bytes;\nBytes b;\n")

    def test_a_group_has_a_limit(self):
        groups = self.groups(*(hidden(f"int rows_{n}() {{ return 1; }}") for n in range(40)))
        self.assertEqual(max(groups.count(group) for group in groups), 16)
        long = "int x;\n" * 2000
        self.assertEqual(self.groups(long, long), [1, 2])


if __name__ == "__main__":
    unittest.main()
