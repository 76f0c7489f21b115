"""Traces: a kernel and the moves made on it, to undo, save, replay and certify.

What makes moves is imported when the first is made: a trace that an earlier process made needs none of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from dojoir.errors import ArgumentError, DojoError, repr_of
from dojoir.grammar import parse
from dojoir.ir.nodes import Kernel, Path, format_path, given_kernel
from dojoir.ir.stored import from_bytes, to_bytes, whole_text
from dojoir.ir.text import to_text
from dojoir.passes.engine.step import Step
from dojoir.proof.checker_mode import uses_core
from dojoir.proof.proved import keep_as_proved
from dojoir.support.files import read_file, shown, write_file
from dojoir.support.frozen import dataclass
from dojoir.support.public import public
from dojoir.support.shelf import keep, shelf_key, taken

if TYPE_CHECKING:
    from dojoir.backends.machine import Machine
    from dojoir.passes.base.move import Move

FORMAT = "dojoir-trace"
VERSION = 1


class Trace:
    """A kernel and the moves made on it so far. `kernel` is the current one, `start` the first.

    >>> import dojoir
    >>> trace = dojoir.Trace(dojoir.kernels.load("relu"))
    >>> _ = trace.apply("split(0, 16)")
    >>> trace.undo() == trace.start
    True

    Its steps are immutable, and traces share them: a copy costs next to nothing, and what is done to it leaves the
    original alone.
    """

    @public
    def __init__(self, kernel: Kernel) -> None:
        """Raises KernelError for an ill-formed kernel."""
        from dojoir.proof.wellformed import prove

        prove(given_kernel(kernel))
        self._begin(kernel)

    def _begin(self, kernel: Kernel) -> None:
        self.start = kernel
        self._steps: tuple[Step, ...] = ()
        self._kept: _StoredTrace | None = None
        """The result of an earlier process, in place of steps, until they are asked for."""
        self.machine: Machine | None = None
        """The machine for which a schedule chose the moves, if one did; it is not saved."""
        self.choice = ""
        """The choice of a planner or a search that led to its end, as the text of its passes; it is not saved."""
        self._seen: dict[tuple[str, int], _Followed] = {}
        """Places that were followed, with how far: a schedule asks again after every move."""

    @staticmethod
    @public
    def kept(kernel: Kernel, made_for: str, make: Callable[[], Trace]) -> Trace:
        """The trace of a kernel that `make` makes, or that it made in an earlier process with this dojoir: of the
        same text, with the same labels and name of its file. `made_for` says all else that `make` follows from.
        Such a trace has its last kernel and its moves at hand; they are made again, each checked, when its steps
        are used. Raises what `make` raises, and ArgumentError where that gives no trace."""
        if uses_core():  # who asks for that wants it proved anew
            return make()
        source = kernel.source
        read_from = () if source is None else (source.name, source.text)
        key = shelf_key("trace", made_for, whole_text(kernel), *read_from)
        data = taken(key)
        found = None if data is None else _StoredTrace.read(data)
        if found is None:
            trace = make()
            if not isinstance(trace, Trace):
                raise ArgumentError(f"make gives a Trace, not {repr_of(trace)}", "not-a-trace")
            if trace.start == kernel and trace.is_safe:
                keep(key, _StoredTrace(trace._texts, trace.kernel).data)
                keep_as_proved(trace.kernel)
            return trace
        trace = Trace.__new__(Trace)
        trace._begin(kernel)
        trace._kept = found
        return trace

    @property
    def steps(self) -> tuple[Step, ...]:
        """The moves with what each made."""
        if self._kept is not None:
            again = Trace(self.start)
            for text in self._kept.moves:
                again.apply(text)
            if again.kernel != self._kept.kernel:
                raise ArgumentError("the moves of this trace now give another kernel", "stale-trace")
            self._steps, self._kept = again._steps, None
        return self._steps

    @property
    def moves(self) -> tuple[Move, ...]:
        if self._kept is not None:
            from dojoir.passes.engine.catalogue import parse_move

            return tuple(map(parse_move, self._kept.moves))
        return tuple(step.move for step in self._steps)

    @property
    def _texts(self) -> tuple[str, ...]:
        return self._kept.moves if self._kept is not None else tuple(str(step.move) for step in self._steps)

    @property
    def kernel(self) -> Kernel:
        """The kernel after all moves."""
        if self._kept is not None:
            return self._kept.kernel
        return self._steps[-1].kernel if self._steps else self.start

    @property
    def is_safe(self) -> bool:
        """Whether every move went through the checker."""
        return not any(step.unsafe for step in self._steps)

    def copy(self) -> Trace:
        """Another trace with the same start and steps."""
        other = Trace.__new__(Trace)
        other._begin(self.start)
        other._steps, other._kept = self._steps, self._kept
        other.machine, other.choice = self.machine, self.choice
        return other

    __copy__ = copy

    @public
    def then(self, move: Move | str, unsafe: bool = False) -> Trace:
        """A new trace with one move more, or those of a text; this one stays as it is. Raises as `apply` does.

        >>> import dojoir
        >>> trace = dojoir.Trace(dojoir.kernels.load("relu"))
        >>> len(trace.then("split(0, 16)").moves), len(trace.moves)
        (1, 0)
        """
        other = self.copy()
        other.apply(move, unsafe)
        return other

    @public
    def apply(self, move: Move | str, unsafe: bool = False) -> Kernel:
        """Makes a move, or the moves of a text one after another (`split(@j, 16); unroll(@j1)`), and returns the
        kernel after them. Raises IllegalMove for the first that is not legal, and then changes nothing.

        A place that an earlier move removed is named in the error together with that move. A place that is written
        as a query, `<writes y in @i>`, stands in the trace as the path that it matched.
        """
        from dojoir.passes.engine.catalogue import parse_moves
        from dojoir.passes.engine.making import step_of

        begun, self.choice = self.steps, ""
        try:
            for one in parse_moves(move) if isinstance(move, str) else [move]:
                self._steps = (*self._steps, step_of(self.start, self._steps, one, unsafe))
        except BaseException:
            self._steps = begun
            raise
        return self.kernel

    @public
    def follow(self, place: str, since: int = 0) -> str:
        """Where a place of an earlier kernel is in the current one, as a path. `place` is a path, a label or a
        query of the kernel after the first `since` moves; by default of the one that the trace began with.

        >>> import dojoir
        >>> trace = dojoir.Trace(dojoir.kernels.load("softmax"))
        >>> _ = trace.apply("join_scopes(0, 1)")
        >>> trace.follow("1.0")
        '0.2'

        Raises ArgumentError where no place of that kernel is meant, where a move removed it (`gone-place`), or
        where it is now in several places (`several-places`), of which `places` gives all. Each names the move.
        """
        found, forked = self._followed(place, since)
        if len(found) > 1:
            where = ", ".join(map(format_path, found))
            raise ArgumentError(f"{place} is in several places since {forked}: {where}", "several-places")
        return format_path(found[0])

    @public
    def places(self, place: str, since: int = 0) -> tuple[str, ...]:
        """As `follow`, where a place may have become several: all, in the order of the text."""
        return tuple(map(format_path, self._followed(place, since)[0]))

    def _followed(self, place: str, since: int) -> tuple[tuple[Path, ...], str]:
        """The paths that a place of the kernel after `since` moves has now, and the last move that made several."""
        if type(since) is not int or not 0 <= since <= len(self.steps):
            message = f"since is how many moves were made, from 0 to {len(self.steps)}, not {repr_of(since)}"
            raise ArgumentError(message, "bad-arguments")
        from dojoir.passes.engine.located import one

        steps = self.steps
        seen = self._seen.get((place, since)) if type(place) is str else None
        if seen is not None and seen.holds_of(steps):
            number, last, found, forked = seen
            kernel = self.start if last is None else last.kernel
        else:
            number, kernel, forked = since, steps[since - 1].kernel if since else self.start, ""
            is_query = isinstance(place, str) and place.startswith("<") and place.endswith(">")
            found = (kernel.path(one(kernel, place[1:-1]).place if is_query else place),)
        for count, step in enumerate(steps[number:], number + 1):
            now = {path for old in found for path in step.done.forward(kernel, old)}
            if not now:
                raise ArgumentError(f"{place} is gone: {step.move}, move {count}, removed it", "gone-place")
            forked = f"{step.move}, move {count}" if len(now) > len(found) else forked
            found, kernel = tuple(sorted(now)), step.kernel
        if type(place) is str:
            self._seen[place, since] = _Followed(len(steps), steps[-1] if steps else None, found, forked)
        return found, forked

    def undo(self) -> Kernel:
        """Takes the last move back and returns the kernel before it. Raises ArgumentError if there is none."""
        if not self.steps:
            raise ArgumentError("there is no move to undo", "empty-trace")
        self._steps, self.choice = self.steps[:-1], ""
        return self.kernel

    def replay(self) -> Kernel:
        """Makes every move again from the start, each checked, and returns the last kernel.

        Raises IllegalMove if one is no longer legal, ArgumentError if the end differs.
        """
        again = Trace(self.start)
        for step in self.steps:
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
            "moves": list(self._texts),
            "unsafe": [i for i, step in enumerate(self._steps) if step.unsafe],
            "result": self.kernel.hash,
        }

    @public
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace to a file, whole or not at all. Raises ArgumentError if that cannot be done."""
        write_file(path, json.dumps(self.to_json(), indent=1) + "\n")

    @staticmethod
    @public
    def load(path: str | os.PathLike[str], *, unsafe: bool = False, moves: Sequence[type[Move]] = ()) -> Trace:
        """The trace that a file holds, every move of it checked again. `moves` are classes of your own, for moves
        that are not in the catalogue.

        A file that says of moves that they were made without the checker is refused, unless `unsafe` says that the
        caller wants them all the same; they are unsafe steps of the trace then.

        Raises ArgumentError for a file that cannot be read, is no trace, was changed (`stale-trace`) or has unsafe
        moves (`unsafe-trace`), IllegalMove for a move that is not legal.
        """
        text = read_file(path)
        name = shown(os.fspath(path))
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            raise ArgumentError(f"{name} is not a trace: it is not JSON", "bad-trace") from None
        return Trace.from_json(data, name, unsafe=unsafe, moves=moves)

    @staticmethod
    @public
    def from_json(
        data: Any, name: str = "<trace>", *, unsafe: bool = False, moves: Sequence[type[Move]] = ()
    ) -> Trace:
        """The trace that plain data holds; see `load`."""
        from dojoir.passes.engine.catalogue import parse_move
        from dojoir.proof.verdict import IllegalMove

        found = _fields(data if isinstance(data, dict) else None, name)
        if found.unsafe and not unsafe:
            which = _numbered_moves(i + 1 for i in found.unsafe)
            raise ArgumentError(
                f"{name} has moves that were made without the checker ({which}): what they give may be wrong; "
                f"load it with unsafe=True (--unsafe in the shell) if you want them all the same",
                "unsafe-trace",
            )
        trace = Trace(parse(found.text, name))
        if trace.start.hash != found.start:
            raise ArgumentError(
                f"{name}: its kernel is not the one that the trace was made of: its hash is {trace.start.hash}, "
                f"not {found.start}",
                "stale-trace",
            )
        for i, move in enumerate(found.moves):
            try:
                trace.apply(parse_move(move, moves) if moves else move, unsafe=i in found.unsafe)
            except DojoError as error:
                diagnostic = error.diagnostic
                message = f"{name}: move {i + 1}: {diagnostic.message}"
                if diagnostic.code == "unknown-move":
                    message += "; where it is one of your own, give its class: Trace.load(path, moves=[...])"
                if isinstance(error, IllegalMove):
                    raise IllegalMove(
                        replace(error.verdict, diagnostic=replace(diagnostic, message=message))
                    ) from None
                raise ArgumentError(replace(diagnostic, message=message)) from None
        if trace.kernel.hash != found.result:
            raise ArgumentError(f"{name}: the moves of this trace now give another kernel", "stale-trace")
        return trace

    @property
    def unchecked(self) -> str | None:
        """The warning wherever an unsafe trace is used: which moves no checker saw. None for a safe one."""
        if self.is_safe:
            return None
        which = _numbered_moves(i for i, step in enumerate(self._steps, 1) if step.unsafe)
        return f"made without the checker by {which}: what it computes may be wrong"

    def __repr__(self) -> str:
        mark = "" if self.is_safe else ", unsafe"
        made_for = f", for {self.machine}" if self.machine is not None else ""
        count = len(self._texts)
        return f"<trace of {self.start.name}, {count} move{'s' * (count != 1)}{made_for}{mark}>"

    def _repr_html_(self) -> str:
        """The moves, what they changed, and the kernel after them, as notebooks show it."""
        from dojoir.ir.html import diff_html, kernel_html

        moves = "".join(f"<li><code>{escape(text)}</code></li>" for text in self._texts)
        changed = diff_html(str(self.start), str(self.kernel))
        folded = f"<details><summary>what they changed</summary>{changed}</details>" if changed else ""
        head = f"<b>{escape(repr(self).strip('<>'))}</b>"
        listed = f"<details><summary>its moves</summary><ol>{moves}</ol></details>" if moves else ""
        return f"<div>{head}{listed}{folded}{kernel_html(str(self.kernel))}</div>"


