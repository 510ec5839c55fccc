# SPDX-License-Identifier: Apache-2.0
"""The memory of several answers side by side, as a picture that needs no library to draw it."""
import base64
import html

from ._answers import COLOURS, Fit, gib

_LABEL, _BAR, _NOTE = 190, 460, 230  # widths in pixels: names, bars, figures
_ROW, _HEIGHT = 34, 22
_FREE = "free"


def _text(x, y, words, **more):
    style = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{style}>{html.escape(words)}</text>'


class Chart:
    """Bars of memory, a line at the capacity. `svg` is the picture; a notebook shows it, save() writes it."""

    def __init__(self, answers):
        self._answers = answers

    def _names(self):
        names = []
        for answer in self._answers.values():
            names += [row.name for row in answer.worst.table if row.bytes > 0 and row.name not in (*names, _FREE)]
        return names

    @property
    def svg(self):
        names = self._names()
        colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(names)}
        whole = max(max(answer.worst.capacity, answer.worst.device_used) for answer in self._answers.values())
        parts = []
        for number, (label, answer) in enumerate(self._answers.items()):
            parts += self._bar(10 + number * _ROW, label, answer, colours, _BAR / whole)
        below = 10 + len(self._answers) * _ROW + 16
        per_line = 4
        for number, name in enumerate(names):
            x, y = 10 + (number % per_line) * 215, below + (number // per_line) * 20
            parts.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colours[name]}"/>')
            parts.append(_text(x + 18, y + 11, name))
        height = below + 20 * -(-len(names) // per_line) + 6
        width = _LABEL + _BAR + _NOTE
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                f'height="{height}" font-family="sans-serif" font-size="12" fill="#222">'
                f'<rect width="{width}" height="{height}" fill="#fff"/>{"".join(parts)}</svg>')

    @staticmethod
    def _bar(y, label, answer, colours, scale):
        worst = answer.worst
        x = float(_LABEL)
        parts = [_text(_LABEL - 8, y + 15, label, text_anchor="end")]
        for row in worst.table:
            if row.bytes <= 0 or row.name == _FREE:
                continue
            width = row.bytes * scale
            parts.append(f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_HEIGHT}" fill="{colours[row.name]}">'
                         f'<title>{html.escape(row.name)}: {gib(row.bytes)} GiB</title></rect>')
            x += width
        edge = _LABEL + worst.capacity * scale
        parts.append(f'<line x1="{edge:.2f}" x2="{edge:.2f}" y1="{y - 5}" y2="{y + _HEIGHT + 5}" stroke="#222" '
                     'stroke-width="2"/>')
        note = f"{gib(worst.device_used)} of {gib(worst.capacity)} GiB, {answer.time.seconds:.3f} s"
        parts.append(_text(max(x, edge) + 8, y + 15, note if answer.fits else note + " ✗",
                           fill="#222" if answer.fits else "#b00020", font_weight="normal" if answer.fits else "bold"))
        return parts

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg + "\n")

    def _repr_html_(self):
        # As an image: what cleans notebooks of scripts takes the parts of an inline picture with them.
        data = base64.b64encode(self.svg.encode()).decode()
        return f'<img alt="{html.escape(repr(self))}" src="data:image/svg+xml;base64,{data}">'

    def __repr__(self):
        return "\n".join(f"{label}: {'fits' if answer.fits else 'does not fit'}, {gib(answer.worst.device_used)} of "
                         f"{gib(answer.worst.capacity)} GiB" for label, answer in self._answers.items())


def chart(answers):
    """Draws the memory of answers of fit() side by side: chart({"as it is": pl.fit(job), "tp 8": pl.fit(other)})."""
    named = dict(answers) if hasattr(answers, "keys") else {str(n): answer for n, answer in enumerate(answers, 1)}
    if not named or not all(isinstance(answer, Fit) for answer in named.values()):
        raise TypeError("chart wants answers of fit(): a dictionary from names to answers, or a list of answers")
    return Chart(named)
