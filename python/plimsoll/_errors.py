# SPDX-License-Identifier: Apache-2.0
"""Errors as exceptions, with the words of the command line."""


class Error(Exception):
    """`code` is the exit code that the command line would have; `hint` says what to do and may be empty."""

    code = 3

    def __init__(self, message, hint=""):
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self):
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(Error, ValueError):
    """The question itself is wrong: a key that does not exist, a combination that cannot be asked."""

    code = 2


class InputError(Error, ValueError):
    """A file or a value cannot be used."""

    code = 3


class MissingError(Error, OSError):
    """Something is missing on this machine: a program, a permission, a capability."""

    code = 4


def make_error(code, message, hint):
    """The exception of an exit code."""
    kinds = {kind.code: kind for kind in (UsageError, InputError, MissingError)}
    return kinds.get(code, InputError)(message, hint)
