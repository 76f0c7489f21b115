"""The contents of the page of a run, or of a trace alone."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import dojoir
from dojoir.evidence import bundle
from dojoir.evidence.bundle_reading import Bundle
from dojoir.evidence.figures import sizes_in_words
from dojoir.evidence.page.view import PageStep, PageView, steps_of

WITH_LINES = ("c", "avx2", "avx512", "neon", "rvv", "sve", "cuda", "hip")
"""The targets whose sources have the lines of the kernel beside their loops."""

MOST_STATES = 3000
"""How many states a page shows: the first, and all on the way to the answer."""


def view_of_trace(trace: dojoir.Trace, target: str = "llvm", title: str = "") -> PageView:
    """The page of a trace."""
    plain = target.partition("@")[0]
    language = plain if plain in WITH_LINES else "c"
    facts = {
        "kernel": trace.start.name, "moves": str(len(trace.moves)), "start": trace.start.hash[:12],
        "result": trace.kernel.hash[:12],
    }  # fmt: skip
    if not trace.is_safe:
        facts["unsafe"] = str(trace.unchecked)
    return PageView(title or trace.start.name, facts, steps_of(trace, language), language)


def view_of_run(given: Bundle) -> PageView:
    """The page of a run. Raises DojoError for files that are broken."""
    run = given.told
    try:
        view = view_of_trace(given.trace, run.target, run.name)
    except dojoir.ArgumentError as error:
        if error.diagnostic.code != "no-answer":
            raise
        view = view_of_trace(dojoir.Trace(given.start), run.target, run.name)
    sizes = "; ".join(map(sizes_in_words, run.sizes))
    facts = {
        "status": f"{run.status}{f', {run.stopped}' if run.stopped else ''}", "target": run.target, "sizes": sizes,
        "threads": str(run.threads), "verb": run.verb, "begun": run.begun, **view.facts,
        **{name: str(number) for name, number in run.versions.items()},
        **{f"beside {one.beside}": str(one) for one in run.gained},
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
        view, facts=facts, states=given.states[:MOST_STATES], bench=given.bench, gates=run.gates, texts=texts
    )


def _final(view: PageView) -> str:
    last: PageStep = view.steps[-1]
    return "\n".join(line.text for line in last.lines if line.kind != "gone") + "\n"
