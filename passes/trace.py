"""Traces: a kernel and the moves made on it, to undo, save, replay and certify."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

from dojoir.dataflow import LEGAL, STEP_LIMIT, Verdict, compare, identity, prove_rewrite
from dojoir.errors import ArgumentError, Diagnostic, DojoError, IllegalMove
from dojoir.grammar import parse
from dojoir.ir import Kernel
from dojoir.passes.catalogue import parse_move
from dojoir.passes.engine import rewrite
from dojoir.passes.move import Move, Rewrite, then
from dojoir.passes.places import located
from dojoir.printer import to_text
from dojoir.wellformed import prove

FORMAT = "dojoir-trace"
VERSION = 1


@dataclass(frozen=True)
class Step:
    """One move of a trace, the rewrite it made, and whether the checker was left out."""

    move: Move
    done: Rewrite
    unsafe: bool = False

    @property
    def kernel(self) -> Kernel:
        """The kernel after the move."""
        return self.done.kernel


class Trace:
    """A kernel and the moves made on it so far. `kernel` is the current one, `start` the first.

    >>> import dojoir
    >>> trace = dojoir.Trace(dojoir.kernels.load("relu"))
    >>> _ = trace.apply("split(0, 16)")
    >>> trace.undo() == trace.start
    True
    """

    def __init__(self, kernel: Kernel) -> None:
        """Raises KernelError for an ill-formed kernel."""
        prove(kernel)
        self.start = kernel
        self._steps: list[Step] = []

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(self._steps)

    @property
    def moves(self) -> tuple[Move, ...]:
        return tuple(step.move for step in self._steps)

    @property
    def kernel(self) -> Kernel:
        """The kernel after all moves."""
        return self._steps[-1].kernel if self._steps else self.start

    @property
    def is_safe(self) -> bool:
        """Whether every move went through the checker."""
        return not any(step.unsafe for step in self._steps)

    def apply(self, move: Move | str, unsafe: bool = False) -> Kernel:
        """Makes a move and returns the kernel after it. Raises IllegalMove, and then changes nothing.

        A place that an earlier move removed is named in the error together with that move. A place that is written
        as a query, `<writes y in @i>`, stands in the trace as the path that it matched.
        """
        parsed = parse_move(move) if isinstance(move, str) else move
        try:
            done = rewrite(self.kernel, parsed, unsafe)
        except IllegalMove as error:
            remover = self._who_removed(parsed) if error.verdict.code == "unknown-place" else None
            if remover is None:
                raise
            diagnostic = error.verdict.diagnostic
            message = f"{diagnostic.message}; it was there before {remover}"
            raise IllegalMove(replace(error.verdict, diagnostic=replace(diagnostic, message=message))) from None
        self._steps.append(Step(located(parsed, self.kernel), done, unsafe))
        return self.kernel

    def _who_removed(self, move: Move) -> Move | None:
        """The last move before which every place of `move` existed."""
        kernels = [self.start, *(step.kernel for step in self._steps)]
        for step, kernel in reversed(list(zip(self._steps, kernels, strict=False))):
            if _finds_places(kernel, move):
                return step.move
        return None

    def undo(self) -> Kernel:
        """Takes the last move back and returns the kernel before it. Raises ArgumentError if there is none."""
        if not self._steps:
            raise ArgumentError("there is no move to undo", "empty-trace")
        self._steps.pop()
        return self.kernel

    def replay(self) -> Kernel:
        """Makes every move again from the start, each checked, and returns the last kernel.

        Raises IllegalMove if one is no longer legal, ArgumentError if the end differs.
        """
        again = Trace(self.start)
        for step in self._steps:
            again.apply(step.move, step.unsafe)
        if again.kernel != self.kernel:
            raise ArgumentError("the moves of this trace now give another kernel", "stale-trace")
        return again.kernel

    # -- files -------------------------------------------------------------------------------------------
    def to_json(self) -> dict[str, Any]:
        """The trace as plain data: the text of the first kernel, the moves, the hashes of both ends."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "kernel": to_text(self.start).splitlines(),
            "start": self.start.hash,
            "moves": [str(step.move) for step in self._steps],
            "unsafe": [i for i, step in enumerate(self._steps) if step.unsafe],
            "result": self.kernel.hash,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace to a file, whole or not at all. Raises ArgumentError if that cannot be done."""
        target = FilePath(path)
        text = json.dumps(self.to_json(), indent=1) + "\n"
        try:
            handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                os.replace(temporary, target)
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError as error:
            raise ArgumentError(f"cannot write {target}: {error.strerror or error}", "cannot-write") from None

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Trace:
        """The trace that a file holds, every move of it checked again.

        Raises ArgumentError for a file that cannot be read or is no trace, IllegalMove for a move that is not
        legal.
        """
        try:
            data = json.loads(FilePath(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise ArgumentError(f"cannot read {path}: {error.strerror or error}", "cannot-read") from None
        except (ValueError, RecursionError):
            raise ArgumentError(f"{path} is not a trace: it is not JSON", "bad-trace") from None
        return Trace.from_json(data, str(path))

    @staticmethod
    def from_json(data: Any, name: str = "<trace>") -> Trace:
        """The trace that plain data holds; see `load`."""
        text, moves, unsafe, result = _fields(data, name)
        trace = Trace(parse(text, name))
        for i, move in enumerate(moves):
            try:
                trace.apply(move, unsafe=i in unsafe)
            except DojoError as error:
                diagnostic = error.diagnostic
                message = f"{name}: move {i + 1}: {diagnostic.message}"
                if isinstance(error, IllegalMove):
                    raise IllegalMove(
                        replace(error.verdict, diagnostic=replace(diagnostic, message=message))
                    ) from None
                raise ArgumentError(replace(diagnostic, message=message)) from None
        if trace.kernel.hash != result:
            raise ArgumentError(f"{name}: the moves of this trace now give another kernel", "stale-trace")
        return trace


def _fields(data: Any, name: str) -> tuple[str, list[str], set[int], str]:
    match data:
        case {
            "format": "dojoir-trace",
            "version": 1,
            "kernel": [*lines],
            "moves": [*moves],
            "unsafe": [*unsafe],
            "result": str(result),
        } if all(isinstance(x, str) for x in (*lines, *moves)) and all(isinstance(x, int) for x in unsafe):
            return "\n".join(lines) + "\n", moves, set(unsafe), result
        case {"format": "dojoir-trace", "version": version} if version != VERSION:
            raise ArgumentError(f"{name} is a trace of version {version}; this dojoir reads version 1", "bad-trace")
    raise ArgumentError(f"{name} is not a dojoir trace", "bad-trace")


def _finds_places(kernel: Kernel, move: Move) -> bool:
    for word in move.places():
        try:
            kernel.path(word)
        except ArgumentError:
            return False
    return True


def certify(trace: Trace, step_limit: int = STEP_LIMIT) -> Verdict:
    """Proves a whole trace again, from the text of its first kernel to its last, trusting no move.

    Runs of moves that keep every expression are compared from end to end through the composed instance map, so
    that it does not matter how they came to be applied; where that does not decide it, each of their steps is (the
    long way is given a tenth of the limit, as it is the harder question and there is another answer).
    A move that replaces reads by expressions, or that takes another one back, is a run by itself.
    """
    kernel = parse(to_text(trace.start))
    prove(kernel)
    run: list[tuple[Kernel, Rewrite]] = []
    for step in trace.steps:
        done = step.move.rewrite(kernel)
        done = Rewrite(parse(to_text(done.kernel)), done.instances)
        if not _composes(done):
            verdict = _certify_run(run, step_limit)
            verdict = verdict and prove_rewrite(kernel, done.kernel, done.instances, step_limit)
            if not verdict:
                return verdict
            run = []
        else:
            run.append((kernel, done))
        kernel = done.kernel
    if kernel != trace.kernel:
        return Verdict("illegal", Diagnostic("stale-trace", "the moves of this trace now give another kernel"))
    return _certify_run(run, step_limit)


def _composes(done: Rewrite) -> bool:
    """Whether the instance map of a rewrite can be part of a longer one."""
    instances = done.instances
    return not (instances.inlined or instances.extracted or instances.backward or instances.rule)


def _certify_run(run: list[tuple[Kernel, Rewrite]], step_limit: int) -> Verdict:
    if not run:
        return LEGAL
    start = run[0][0]
    whole = Rewrite(start, identity(start))
    for _, done in run:
        whole = then(whole, done)
    if len(run) == 1:
        return prove_rewrite(start, whole.kernel, whole.instances, step_limit)
    if verdict := compare(start, whole.kernel, whole.instances, step_limit // 10):
        return verdict
    steps = (prove_rewrite(before, done.kernel, done.instances, step_limit) for before, done in run)
    return next((verdict for verdict in steps if not verdict), LEGAL)
