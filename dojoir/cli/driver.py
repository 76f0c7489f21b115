"""The steps of `dojoir-opt` on its input: parse, prove, apply moves, answer."""

from __future__ import annotations

import difflib
import time
from dataclasses import dataclass, field

import dojoir
from dojoir.cli import chunks, listing
from dojoir.cli.answers import answer, doing, kind_of
from dojoir.cli.error_report import FINE, INPUT, report, warn_if_unsafe
from dojoir.cli.library import library
from dojoir.cli.optimizing import optimized
from dojoir.cli.options import Options
from dojoir.cli.output import write_result
from dojoir.cli.screen import progress
from dojoir.cli.streams import say
from dojoir.errors import Diagnostic
from dojoir.grammar import problems
from dojoir.ir.comments import commented_text
from dojoir.ir.text import canonical_text
from dojoir.proof.checker_mode import check_with


@dataclass
class Stopwatch:
    """How long each step took."""

    enabled: bool
    steps: list[tuple[str, float]] = field(default_factory=list)
    _last: float = field(default_factory=time.perf_counter)

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.steps.append((name, now - self._last))
        self._last = now

    def show(self) -> None:
        if self.enabled:
            total = sum(seconds for _, seconds in self.steps)
            width = max(len(name) for name, _ in self.steps)
            for name, seconds in [*self.steps, ("total", total)]:
                say(f"{name:<{width}}  {seconds * 1e3:9.2f} ms  {seconds / total:6.1%}")


def run(options: Options) -> int:
    """Does all that the options ask for. Returns the exit status."""
    if options.check_with is None:
        return _run(options)
    with check_with(options.check_with):
        return _run(options)


def _run(options: Options) -> int:
    try:
        listed = listing.listing(options)
        if listed is not None:
            write_result(listed, options.output, listing.kind_of(options))
            return FINE
        if options.replay is not None:
            return _replay(options)
        name = chunks.display_name(options.input)
        parts = chunks.split(chunks.read_input(options.input), name, options.split_input_file)
        pipeline = _pipeline(options)
    except dojoir.DojoError as error:
        return report(error, options.json)
    if options.verify_diagnostics:
        return _verify_diagnostics(options, parts, pipeline)
    if options.emit == "lib":
        return _library(options, parts, pipeline)
    results: list[str] = []
    status = FINE
    for chunk in parts:
        try:
            text, chunk_status = _process(options, chunk, pipeline)
        except dojoir.DojoError as error:
            text, chunk_status = None, report(error, options.json, further=_further(error, chunk))
        if text is not None:
            results.append(text)
        status = status or chunk_status
    if results and not (status and options.output):
        try:
            between = chunks.separator(None if options.json else options.emit)
            write_result(between.join(results), None if options.run else options.output, kind_of(options))
        except dojoir.DojoError as error:
            return report(error, options.json)
    return status


def _further(error: dojoir.DojoError, chunk: chunks.Chunk) -> list[Diagnostic]:
    """The other errors in the text of a kernel, where an error is one of it."""
    if not isinstance(error, dojoir.ParseError | dojoir.KernelError):
        return []
    others = [other for other in problems(chunk.text, chunk.name) if other != error.diagnostic]
    return sorted(others, key=lambda other: other.span.line if other.span is not None else 0)


def _pipeline(options: Options) -> list[dojoir.Move | dojoir.Pass]:
    """The moves and passes of `-p`. Raises ParseError or ArgumentError with the place in the pipeline."""
    text = options.pipeline
    machine = dojoir.machine_for(options.target, options.cpu)
    passes = listing.passes(options)
    if text is None:
        return []
    if not text.startswith("@") or "(" in text.split("\n")[0]:
        return dojoir.parse_pipeline(text, passes=passes, machine=machine)
    return dojoir.parse_pipeline(chunks.read_input(text[1:]), text[1:], passes, machine)


def _process(options: Options, chunk: chunks.Chunk, pipeline: list[dojoir.Move | dojoir.Pass]) -> tuple[str, int]:
    """The result for one part of the input, and the exit status."""
    watch = Stopwatch(options.timing)
    trace = _traced(options, chunk, pipeline, watch)
    text, status = _result(options, trace)
    watch.lap("result")
    watch.show()
    return text, status


