# SPDX-License-Identifier: Apache-2.0
"""The stub says what the code has: the same names, and the same parameters in the same order with the same defaults."""
import ast
import inspect
import pathlib
import unittest

import plimsoll as pl

STUB = ast.parse(pathlib.Path(pl.__file__).with_name("__init__.pyi").read_text())


def parameters_of_stub(function):
    arguments = function.args
    names = [a.arg for a in arguments.posonlyargs + arguments.args]
    if arguments.vararg:
        names.append("*" + arguments.vararg.arg)
    names += [a.arg for a in arguments.kwonlyargs]
    if arguments.kwarg:
        names.append("**" + arguments.kwarg.arg)
    defaults = [ast.unparse(d) for d in [*arguments.defaults, *arguments.kw_defaults] if d is not None]
    return names, [ast.literal_eval(text) for text in defaults]


def parameters_of_code(function):
    names, defaults = [], []
    for parameter in inspect.signature(function).parameters.values():
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        names.append(stars + parameter.name)
        if parameter.default is not parameter.empty:
            defaults.append(parameter.default)
    return names, defaults


def name_of(member):
    return member.name if isinstance(member, ast.FunctionDef) else member.target.id


class Stub(unittest.TestCase):
    def functions(self, body, owner):
        for node in body:
            if isinstance(node, ast.FunctionDef) and not node.decorator_list and node.name in vars(owner):
                yield node, vars(owner)[node.name]

    def test_functions_take_what_the_stub_says(self):
        found = 0
        for node, function in self.functions(STUB.body, pl):
            with self.subTest(function=node.name):
                self.assertEqual(parameters_of_stub(node), parameters_of_code(function))
                found += 1
        self.assertGreater(found, 14)

    def test_methods_take_what_the_stub_says(self):
        for node in STUB.body:
            if not isinstance(node, ast.ClassDef) or not hasattr(pl, node.name):
                continue
            for method, function in self.functions(node.body, getattr(pl, node.name)):
                with self.subTest(method=f"{node.name}.{method.name}"):
                    self.assertEqual(parameters_of_stub(method), parameters_of_code(function))

    def test_everything_that_is_offered_is_in_the_stub(self):
        names = {node.name for node in STUB.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        self.assertLessEqual(set(pl.__all__), names)

    def test_everything_in_the_stub_is_there(self):
        for node in STUB.body:
            names = [target.id for target in node.targets] if isinstance(node, ast.Assign) else [getattr(node, "name", "_")]
            for name in names:
                self.assertTrue(name.startswith("_") or hasattr(pl, name), name)

    def test_figures_have_the_members_of_the_stub(self):
        answer = pl.fit("llama3-8b", gpu="h100-sxm-80gb", gpus=8)
        for name, thing in (("Rank", answer.worst), ("Row", answer.worst.table[0]), ("StepTime", answer.time)):
            stub = next(node for node in STUB.body if isinstance(node, ast.ClassDef) and node.name == name)
            for member in stub.body:
                self.assertTrue(hasattr(thing, name_of(member)), f"{name}.{name_of(member)}")


if __name__ == "__main__":
    unittest.main()
