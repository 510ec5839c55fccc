# SPDX-License-Identifier: Apache-2.0
"""Callbacks that print the prediction before the first step and the comparison after the second.

    trainer = Trainer(..., callbacks=[plimsoll.callbacks.TrainerCallback()])
    lightning.Trainer(callbacks=[plimsoll.callbacks.LightningCallback("job.toml")])

Nothing that happens here ends a training: what cannot be predicted or measured is said, once.
"""
import os
import sys
import time

from ._answers import gib
from ._errors import InputError
from ._verbs import fit


def _measured():
    """(allocated, reserved) peaks in bytes, or None where there is no CUDA in this process."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()


def _gpu_bytes():
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory


def _gpu_name():
    """As the driver has it; a GPU that is in no catalogue has its memory all the same."""
    try:
        torch = sys.modules["torch"]
        name = torch.cuda.get_device_name(torch.cuda.current_device())
        from ._jobs import read
        read("llama3-8b", gpu=name, gpus=1, framework="fsdp2", seq_length=1)
        return name
    except Exception:
        return None


def _length_of(loader):
    """Tokens of a sample, where the first ones of the data have the same; else nobody knows before the data are read."""
    try:
        data = loader.dataset
        lengths = {len(data[index]["input_ids"]) for index in range(min(8, len(data)))}
        return lengths.pop() if len(lengths) == 1 else None
    except Exception:  # a stream, or not a data set of tokens
        return None


def _settle():
    """Waits for the device: a step whose kernels are only queued has not ended."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()


def _say(text):
    """To standard error, by one process of all that train."""
    if os.environ.get("RANK", "0") == "0":
        print(f"plimsoll: {text}", file=sys.stderr, flush=True)


class Watch:
    """The prediction of a job, and what two steps measured."""

    def __init__(self, job=None, say=None, **keys):
        self.job, self.keys = job, keys
        self.say = say or _say
        self.prediction = None
        self.steps = 0
        self.began = None
        self.seconds = None

    def predict(self, *sources, length=None):
        sources = [source for source in sources if source is not None] if self.job is None else [self.job]
        keys = dict(self.keys)
        try:
            # A job that is given says itself how many GPUs it has, unless a launcher does.
            if "WORLD_SIZE" in os.environ or self.job is None:
                keys.setdefault("gpus", int(os.environ.get("WORLD_SIZE", "1")))
            if "gpu" not in keys and "gpu_memory" not in keys and _gpu_bytes():
                keys["gpu_memory"] = _gpu_bytes()
                if _gpu_name():
                    keys["gpu"] = _gpu_name()
            prediction = self._ask(sources, keys, length)
            worst = prediction.worst
            self.prediction = prediction
            self.say(f"predicted {gib(worst.peak_allocated)} GiB allocated, {gib(worst.peak_reserved)} GiB reserved, "
                     f"{self.prediction.time.seconds:.3f} s a step; "
                     f"{'fits' if self.prediction.fits else 'does not fit'} ({gib(worst.headroom)} GiB of headroom)")
        except Exception as error:  # a training does not end because of what watches it
            as_keyword = " (a keyword of the callback: seq_length=4096)" if "--seq-length" in str(error) else ""
            self.say(f"no prediction: {error}{as_keyword}")

    @staticmethod
    def _ask(sources, keys, length):
        from ._jobs import read
        try:
            return fit(read(*sources, **keys))
        except InputError as error:
            if length is None or "seq_length" in keys or "sequence length" not in str(error):
                raise
            return fit(read(*sources, seq_length=length, **keys))

    def step_begins(self):
        self._guarded(self._begin)

    def step_ends(self):
        self.steps += 1
        if self.steps == 2 and self.prediction is not None:
            self._guarded(self._end)

    def _begin(self):
        if self.steps == 1:  # the second step alone is waited for
            _settle()
            self.began = time.perf_counter()

    def _end(self):
        if self.began is not None:
            _settle()
            self.seconds = time.perf_counter() - self.began
        self.compare()

    def _guarded(self, work):
        try:
            work()
        except Exception as error:  # see predict()
            self.say(f"no comparison: {error}")

    def compare(self):
        measured = _measured()
        if measured is None:
            self.say("nothing to compare with: no CUDA device in this process")
            return
        worst = self.prediction.worst
        for name, predicted, seen in (("allocated", worst.peak_allocated, measured[0]),
                                      ("reserved", worst.peak_reserved, measured[1])):
            share = 100 * (predicted - seen) / seen if seen else 0
            self.say(f"after two steps {gib(seen)} GiB {name}, predicted {gib(predicted)} ({share:+.2f} %)")
        if self.seconds is not None:
            self.say(f"the second step took {self.seconds:.3f} s, predicted {self.prediction.time.seconds:.3f}")


def _base(module, name):
    """A base class where its framework is there; the frameworks ask for it, we do not import it by ourselves."""
    try:
        return getattr(__import__(module, fromlist=[name]), name)
    except Exception:
        return object


def __getattr__(name):
    # Made when they are asked for: importing this module imports no framework.
    if name == "TrainerCallback":
        made = _make_trainer_callback()
    elif name == "LightningCallback":
        made = _make_lightning_callback()
    else:
        raise AttributeError(name)
    globals()[name] = made
    return made


def _make_trainer_callback():
    class TrainerCallback(_base("transformers", "TrainerCallback")):
        """For Transformers' Trainer; job is what plimsoll.read takes, else the model's config and the arguments."""

        def __init__(self, job=None, **keys):
            self.watch = Watch(job, **keys)

        def on_train_begin(self, args, state, control, model=None, train_dataloader=None, **kwargs):
            self.watch.predict(getattr(model, "config", None), args, length=_length_of(train_dataloader))

        def on_step_begin(self, args, state, control, **kwargs):
            self.watch.step_begins()

        def on_step_end(self, args, state, control, **kwargs):
            self.watch.step_ends()

    return TrainerCallback


def _make_lightning_callback():
    base = _base("lightning.pytorch", "Callback")
    if base is object:
        base = _base("pytorch_lightning", "Callback")

    class LightningCallback(base):
        """For Lightning; the job has to be given: plimsoll.read takes files, names and dictionaries."""

        def __init__(self, job, **keys):
            super().__init__()
            self.watch = Watch(job, **keys)

        def on_train_start(self, trainer, module):
            self.updates = getattr(trainer, "global_step", 0)
            self.is_within = False
            self.watch.predict()

        # Batches that are accumulated are one step: it ends when the weights have changed.
        def on_train_batch_start(self, trainer, module, batch, batch_idx):
            if not self.is_within:
                self.is_within = True
                self.watch.step_begins()

        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            updates = getattr(trainer, "global_step", self.updates + 1)
            if updates > self.updates:
                self.updates, self.is_within = updates, False
                self.watch.step_ends()

    return LightningCallback
