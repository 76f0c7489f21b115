"""The contents of the page of a run, or of a trace alone."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import dojoir
from dojoir.evidence import bundle
from dojoir.evidence.figures import Bench as Benched
from dojoir.evidence.figures import Shape, Times
from dojoir.evidence.page.view import Bench, Gate, Roofline, State, Step, Time, View, steps_of
from dojoir.evidence.reading import Bundle

WITH_LINES = ("c", "avx2", "avx512", "neon", "rvv", "sve", "cuda", "hip")
"""The targets whose sources have the lines of the kernel beside their loops."""

MOST_STATES = 3000
"""How many states a page shows: the first, and all on the way to the answer."""


def view_of_trace(trace: dojoir.Trace, target: str = "llvm", title: str = "") -> View:
    """The page of a trace."""
    plain = target.partition("@")[0]
    language = plain if plain in WITH_LINES else "c"
    facts = {
        "kernel": trace.start.name, "moves": str(len(trace.moves)), "start": trace.start.hash[:12],
        "result": trace.kernel.hash[:12],
    }  # fmt: skip
    if not trace.is_safe:
        facts["unsafe"] = str(trace.unchecked)
    return View(title or trace.start.name, facts, steps_of(trace, language), language)


def view_of_run(given: Bundle) -> View:
    """The page of a run. Raises DojoError for files that are broken."""
    run = given.told
    try:
        view = view_of_trace(given.trace, run.target, run.name)
    except dojoir.ArgumentError as error:
        if error.diagnostic.code != "no-answer":
            raise
        view = view_of_trace(dojoir.Trace(given.start), run.target, run.name)
    sizes = "; ".join(", ".join(f"{name}={value}" for name, value in one.items()) for one in run.sizes)
    facts = {
        "status": f"{run.status}{f', {run.stopped}' if run.stopped else ''}", "target": run.target, "sizes": sizes,
        "threads": str(run.threads), "verb": run.verb, "begun": run.begun, **view.facts,
        **{name: str(number) for name, number in run.versions.items()},
        **{f"beside {one.beside}": f"{one.median:.3g}x ({one.low:.3g} to {one.high:.3g})" for one in run.gained},
    }  # fmt: skip
    texts = {}
    for title, name in (("What bounds it", bundle.PROFILE), ("Checked", bundle.VERIFY)):
        text = given.text(name)
        if text is not None:
            texts[title] = text
    source = given.source
    if source is not None and view.language != source[0].rpartition(".")[2]:
        texts[source[0]] = source[1]
    with contextlib.suppress(dojoir.DojoError):
        if run.target.partition("@")[0] == "llvm":
            texts["Machine code"] = dojoir.emit(dojoir.parse(_final(view)), "asm")
    return replace(
        view, facts=facts, states=tuple(_states(given)), benches=tuple(_benches(given.bench)),
        gates=tuple(Gate(one.name, one.status, one.reason) for one in run.gates),
        roofline=_roofline(given.bench), texts=texts,
    )  # fmt: skip


def _final(view: View) -> str:
    last: Step = view.steps[-1]
    return "\n".join(line.text for line in last.lines if line.kind != "gone") + "\n"


def _states(given: Bundle) -> list[State]:
    found = [State(one.hash, one.parent, one.move, one.status, one.seconds) for one in given.states]
    return found[:MOST_STATES]


def _benches(found: Benched | None) -> list[Bench]:
    if found is None:
        return []
    made = []
    for shape in found.shapes:
        sizes = ", ".join(f"{name}={value}" for name, value in shape.sizes.items()) or "no sizes"
        note = "; ".join(
            [*([f"failed: {shape.reason}"] if shape.reason else []),
             *([f"noise: the kernel beside itself {shape.noise}"] if shape.noise else []),
             *(f"{name} left out: {why}" for name, why in shape.left_out.items())]
        )  # fmt: skip
        own = [] if shape.own is None else [_time(shape.own)]
        made.append(Bench(sizes, found.protocol, (*own, *map(_time, shape.peers)), note))
    return made


def _time(one: Times) -> Time:
    ratio = None if one.ratio is None else (one.ratio.median, one.ratio.low, one.ratio.high)
    return Time(one.name, one.seconds, one.low, one.high, one.count, one.first_quartile, one.third_quartile, ratio)


def _roofline(found: Benched | None) -> Roofline | None:
    """A point for each shape that has its ceilings."""
    if found is None:
        return None
    points = []
    ceilings: tuple[float, float] | None = None
    for shape in found.shapes:
        point = _point(found.kernel, shape)
        if point is not None and shape.ceiling is not None:
            points.append(point)
            ceilings = ceilings or (shape.ceiling.memory or 0.0, shape.ceiling.arithmetic or 0.0)
    if ceilings is None or min(ceilings) <= 0:
        return None
    return Roofline(ceilings[0], ceilings[1], tuple(points))


def _point(kernel: str, shape: Shape) -> tuple[str, float, float] | None:
    ceiling, own = shape.ceiling, shape.own
    if ceiling is None or own is None or not ceiling.bytes or ceiling.memory is None or ceiling.arithmetic is None:
        return None
    sizes = ", ".join(f"{name}={value}" for name, value in shape.sizes.items())
    work = ceiling.flops or ceiling.integer
    return f"{kernel} {sizes}", work / ceiling.bytes, work / own.seconds / 1e9
