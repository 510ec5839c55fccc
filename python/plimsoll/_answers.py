# SPDX-License-Identifier: Apache-2.0
"""Answers: figures as attributes, everything as a dictionary, text for a terminal, HTML for a notebook."""
import html
import json
import shutil
import textwrap

from . import _core


class Record:
    """One object of an answer's JSON; members are attributes. Lists and tables below it are made of the same."""

    __slots__ = ("_members",)

    def __init__(self, members):
        object.__setattr__(self, "_members", members)

    def __getattr__(self, name):
        try:
            return _wrap(self._members[name])
        except KeyError:
            raise AttributeError(f"there is no '{name}'; there are {', '.join(self._members)}") from None

    def __setattr__(self, name, value):
        raise AttributeError("answers cannot be changed")

    def __getitem__(self, name):
        return _wrap(self._members[name])

    def __contains__(self, name):
        return name in self._members

    def __iter__(self):
        return iter(self._members)

    def __dir__(self):
        return list(self._members)

    def __eq__(self, other):
        return isinstance(other, Record) and self._members == other._members

    __hash__ = None

    def to_dict(self):
        return self._members

    def __repr__(self):
        return f"Record({', '.join(f'{name}={value!r}' for name, value in self._members.items())})"


def _wrap(value):
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list):
        return [_wrap(item) for item in value]
    return value


def gib(count):
    return f"{count / 2**30:,.2f}"


class Answer:
    """What a verb answered. `bool(answer)` is its yes or no; members of its JSON are attributes."""

    def __init__(self, core):
        self._core = core
        self._read = None

    def __bool__(self):
        return self._core.yes

    @property
    def warnings(self):
        """What is not in the numbers."""
        return self._core.warnings

    def to_json(self):
        return self._core.json()

    def to_dict(self):
        if self._read is None:
            self._read = json.loads(self._core.json())
        return self._read

    def text(self, width=None):
        """What the command line prints, at most `width` columns wide; the terminal's width if not given."""
        return self._core.text(shutil.get_terminal_size((100, 24)).columns if width is None else width)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(Record(self.to_dict()), name)

    def __dir__(self):
        return [*super().__dir__(), *self.to_dict()]

    def __repr__(self):
        return self.text().rstrip("\n")

    def _repr_html_(self):
        return f'<pre style="line-height:1.25">{html.escape(self.text(110))}</pre>'


# One colour per kind of memory, told apart by people who see red and green alike (Okabe and Ito's palette).
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999", "#332288", "#88ccee"]


def _bar(rank):
    """The memory of a rank as one bar whose parts sum to the capacity, or to what is needed where that is more."""
    rows = [row for row in rank.table if row.bytes > 0]
    whole = max(sum(row.bytes for row in rows), 1)
    parts, legend = [], []
    for index, row in enumerate(rows):
        free = row is rank.table[-1] or row.name == "free"
        colour = "#eeeeee" if free else COLOURS[index % len(COLOURS)]
        share = 100 * row.bytes / whole
        title = html.escape(f"{row.name}: {gib(row.bytes)} GiB")
        parts.append(f'<div title="{title}" style="width:{share:.3f}%;background:{colour}"></div>')
        square = f"display:inline-block;width:.9em;height:.9em;background:{colour};border:1px solid #8888"
        legend.append(f'<tr><td style="text-align:left"><span style="{square}"></span> {html.escape(row.name)}</td>'
                      f'<td style="text-align:right">{gib(row.bytes)}</td></tr>')
    return ('<div style="display:flex;height:1.6em;max-width:48em;border:1px solid #888">' + "".join(parts) + "</div>"
            '<table style="margin-top:.5em"><thead><tr><th style="text-align:left">memory</th><th>GiB</th></tr></thead>'
            "<tbody>" + "".join(legend) + "</tbody></table>")


class Fit(Answer):
    """The answer of fit. Figures are attributes without any JSON: fits, worst, ranks, time, estimate, may_fit.

    Seconds and tensors have a closed form, which is there at once. The rest needs the allocator, and is computed when it
    is looked at; a job whose tensors alone need more than there is does not fit, and nothing is walked to say so.
    """

    def __init__(self, job, world, rank=None, all_ranks=False, changes=False):
        self._asked = (job, world, rank, all_ranks, changes)
        self._walked = None
        self._read = None
        self.estimate = _core.estimate(job, world)
        if rank is not None:
            self._core  # there may be no such rank

    @property
    def _core(self):
        if self._walked is None:
            self._walked = _core.fit(*self._asked)
        return self._walked

    @property
    def may_fit(self):
        """False: no allocator makes it fit. True: `fits` decides."""
        return self.estimate.may_fit

    def __bool__(self):
        return self.may_fit and self._core.yes

    @property
    def fits(self):
        return self.may_fit and self._core.fits

    @property
    def ranks(self):
        return self._core.ranks

    @property
    def worst(self):
        return self._core.worst

    @property
    def time(self):
        return self.estimate.time

    def _repr_html_(self):
        worst, time = self.worst, self.time
        verdict = (f"fits: {gib(worst.headroom)} of {gib(worst.capacity)} GiB are free" if self.fits else
                   f"does not fit: {gib(worst.device_used)} GiB are needed, {gib(worst.capacity)} GiB are there")
        job = self.to_dict()["job"]
        return (f"<div><b>{html.escape(verdict)}</b> on the worst rank (pp={worst.pipeline_rank}); "
                f"a step takes {time.seconds:.3f} s ({time.low:.3f} to {time.high:.3f}), "
                f"{time.tokens_per_second_per_gpu:,.0f} tokens/s/GPU<br>"
                f"{html.escape(str(job['model']))}, {html.escape(job['framework'])}, "
                f"{job['gpus']} × {html.escape(job['gpu'])}{_bar(worst)}</div>")


class Plan(Answer):
    """The answer of plan: `best` is the first row, `job` what to ask next about it."""

    def __init__(self, core, files, options):
        super().__init__(core)
        self._files = files
        self._options = options

    @property
    def best(self):
        plans = self.to_dict()["plans"]
        return Record(plans[0]) if plans else None

    @property
    def job(self):
        """The best configuration as a job; None where nothing fits."""
        from ._jobs import read
        if self.best is None:
            return None
        settings = {**self.to_dict().get("assumed", {}), **self.to_dict()["plans"][0]["settings"]}
        framework = self._options.get("framework") or self.to_dict()["framework"]
        return read(*self._files, **{**self._options, "framework": framework}).with_(**settings)

    def _repr_html_(self):
        rows = "".join(
            f"<tr><td>{number}</td><td style='text-align:left'>{html.escape(plan['configuration'])}</td>"
            f"<td>{plan['step_seconds']:.3f}</td><td>{plan['tokens_per_second_per_gpu']:,.0f}</td>"
            f"<td>{gib(plan['headroom'])}</td></tr>"
            for number, plan in enumerate(self.to_dict()["plans"], 1))
        if not rows:
            return super()._repr_html_()
        return ("<table><thead><tr><th>#</th><th>configuration</th><th>step s</th><th>tokens/s/GPU</th>"
                f"<th>headroom GiB</th></tr></thead><tbody>{rows}</tbody></table>")


def indented(text):
    return textwrap.indent(text, "  ")
