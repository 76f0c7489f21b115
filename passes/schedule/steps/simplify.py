"""Passes that make a kernel smaller: dead temporaries, storage that can be shared, loops that can be fused.

A split whose last, shorter block is a scope of its own, so that all others are full.
"""

from __future__ import annotations

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Scope
from dojoir.passes.base.move import Place
from dojoir.passes.engine.located import located
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.splitting import Split
from dojoir.passes.schedule.steps.combinators import every, first, moves_named, repeat
from dojoir.passes.schedule.steps.spots import spot


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


CUT, SHORTER = "cut", "min"


def split_with_tail(trace: Trace, scope: str, factor: int, tail: str = CUT) -> None:
    """Splits a scope into full blocks of `factor` iterations, and leaves the iterations after the last full block
    to a scope of its own (`tail` is `cut`), which comes after it. With `min` it is `split` alone, whose last block
    has a shorter `min` extent. After a cut the blocks can be interchanged, unrolled and vectorized.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N @i
    ... | y[{i}] = 2 * x[{i}]
    ... ''')
    >>> trace = dojoir.PASSES["split_with_tail"].given("@i", "16").on(k)
    >>> [str(move) for move in trace.moves]
    ['cut(0, 16*(N // 16))', 'split(0, 16)']
    >>> print(trace.kernel)
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N // 16 @i
    | 16 @i_in
    | | y[16*{i} + {i_in}] = 2 * x[16*{i} + {i_in}]
    N - 16*(N // 16)
    | y[{0} + 16*(N // 16)] = 2 * x[{0} + 16*(N // 16)]
    <BLANKLINE>
    """
    if tail not in (CUT, SHORTER):
        raise ArgumentError(f"the tail of split_with_tail is {CUT} or {SHORTER}, not '{tail}'", "bad-arguments")
    (place,) = located(Split(Place(scope), factor), trace.kernel).places()  # a query too
    found = spot(trace, trace.kernel.path(place))
    node = found.node
    if tail == CUT and factor > 0 and isinstance(node, Scope) and len(node.extent.bounds) == 1:
        (extent,) = node.extent.bounds
        if not extent.is_constant or extent.offset % factor:
            found, _ = found.cut(extent // factor * factor)
    found.split(factor)
