"""Passes that make a kernel smaller: dead temporaries, storage that can be shared, loops that can be fused."""

from __future__ import annotations

from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.steps.combinators import every, first, moves_named, repeat


def simplify(trace: Trace) -> None:
    """Deletes temporaries that nothing reads, until none is left, then takes away the scopes of extent 1 that have
    no mark, and collapses every dimension of a temporary that needs no storage of its own.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N]
    ... tmp u: f32[N]
    ... N
    ... | t[{0}] = 2 * x[{0}]
    ... | u[{0}] = t[{0}]
    ... | 1
    ... | | y[{0} + {1}] = t[{0}] + 1
    ... ''')
    >>> trace = dojoir.PASSES["simplify"].on(k)
    >>> [str(move) for move in trace.moves]
    ['delete_temporary(u)', 'remove_scope(0.1)', 'reuse_dims(t, 0)']
    >>> print(trace.kernel)
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N~]
    <BLANKLINE>
    N
    | t[{0}] = 2 * x[{0}]
    | y[{0}] = t[{0}] + 1
    <BLANKLINE>
    """
    delete_dead(trace)
    repeat(first(moves_named("remove_scope")))(trace)
    every(moves_named("reuse_dims"))(trace)


def delete_dead(trace: Trace) -> None:
    """Deletes the temporaries that nothing reads, and those that only they read."""
    repeat(every(moves_named("delete_temporary")))(trace)


def join_all(trace: Trace) -> None:
    """Fuses adjacent scopes wherever it is legal, the first in the text first, until no two are left.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N]
    ... tmp u: f32[N]
    ... N
    ... | t[{0}] = 2 * x[{0}]
    ... N
    ... | u[{0}] = t[{0}] + 1
    ... N
    ... | y[{0}] = t[{0}] * u[{0}]
    ... ''')
    >>> trace = dojoir.PASSES["join_all"].on(k)
    >>> [str(move) for move in trace.moves]
    ['join_scopes(0, 1)', 'join_scopes(0, 1)']
    >>> print(trace.kernel)
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N]
    tmp u: f32[N]
    <BLANKLINE>
    N
    | t[{0}] = 2 * x[{0}]
    | u[{0}] = t[{0}] + 1
    | y[{0}] = t[{0}] * u[{0}]
    <BLANKLINE>
    """
    repeat(first(moves_named("join_scopes")))(trace)
