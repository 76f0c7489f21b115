"""Plots as plain SVG: no script, no font, no file of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from dojoir.evidence.figures import Bench, Times, sizes_in_words
from dojoir.records import State
from dojoir.records.state import way
from dojoir.support.seconds import format_seconds

WIDTH = 640
ROW = 26
LEFT = 150

NOT_OK = ("wrong", "crashed", "hung", "memory", "build-failed", "lost")
"""The statuses of states that came to no time."""


def _svg_text(x: float, y: float, words: str, anchor: str = "start", kind: str = "t") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(height: float, title: str, words: str, parts: Sequence[str], name: str) -> str:
    head = f"<title>{escape(title)}</title><desc>{escape(words)}</desc>"
    return (
        f'<svg class="plot {name}" role="img" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'preserveAspectRatio="xMinYMin meet">{head}{"".join(parts)}</svg>'
    )


def times(shape: str, given: Sequence[Times]) -> str:
    """The intervals of some times, beginning at 0: a box between the quartiles, a line over the interval."""
    if not given:
        return ""
    most = max(max(one.high, one.third_quartile) for one in given) or 1.0
    reach = WIDTH - LEFT - 110

    def at(seconds: float) -> float:
        return LEFT + reach * seconds / most

    parts = []
    for number, one in enumerate(given):
        y = 12 + ROW * number
        parts.append(_svg_text(LEFT - 8, y + 9, shortened(one.name, 22), "end"))
        left, right = at(one.first_quartile), at(one.third_quartile)
        parts.append(f'<rect class="box" x="{left:.1f}" y="{y}" width="{max(1.0, right - left):.1f}" height="12"/>')
        parts.append(
            f'<line class="bar" x1="{at(one.low):.1f}" x2="{at(one.high):.1f}" y1="{y + 6}" y2="{y + 6}"/>'
        )
        parts.append(f'<circle class="mid" cx="{at(one.seconds):.1f}" cy="{y + 6}" r="3.5"/>')
        parts.append(_svg_text(WIDTH - 100, y + 9, format_seconds(one.seconds)))
    words = ", ".join(f"{one.name} {format_seconds(one.seconds)}" for one in given)
    return _svg(20 + ROW * len(given), f"times at {shape}", words, parts, "times")


def roofline(bench: Bench | None) -> str:
    """Operations a second over operations a byte at each shape that has its ceilings, both as logarithms, below
    what the machine reaches; "" where none has."""
    points, roofs = [], []
    for shape in () if bench is None else bench.shapes:
        one, own = shape.ceiling, shape.own
        if (
            bench is not None
            and one is not None
            and own is not None
            and one.bytes
            and one.memory
            and one.arithmetic
        ):
            work, name = one.flops or one.integer, f"{bench.kernel} {sizes_in_words(shape.sizes)}"
            points.append((name, work / one.bytes, work / own.seconds / 1e9))
            roofs.append((one.memory, one.arithmetic))
    if not roofs:
        return ""
    memory, arithmetic = roofs[0]
    height, bottom, top = 260, 220, 20
    knee = arithmetic / memory
    intensities = [max(1e-3, x) for _, x, _ in points] + [knee]
    low, high = min(intensities) / 4, max(intensities) * 4
    rates = [max(1e-6, y) for _, _, y in points] + [arithmetic]
    least, most = min([*rates, low * memory]) / 2, max(rates) * 2

    def x(value: float) -> float:
        return 60 + (WIDTH - 90) * math.log(value / low) / math.log(high / low)

    def y(value: float) -> float:
        return bottom - (bottom - top) * math.log(value / least) / math.log(most / least)

    path = f"M{x(low):.1f} {y(low * memory):.1f}L{x(knee):.1f} {y(arithmetic):.1f}"
    parts = [
        f'<path class="roof" d="{path}L{x(high):.1f} {y(arithmetic):.1f}"/>',
        _svg_text(60, height - 12, "operations a byte", kind="t dim"),
        _svg_text(60, 14, "GFLOP/s", kind="t dim"),
        _svg_text(WIDTH - 30, y(arithmetic) - 6, f"{arithmetic:.3g} GFLOP/s", "end", "t dim"),
        _svg_text(x(low) + 6, y(low * memory) - 8, f"{memory:.3g} GB/s", kind="t dim"),
    ]
    for name, intensity, rate in points:
        px, py = x(max(1e-3, intensity)), y(max(1e-6, rate))
        parts.append(f'<circle class="mid" cx="{px:.1f}" cy="{py:.1f}" r="4"/>')
        parts.append(_svg_text(px + 8, py + 4, shortened(name, 24)))
    words = ", ".join(f"{name}: {i:.3g} operations a byte, {rate:.3g} GFLOP/s" for name, i, rate in points)
    return _svg(height, "roofline", words, parts, "roofline")


def tree(states: Sequence[State]) -> str:
    """A search: moves from left to right, a point a state, bigger and darker the faster it is; what leads to the
    fastest is a thicker line."""
    if not states:
        return ""
    by_hash = {state.hash: state for state in states}
    depth = {state.hash: len(way(state.hash, by_hash)) - 1 for state in states}
    widest = max(depth.values())
    columns: dict[int, list[State]] = {}
    for state in states:
        columns.setdefault(depth[state.hash], []).append(state)
    height = max(80.0, min(900.0, 14.0 * max(map(len, columns.values())) + 30))
    place: dict[str, tuple[float, float]] = {}
    for column, members in columns.items():
        for number, state in enumerate(members):
            place[state.hash] = (
                20 + (WIDTH - 40) * column / max(1, widest), 15 + (height - 30) * (number + 0.5) / len(members)
            )  # fmt: skip
    timed = [state for state in states if state.seconds]
    best = min(timed, key=lambda state: state.seconds or math.inf, default=None)
    on_the_way = set(way(best.hash, by_hash)) if best is not None else set()
    slowest = max((state.seconds or 0.0 for state in timed), default=0.0)
    fastest = min((state.seconds or math.inf for state in timed), default=1.0)
    parts = []
    for state in states:
        if state.parent in place:
            (x1, y1), (x2, y2) = place[state.parent], place[state.hash]
            kind = "way" if state.hash in on_the_way else "edge"
            parts.append(f'<line class="{kind}" x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}"/>')
    for number, state in enumerate(states):
        px, py = place[state.hash]
        share = _share(state.seconds, fastest, slowest)
        kind = "bad" if state.status in NOT_OK else "won" if state is best else "node"
        told = f"{state.move or 'the start'}: {described(state)}"
        parts.append(
            f'<circle class="{kind}" data-n="{number}" cx="{px:.0f}" cy="{py:.0f}" r="{2 + 3 * share:.1f}">'
            f"<title>{escape(told)}</title></circle>"
        )
    words = f"{len(states)} states, up to {widest} moves"
    return _svg(height, "the search as a tree", words, parts, "tree")


def _share(seconds: float | None, fastest: float, slowest: float) -> float:
    if not seconds or slowest <= fastest:
        return 0.0 if not seconds else 1.0
    return 1 - math.log(seconds / fastest) / math.log(slowest / fastest)


def described(state: State) -> str:
    """The outcome of a state, in words."""
    time = format_seconds(state.seconds) if state.seconds else ""
    return ", ".join(word for word in (state.status, time) if word) or "on the way"


def shortened(words: str, most: int) -> str:
    return words if len(words) <= most else f"{words[: most - 1]}…"
