"""The rows of the table on the roofline of the machine, one panel for each number of threads. Needs Matplotlib."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from table_report import ENOUGH, GOOD, Record, Result

AHEAD, CLOSE, BEHIND = "tab:green", "tab:orange", "tab:red"
LOWEST, HIGHEST = 2.0**-6, 2.0**11
"""The operations per byte that are shown."""


def plot(record: Record, file: str) -> None:
    """Draws it into a file, whose name says the format."""
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    counts = sorted({result.threads for result in record.results})
    figure, axes = pyplot.subplots(len(counts), 1, figsize=(15, 10 * len(counts)), squeeze=False)
    for axis, threads in zip(axes[:, 0], counts, strict=True):
        _panel(axis, record, threads, [r for r in record.results if r.threads == threads])
    figure.suptitle(
        f"dojoir ({record.target}) on the roofline of this machine: {record.machine.partition(', ')[2]}"
    )
    figure.tight_layout(rect=(0, 0, 1, 0.99))
    figure.savefig(file, dpi=100)
    pyplot.close(figure)


def _panel(axis: Any, record: Record, threads: int, results: Sequence[Result]) -> None:
    x = [LOWEST * 2 ** (step / 8) for step in range(137)]
    for ceiling in record.ceilings:
        x = sorted([*x, ceiling.fma_f32 / ceiling.memory])
        own = ceiling.threads == record.at(threads).threads
        roof = [min(ceiling.fma_f32, ceiling.memory * at) for at in x]
        name = f"{ceiling.threads} thread{'s' if ceiling.threads > 1 else ''}"
        axis.plot(
            x, roof, color="black" if own else "gray", linestyle="-" if own else "--", linewidth=1.5 if own else 1,
            label=f"ceiling, {name}: {ceiling.memory:.1f} GB/s, {ceiling.fma_f32:.0f} GFLOP/s", zorder=1,
        )  # fmt: skip
    places = [(max(r.flops, 1) / r.bytes, r) for r in results]
    groups: dict[str, list[tuple[float, float]]] = {AHEAD: [], CLOSE: [], BEHIND: []}
    for intensity, r in places:
        ratio = 1.0 if r.ratio is None else r.ratio
        at = max(intensity, LOWEST)
        color = AHEAD if ratio >= GOOD else CLOSE if ratio >= ENOUGH else BEHIND
        groups[color].append((at, at * r.bytes / r.seconds / 1e9))
    labels = "at least as fast as the fastest peer", f"at least {ENOUGH} of it", f"less than {ENOUGH} of it"
    for (color, points), label in zip(groups.items(), labels, strict=True):
        if points:
            axis.scatter(*zip(*points, strict=True), s=28, color=color, label=label, zorder=3)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)
    axis.set_xlim(LOWEST * 0.7, HIGHEST)
    _label(axis, places)
    axis.set_xlabel("operations per byte that must move (FLOP/B); kernels that have none at the left edge")
    axis.set_ylabel("GFLOP/s")
    axis.set_title(f"{threads} thread{'s' if threads > 1 else ''}")
    axis.grid(True, which="major", color="0.9", zorder=0)
    axis.legend(loc="lower right", fontsize=9)


def _label(axis: Any, places: Sequence[tuple[float, Result]]) -> None:
    """Names beside the points; those that would lie on each other are moved apart, and lines lead to them."""
    ordered = sorted(places, key=lambda place: (round(max(place[0], LOWEST), 3), place[1].flops / place[1].seconds))
    axis.figure.canvas.draw()
    spots = []
    for intensity, r in ordered:
        at = max(intensity, LOWEST)
        spots.append((at, at * r.bytes / r.seconds / 1e9, r))
    pixels = [axis.transData.transform((at, rate)) for at, rate, _ in spots]
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in pixels]
    for (at, rate, r), (x, y) in zip(spots, pixels, strict=True):
        dx, dy = _free(taken, x, y, width=6.2 * len(r.row) + 4, height=12)
        axis.annotate(
            r.row, (at, rate), xytext=(dx, dy), textcoords="offset pixels", fontsize=7, va="center", zorder=4,
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
            arrowprops={"arrowstyle": "-", "color": "0.5", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2},
        )  # fmt: skip


def _free(
    taken: list[tuple[float, float, float, float]], x: float, y: float, width: float, height: float
) -> tuple[float, float]:
    """The offset of the nearest place for a text beside a point that lies on no other, in pixels; it is taken."""
    offsets = [
        (side, up * height)
        for up in sorted(range(-24, 25), key=abs)
        for side in (9.0, -9.0 - width, 60.0, -60.0 - width, 130.0, 200.0)
    ]
    offsets.sort(key=lambda offset: abs(offset[0] if offset[0] > 0 else offset[0] + width) + 2 * abs(offset[1]))
    for dx, dy in offsets:
        box = (x + dx, y + dy - height / 2, x + dx + width, y + dy + height / 2)
        if all(box[2] < b[0] or b[2] < box[0] or box[3] < b[1] or b[3] < box[1] for b in taken):
            taken.append(box)
            return dx, dy
    return 9.0, 0.0