def _traced(
    options: Options, chunk: chunks.Chunk, pipeline: list[dojoir.Move | dojoir.Pass], watch: Stopwatch
) -> dojoir.Trace:
    """One part of the input after the moves."""
    kernel = _chained(options, dojoir.parse(chunk.text, chunk.name))
    if options.fp is not None:
        kernel = kernel.with_fp(options.fp)
    watch.lap("parse")
    trace = optimized(options, kernel) if options.optimize else dojoir.Trace(kernel)
    watch.lap("optimize" if options.optimize else "prove")
    for element in pipeline:
        done = len(trace.steps)
        with progress(f"{trace.start.name}: {element}"):
            _make(options, trace, element)
        watch.lap(str(element))
        if options.verify_each:
            for step in trace.steps[done:]:
                dojoir.prove(dojoir.parse(dojoir.to_text(step.kernel), f"{chunk.name} after {step.move}"))
            watch.lap("prove again")
        _show_steps(options, trace, done)
    warn_if_unsafe(trace, options.json)
    if options.save_trace is not None:
        trace.save(options.save_trace)
    return trace


def _chained(options: Options, kernel: dojoir.Kernel) -> dojoir.Kernel:
    """The kernel with those of `--chain` after it."""
    if not options.chain:
        return kernel
    others = (dojoir.parse(chunks.read_input(name), chunks.display_name(name)) for name in options.chain)
    return dojoir.chain(kernel, *others, keep=options.keep, rename=dict(options.rename))


def _library(options: Options, parts: list[chunks.Chunk], pipeline: list[dojoir.Move | dojoir.Pass]) -> int:
    """Writes all parts of the input as one library."""
    try:
        traces = [_traced(options, chunk, pipeline, Stopwatch(False)) for chunk in parts]
        write_result(library(options, traces), None)
    except dojoir.DojoError as error:
        return report(error, options.json)
    return FINE


def _result(options: Options, trace: dojoir.Trace) -> tuple[str, int]:
    if options.asks:
        with progress(f"{trace.start.name}: {doing(options)}"):
            return answer(options, trace)
    if options.canonical:
        return canonical_text(trace.kernel), FINE
    source = trace.start.source
    if source is None or options.chain:  # the places of what is chained are in several texts
        return dojoir.to_text(trace.kernel, names=options.names, labels=True), FINE
    return commented_text(trace.kernel, source, options.names), FINE


def _make(options: Options, trace: dojoir.Trace, element: dojoir.Move | dojoir.Pass) -> None:
    if isinstance(element, dojoir.Pass):
        element(trace)
    else:
        trace.apply(element, unsafe=options.unsafe)


def _show_steps(options: Options, trace: dojoir.Trace, done: int) -> None:
    """Shows the moves of a trace after the first `done`: one, or all that a pass made."""
    for i, step in enumerate(trace.steps[done:], done):
        before = trace.steps[i - 1].kernel if i else trace.start
        _show_step(options, step.move, before, step.kernel)


def _show_step(options: Options, move: dojoir.Move, before: dojoir.Kernel, after: dojoir.Kernel) -> None:
    changed = dojoir.to_text(before) != dojoir.to_text(after)
    if options.print_after_all or (options.print_after_change and changed):
        say(f"# after {move}\n{dojoir.to_text(after, names=options.names, labels=True)}")
    if options.print_diff:
        say(f"# {move}")
        old, new = (dojoir.to_text(k, names=options.names, labels=True).splitlines() for k in (before, after))
        for line in list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]:
            say(line)


def _replay(options: Options) -> int:
    """Takes kernel and moves from a trace, then goes on as for a file."""
    assert options.replay is not None
    trace = dojoir.Trace.load(options.replay, unsafe=options.unsafe)
    for element in _pipeline(options):
        _make(options, trace, element)
    _show_steps(options, trace, 0)
    warn_if_unsafe(trace, options.json)
    if options.save_trace is not None:
        trace.save(options.save_trace)
    if options.emit == "lib":
        write_result(library(options, [trace]), None)
        return FINE
    text, status = _result(options, trace)
    write_result(text, None if options.run else options.output, kind_of(options))
    return status


def _verify_diagnostics(
    options: Options, parts: list[chunks.Chunk], pipeline: list[dojoir.Move | dojoir.Pass]
) -> int:
    complaints: list[str] = []
    for chunk in parts:
        errors: list[Diagnostic] = []
        try:
            _process(options, chunk, pipeline)
        except dojoir.DojoError as error:
            errors += [error.diagnostic, *_further(error, chunk)]
        complaints += chunks.unmet(chunks.expectations(chunk.text), errors, chunk.name)
    for complaint in complaints:
        say(complaint)
    return INPUT if complaints else FINE
