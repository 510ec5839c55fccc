# SPDX-License-Identifier: Apache-2.0
"""The figures of answers that are their own types: printed in words, as a dictionary, as a table in a notebook."""
import html

from ._core import Estimate, Rank, Row, StepTime


def _gib(count):
    return f"{count / 2**30:,.2f} GiB"


def _members(value):
    return [name for name, kind in vars(type(value)).items() if isinstance(kind, property)]


def _plain(value):
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.to_dict() if isinstance(value, (Estimate, Rank, Row, StepTime)) else value


def _to_dict(self):
    """Members by name; bytes and seconds as they are."""
    return {name: _plain(getattr(self, name)) for name in _members(self)}


def _row(row):
    return f"{row.name}: {_gib(row.bytes)}{' (estimate)' if row.estimated else ''}"


def _step(time):
    return (f"{time.seconds:.3f} s a step (interval {time.low:.3f} s to {time.high:.3f} s), "
            f"{time.tokens_per_second_per_gpu:.0f} tokens/s/GPU, MFU {100 * time.mfu:.1f} %")


def _rank(rank):
    free = f"{_gib(rank.headroom)} free" if rank.headroom >= 0 else f"{_gib(-rank.headroom)} too much"
    return (f"rank pp={rank.pipeline_rank}: {_gib(rank.device_used)} of {_gib(rank.capacity)}, {free}; "
            f"peak {_gib(rank.peak_allocated)} allocated, {_gib(rank.peak_reserved)} reserved")


def _estimate(estimate):
    return (f"{'may fit' if estimate.may_fit else 'does not fit'}: {_gib(estimate.tensors)} of tensors and "
            f"{_gib(estimate.outside)} outside PyTorch of {_gib(estimate.capacity)}, rank pp={estimate.pipeline_rank}; "
            f"{_step(estimate.time)}")


def _html(value):
    rows = value.table if isinstance(value, Rank) else []
    cells = "".join(f'<tr><td style="text-align:left">{html.escape(row.name)}</td><td>{_gib(row.bytes)}</td></tr>'
                    for row in rows)
    return f"<div>{html.escape(repr(value))}</div>" + (f"<table>{cells}</table>" if cells else "")


for _kind, _words in ((Row, _row), (StepTime, _step), (Rank, _rank), (Estimate, _estimate)):
    _kind.__repr__ = _words
    _kind.to_dict = _to_dict
    _kind._repr_html_ = _html
