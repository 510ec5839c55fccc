# SPDX-License-Identifier: Apache-2.0
"""Jobs from paths, names of models, dictionaries and live objects of the frameworks."""
import os

from . import _core, _objects


def as_text(value):
    """A value of Python as a job file or a flag would have it."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(as_text(item) for item in value) + "]"
    return str(value)


def as_settings(keys):
    """{"environment": {"NAME": "x"}} sets a variable; other keys are set as they are."""
    settings = []
    for key, value in keys.items():
        if key == "environment" and isinstance(value, dict):
            settings += [(f"environment.{name}", as_text(text)) for name, text in value.items()]
        else:
            settings.append((key, as_text(value)))
    return settings


class World:
    """What prices depend on beside the job: World("calibration.json"), or the built-in one."""

    def __init__(self, calibration=None):
        self._core = _core.World() if calibration is None else _core.World.read(os.fspath(calibration))


BUILT_IN = World()


def core_of(world):
    return (world or BUILT_IN)._core


class Job:
    """What was asked. A job is a value: with_() makes another one and reads no file again."""

    def __init__(self, core):
        self._core = core

    def with_(self, **keys):
        """The same job with these keys instead: with_(micro_batch_size=2, tp=4)."""
        return Job(self._core.with_settings(as_settings(keys)))

    def fit(self, **options):
        from ._verbs import fit
        return fit(self, **options)

    def estimate(self, **options):
        from ._verbs import estimate
        return estimate(self, **options)

    def __repr__(self):
        from ._verbs import understand
        return repr(understand(self))


# Parameters of the reading itself; every other keyword is a key of the job.
_OPTIONS = ("framework", "model", "gpu", "gpus", "config", "strict")


def split_options(keys):
    options = {name: keys.pop(name) for name in _OPTIONS if name in keys}
    return options, as_settings(keys)


def read(*sources, **keys):
    """Reads paths, names of models, dictionaries or live objects as one job.

    read("job.toml"), read("llama3-8b", gpu="h100", gpus=8), read(config, training_arguments, ds_config, gpu="h100"),
    read({"model": "llama3-8b", "gpu": "h100", "gpus": 8}). Keywords are keys of a job and overrule the sources.
    """
    if len(sources) == 1 and isinstance(sources[0], Job):
        return sources[0].with_(**keys) if keys else sources[0]
    if len(sources) == 1 and isinstance(sources[0], (list, tuple)):
        sources = tuple(sources[0])
    # A dictionary that speaks of a whole job in our own keys is the keywords.
    if len(sources) == 1 and isinstance(sources[0], dict) and _objects.is_keywords(sources[0]):
        keys = {**sources[0], **keys}
        sources = ()
    options, settings = split_options(dict(keys))
    files, texts = [], []
    for source in sources:
        if isinstance(source, (str, os.PathLike)):
            files.append(os.fspath(source))
        else:
            texts.append(_objects.as_source(source))
    if texts and files:
        texts = [_objects.from_file(path) for path in files if os.path.exists(path)] + texts
        names = [path for path in files if not os.path.exists(path)]
        if names and "model" not in options:
            options["model"] = names[0]
        files = []
    gpus = options.get("gpus")
    return Job(_core.read(files, texts, str(options.get("framework") or ""), str(options.get("model") or ""),
                          str(options.get("gpu") or ""), None if gpus is None else int(gpus),
                          str(options.get("config") or ""), bool(options.get("strict", False)), settings))
