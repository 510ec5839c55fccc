# SPDX-License-Identifier: Apache-2.0
"""Every verb of the command line as a function; each answers with an object."""
import os

from . import _core
from ._answers import Answer, Fit, Plan
from ._jobs import Job, as_settings, core_of, read, split_options


def _paths(given):
    many = given if isinstance(given, (list, tuple)) else [given]
    return [os.fspath(path) for path in many]


def _job(job, keys):
    return read(job, **keys) if keys or not isinstance(job, Job) else job


def fit(job, *, rank=None, all_ranks=False, changes=None, world=None, **keys):
    """Does it fit, where is the peak, how long is a step. `job` is a Job or whatever read() takes; keywords are keys.

    The answer has its closed form at once (`time`, `estimate`, `may_fit`) and errors of the job are raised here; the
    steps of the ranks are walked through the allocator when a figure that needs it is looked at for the first time.
    With changes=True the usual changes are priced, too; that takes as long as many answers, so it is left out where a
    Job is asked about again and again. The text has them always when the job is not a Job yet.
    """
    with_changes = not isinstance(job, Job) if changes is None else changes
    return Fit(_job(job, keys)._core, core_of(world), rank, all_ranks, with_changes)


def estimate(job, *, world=None, **keys):
    """The least that a job needs and the seconds of a step, in closed form: for loops over thousands of jobs.

    `tensors` is exact (the peak of the fullest rank); what the allocator adds to it is left out, so that may_fit is
    False only where nothing helps and fit() has the last word.
    """
    return _core.estimate(_job(job, keys)._core, core_of(world))


def understand(job, *, defaults=False, **keys):
    """What was understood of a job, key by key, with where each came from."""
    return Answer(_core.understand(_job(job, keys)._core, defaults))


def lint(job, **keys):
    """What would the framework refuse, ignore or waste."""
    return Answer(_core.lint(_job(job, keys)._core))


def diff(before, after, *, world=None):
    """What explains the difference between two jobs, knob by knob, in bytes and seconds."""
    return Answer(_core.diff(read(before)._core, read(after)._core, core_of(world)))


def climb(job, *, numerics=False, world=None, **keys):
    """Makes a job fit in the steps that cost least."""
    return Answer(_core.climb(_job(job, keys)._core, core_of(world), numerics))


def plan(*files, fix=None, keep=(), numerics=False, objective="time", top=5, world=None, progress=None, **keys):
    """The fastest configurations that fit: plan("llama3-70b", gpu="h100", gpus=32, seq_length=4096, ...)."""
    if objective not in ("time", "headroom"):
        raise ValueError(f"objective is '{objective}'; wanted time or headroom")
    options, settings = split_options(dict(keys))
    paths = _paths(list(files))
    gpus = options.get("gpus")
    fixed = [f"{key}={value}" for key, value in as_settings(fix or {})]
    core = _core.plan(paths, str(options.get("framework") or ""), str(options.get("model") or ""),
                      str(options.get("gpu") or ""), None if gpus is None else int(gpus), settings, core_of(world),
                      fixed, list(keep), numerics, objective == "headroom", top, progress)
    return Plan(core, files, keys)


def why(*logs, job=(), snapshot="", gpu="", world=None):
    """What killed a run: log files or folders, and what to change first."""
    return Answer(_core.why(_paths(list(logs)), core_of(world), _paths(job) if job else [], os.fspath(snapshot), gpu))


def score(*files, by="", world=None):
    """How good the predictions are on files of measured runs."""
    return Answer(_core.score(_paths(list(files)), core_of(world), by))


def rl(file="", *, world=None, **keys):
    """A post-training run: trainer, servers and the loop between them."""
    return Answer(_core.rl(os.fspath(file), as_settings(keys), core_of(world)))


def rl_plan(file="", *, top=5, world=None, progress=None, **keys):
    """The best splits and settings of a post-training run."""
    return Answer(_core.plan_rl(os.fspath(file), as_settings(keys), core_of(world), top, progress))


def observe(*files, **keys):
    """What bounded a post-training run that ran, from the files it wrote."""
    return Answer(_core.observe_rl(_paths(list(files)), as_settings(keys)))


class Recording:
    """A recorded memory history of PyTorch."""

    def __init__(self, core):
        self._core = core

    @property
    def has_history(self):
        return self._core.has_history

    def replay(self, setting=None, *, peak=False, leaks=False):
        """Replayed under its own settings, or under this PYTORCH_CUDA_ALLOC_CONF ("" is PyTorch's default)."""
        return Answer(self._core.replay(setting, False, False, peak, leaks, None))

    def what_if(self):
        """The sensible settings, best first."""
        return Answer(self._core.replay(None, True, False, False, False, None))

    def tune(self, progress=None):
        """Searches the settings for the least reserved memory."""
        return Answer(self._core.replay(None, False, True, False, False, progress))

    def __repr__(self):
        return repr(self.replay())


def open(path, *, device=None, torch="", gpu="", capacity=None, fraction=None):  # noqa: A001
    """Opens what torch.cuda.memory._dump_snapshot() wrote."""
    return Recording(_core.open(os.fspath(path), device, str(torch), gpu, capacity, fraction))
