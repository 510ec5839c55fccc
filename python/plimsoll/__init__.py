# SPDX-License-Identifier: Apache-2.0
"""Memory and time of training language models, before the launch and after a crash.

    import plimsoll as pl
    job = pl.read("job.toml")
    print(pl.fit(job))
    pl.fit(job.with_(micro_batch_size=2)).worst.headroom

Nothing here imports PyTorch or a training framework; live objects of theirs are understood by what they hold.
"""
from . import _core
from ._values import Estimate, Rank, Row, StepTime
from ._errors import Error, InputError, MissingError, UsageError, make_error
from ._answers import Answer, Fit, Plan, Record
from ._chart import Chart, chart
from ._jobs import Job, World, read
from ._verbs import (Recording, climb, diff, estimate, fit, lint, observe, open, plan, rl, rl_plan, score, understand, why)

_core.failed = make_error
__version__ = _core.__version__

__all__ = ["Answer", "Chart", "Error", "Estimate", "Fit", "InputError", "Job", "MissingError", "Plan", "Rank", "Record",
           "Recording", "Row", "StepTime", "UsageError", "World", "assert_fits", "capture", "chart", "climb", "diff",
           "estimate", "fit", "lint", "observe", "open", "plan", "read", "rl", "rl_plan", "score", "understand", "why"]


def __getattr__(name):
    # Imported when it is asked for, so that the module itself stays quick.
    if name == "callbacks":
        import importlib
        return importlib.import_module(".callbacks", __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def assert_fits(job, gpu=None, **keys):
    """Fails, with the table of memory, where the job does not surely fit: for tests of a repository's own jobs."""
    from ._testing import assert_fits as check
    __tracebackhide__ = True
    return check(job, gpu=gpu, **keys)


def capture(build, path, batch=1, seq=2048, **options):
    """Runs two steps of your own code on fake tensors and writes what they do to memory; fit(path, gpu=...) walks it.

    build(batch, seq) returns the model, its inputs as a dictionary, the optimizer, and perhaps a function of model and
    inputs that returns the loss. Needs PyTorch 2.5 or newer.
    """
    from . import _capture
    return _capture.capture(build, path, batch=batch, seq=seq, **options)
