# SPDX-License-Identifier: Apache-2.0
"""Live objects of the frameworks, told by what they hold; none of the frameworks is imported."""
import argparse
import dataclasses
import enum
import json

from ._errors import InputError


def _plain(value):
    """Values that JSON has: enumerations by value, torch.dtype and other odd types by name, private fields left out."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    text = str(value)
    return text[len("torch."):] if text.startswith("torch.") else text


def _as_dict(thing):
    if isinstance(thing, dict):
        return thing
    if callable(getattr(thing, "to_dict", None)):  # PretrainedConfig, TrainingArguments
        return thing.to_dict()
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        return {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
    if hasattr(thing, "__dict__"):
        return {key: value for key, value in vars(thing).items() if not key.startswith("_")}
    raise InputError(f"a {type(thing).__name__} is neither a path, a dictionary nor a configuration object",
                     "give a path, the name of a model, a dictionary, or an object with to_dict()")


def _is_megatron(thing, members):
    wanted = {"num_layers", "hidden_size", "tensor_model_parallel_size", "micro_batch_size"}
    return wanted <= members.keys() or (isinstance(thing, argparse.Namespace) and "num_layers" in members)


# What Megatron's validate_args computes from the flags and no flag of its own says.
_COMPUTED = {"data_parallel_size", "rank", "local_rank", "transformer_pipeline_model_parallel_size", "params_dtype"}


def _flag_value(value):
    """Enumerations whose values are numbers (AttnBackend) are written by name on a command line."""
    if isinstance(value, enum.Enum) and not isinstance(value.value, str):
        return value.name
    return _plain(value)


# Copies that it makes of other arguments; other values are the user's own.
_COPIES = {"encoder_seq_length": "seq_length", "tensor_parallel_num_weight_shards": "tensor_model_parallel_size",
           "expert_tensor_parallel_num_weight_shards": "expert_tensor_parallel_size"}
# The flags that it computes the number of chunks from.
_CHUNKS = ("num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank",
           "pipeline_model_parallel_layout")
# Defaults that act only with another argument.
_ONLY_WITH = {"fp8_recipe": "fp8", "fp4_recipe": "fp4"}


def _is_said(key, value, members):
    if value is None or value == [] or key in _COMPUTED:
        return False
    if key == "virtual_pipeline_model_parallel_size" and any(members.get(name) for name in _CHUNKS):
        return False
    if key in _COPIES and value == members.get(_COPIES[key]):
        return False
    return key not in _ONLY_WITH or bool(members.get(_ONLY_WITH[key]))


def _megatron_flags(members):
    return {"--" + key.replace("_", "-"): _flag_value(value) for key, value in members.items()
            if _is_said(key, value, members)}


# Keys that only our own job files have at their top.
_OUR_KEYS = {"gpu", "gpus", "seq_length", "micro_batch_size", "global_batch_size"}


def is_keywords(members):
    """Whether a dictionary is a job in our own flat keys, not the content of some framework's file."""
    return "model" in members and isinstance(members["model"], str) and bool(_OUR_KEYS & members.keys())


def as_source(thing):
    """(name, text) of a dictionary or object, as its framework would have written it to a file."""
    members = _as_dict(thing)
    if _is_megatron(thing, members):
        source = {"args": _megatron_flags(members)}
        # Rows as the tokenizer of the run and their padding made them; no flag says that.
        padded = members.get("padded_vocab_size")
        if isinstance(padded, int) and members.get("vocab_size") is None:
            source.update(resolved_vocab_size=padded, padded_vocab_size=padded)
        return "megatron arguments", json.dumps(source)
    name = "config.json" if "model_type" in members else type(thing).__name__
    plain = _plain(members)
    if not isinstance(thing, dict):  # objects spell out every default, dictionaries what was written
        plain = {key: value for key, value in plain.items() if value is not None}
    return name, json.dumps(plain)


def from_file(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return path, file.read()
