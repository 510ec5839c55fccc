# SPDX-License-Identifier: Apache-2.0
"""A stand-in for PyTorch that has the counters, hooks and names that python/plimsoll_hook.py touches, and no tensors.

A test moves the device's memory with torch.use(bytes) and torch.drop(bytes); what does not fit calls the observer and
raises, as PyTorch does.
"""
import sys
import types

__version__ = "2.11.0+stub"
TOTAL = 80 << 30
CONTEXT = 512 << 20  # what the device holds beside torch


class OutOfMemoryError(RuntimeError):
    pass


class State:
    initialized = False
    queued = []
    allocated = reserved = peak_allocated = peak_reserved = retries = ooms = 0
    observers = []
    history = []  # arguments of _record_memory_history
    resets = 0
    allocations = 0  # a test counts them up
    reads = 0  # of the counters


def _stats(_device):
    State.reads += 1

    def counter(current, peak):
        return {"all": {"current": current, "peak": peak}}
    return {"allocated_bytes": counter(State.allocated, State.peak_allocated),
            "reserved_bytes": counter(State.reserved, State.peak_reserved),
            "allocation": {"all": {"allocated": State.allocations}},
            "inactive_split_bytes": counter(0, 0), "num_alloc_retries": State.retries, "num_ooms": State.ooms}


_C = types.ModuleType("torch._C")
_C._cuda_memoryStats = _stats
_C._cuda_attach_out_of_memory_observer = State.observers.append
sys.modules["torch._C"] = _C


def is_grad_enabled():
    return True


def use(size):
    from . import cuda
    cuda._lazy_init()
    if State.reserved + size + CONTEXT > TOTAL:
        State.ooms += 1
        for observer in State.observers:
            observer(0, size, TOTAL, TOTAL - CONTEXT - State.reserved)
        raise OutOfMemoryError(
            "CUDA out of memory. Tried to allocate %.2f GiB. GPU 0 has a total capacity of %.2f GiB of which %.2f GiB is "
            "free. Including non-PyTorch memory, this process has %.2f GiB memory in use. Of the allocated memory %.2f "
            "GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
            % (size / 2**30, TOTAL / 2**30, (TOTAL - CONTEXT - State.reserved) / 2**30,
               (CONTEXT + State.reserved) / 2**30, State.allocated / 2**30))
    State.allocated += size
    State.reserved = max(State.reserved, State.allocated)
    State.peak_allocated = max(State.peak_allocated, State.allocated)
    State.peak_reserved = max(State.peak_reserved, State.reserved)


def drop(size):
    State.allocated -= size


from . import autograd, cuda, optim  # noqa: E402,F401