class _Followed(NamedTuple):
    """Where a place is after so many moves of a trace, of which `last` is the last one; what made several of it."""

    moves: int
    last: Step | None
    paths: tuple[Path, ...]
    forked: str

    def holds_of(self, steps: tuple[Step, ...]) -> bool:
        """Whether some steps begin with these moves. (A step is made once, behind the steps that it stands on.)"""
        return self.last is None or (len(steps) >= self.moves and steps[self.moves - 1] is self.last)


def take_over(trace: Trace, other: Trace) -> None:
    """Gives a trace the steps of a copy of it, or of one that began with the same kernel."""
    trace._steps, trace._kept = other._steps, other._kept


def with_steps(trace: Trace, steps: tuple[Step, ...]) -> Trace:
    """A trace with the same start and other steps."""
    other = trace.copy()
    other._steps, other._kept = steps, None
    return other


@dataclass(frozen=True)
class _StoredTrace:
    """The stored part of a trace: its moves, all of them proved, and the kernel after them."""

    moves: tuple[str, ...]
    kernel: Kernel

    @property
    def data(self) -> bytes:
        """The same as bytes."""
        return b"".join(f"{move}\n".encode() for move in self.moves) + b"\n" + to_bytes(self.kernel)

    @staticmethod
    def read(data: bytes) -> _StoredTrace | None:
        """The trace parsed from `data`; None where `data` is not one."""
        moves, _, rest = data.partition(b"\n\n") if data[:1] != b"\n" else (b"", b"", data[1:])
        kernel = from_bytes(rest)
        return None if kernel is None else _StoredTrace(tuple(moves.decode().split("\n")) if moves else (), kernel)


