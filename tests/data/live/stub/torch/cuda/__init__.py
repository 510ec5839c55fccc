# SPDX-License-Identifier: Apache-2.0
import types

from torch import CONTEXT, State, TOTAL

from . import memory
from .memory import reset_peak_memory_stats  # noqa: F401


def is_initialized():
    return State.initialized


def _lazy_call(function):
    if State.initialized:
        function()
    else:
        State.queued.append(function)


def _lazy_init():
    if State.initialized:
        return
    State.initialized = True
    for function in State.queued:
        function()


def current_device():
    _lazy_init()
    return 0


def mem_get_info():
    return TOTAL - CONTEXT - State.reserved, TOTAL


def get_device_properties(_device):
    return types.SimpleNamespace(name="Stub GPU", total_memory=TOTAL, uuid="01234567-stub")


memory.__name__ = "torch.cuda.memory"