@dataclass(frozen=True)
class _Saved:
    """The content of the file of a trace: the text of the first kernel, the moves, which of them are unsafe (from
    0), the hashes of both ends."""

    text: str
    moves: tuple[str, ...]
    unsafe: frozenset[int]
    start: str
    result: str


def _fields(data: Any, name: str) -> _Saved:
    match data:
        case {
            "format": "dojoir-trace",
            "version": 1,
            "kernel": [*lines],
            "start": str(start),
            "moves": [*moves],
            "unsafe": [*unsafe],
            "result": str(result),
        } if all(isinstance(x, str) for x in (*lines, *moves)) and all(
            type(x) is int and 0 <= x < len(moves) for x in unsafe
        ):
            return _Saved("\n".join(lines) + "\n", tuple(moves), frozenset(unsafe), start, result)
        case {"format": "dojoir-trace", "version": version} if version != VERSION:
            raise ArgumentError(f"{name} is a trace of version {version}; this dojoir reads version 1", "bad-trace")
    raise ArgumentError(f"{name} is not a dojoir trace", "bad-trace")


def _numbered_moves(moves: Iterable[int]) -> str:
    """`moves 1, 2, 5`, the first of them."""
    numbers = sorted(moves)
    few = ", ".join(map(str, numbers[:8])) + (", …" if numbers[8:] else "")
    return f"move{'s' * (len(numbers) != 1)} {few}"
