"""Kernels that are not well-formed, each with what is said of it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import dojoir
from dojoir import KernelError
from dojoir.ir.nodes import Kernel
from dojoir.proof import wellformed
from dojoir.proof.wellformed import prove


def parse(text: str) -> Kernel:
    return dojoir.parse(textwrap.dedent(text).lstrip("\n"))


def refusal(kernel: Kernel, step_limit: int = wellformed.STEP_LIMIT) -> KernelError | None:
    try:
        prove(kernel, step_limit)
    except KernelError as error:
        return error
    return None


# -- each error, in words ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Wrong:
    """A kernel, and what is said about it: the code, the line at fault and the message."""

    text: str
    code: str
    culprit: str
    message: str


WRONG = {
    "index past the end": Wrong(
        """
        kernel k(N, M)
        in  x: f32[N, M]
        out y: f32[N, M]
        N
        | M
        | | y[{0}, {1}] = x[{0}, {1} + 1]
        """,
        "out-of-bounds",
        "x[{0}, {1} + 1]",
        "with N=1, M=1 at {0}=0, {1}=0: index {1} + 1 = 1 of x is outside 0..0; add a guard `if {1} + 1 < M`",
    ),
    "index below zero": Wrong(
        """
        kernel k(N)
        inout x: f32[N]
        N
        | x[{0}] = x[{0} - 1]
        """,
        "out-of-bounds",
        "x[{0} - 1]",
        "with N=1 at {0}=0: index {0} - 1 = -1 of x is outside 0..0; add a guard `if {0} >= 1`",
    ),
    "reversed read": Wrong(
        """
        kernel k(N)
        in  x: f32[N]
        out y: f32[N]
        N
        | y[{0}] = x[N - {0}]
        """,
        "out-of-bounds",
        "x[N - {0}]",
        "with N=1 at {0}=0: index N - {0} = 1 of x is outside 0..0; add a guard `if {0} >= 1`",
    ),
    "swapped indices": Wrong(
        """
        kernel k(N, M)
        in  x: f32[N, M]
        out y: f32[N, M]
        N
        | M
        | | y[{0}, {1}] = x[{1}, {0}]
        """,
        "out-of-bounds",
        "x[{1}, {0}]",
        "with N=1, M=2 at {0}=0, {1}=1: index {1} = 1 of x is outside 0..0; "
        "add `where N >= M`, or a guard `if {1} < N`",
    ),
    "last tile": Wrong(
        """
        kernel k(N)
        out y: f32[N]
        (N + 15) // 16
        | 16
        | | y[16*{0} + {1}] = 1
        """,
        "out-of-bounds",
        "y[16*{0} + {1}]",
        "with N=1 at {0}=0, {1}=1: index 16*{0} + {1} = 1 of y is outside 0..0; "
        "add `where N % 16 == 0`, or a guard `if 16*{0} + {1} < N`",
    ),
    "constant index": Wrong(
        """
        kernel k()
        out y: f32[2]
        y[0] = 1
        y[2] = 1
        """,
        "out-of-bounds",
        "y[2]",
        "index 2 of y is outside 0..1",
    ),
    "index of a collapsed dimension": Wrong(
        """
        kernel k(N)
        out y: f32
        tmp t: f32[N~]
        t[N] = 1
        y = t[N]
        """,
        "out-of-bounds",
        "t[N]",
        "with N=1: index N = 1 of t is outside 0..0",
    ),
    "index beside a gathered one": Wrong(
        """
        kernel k(N)
        in  ids: i32[N]
        in  w: f32[N, 4]
        out y: f32[N]
        N
        | y[{0}] = w[ids[{0}], {0}]
        """,
        "out-of-bounds",
        "w[ids[{0}], {0}]",
        "with N=5 at {0}=4: index {0} = 4 of w is outside 0..3; add `where N <= 4`, or a guard `if {0} < 4`",
    ),
    "index of the indices": Wrong(
        """
        kernel k(N)
        in  ids: i32[N]
        in  w: f32[N]
        out y: f32[N]
        N
        | y[{0}] = w[ids[{0} + 1]]
        """,
        "out-of-bounds",
        "ids[{0} + 1]",
        "with N=1 at {0}=0: index {0} + 1 = 1 of ids is outside 0..0; add a guard `if {0} + 1 < N`",
    ),
    "facts that cannot hold": Wrong(
        """
        kernel k(N)
        where N >= 4, N <= 2
        out y: f32[N]
        N
        | y[{0}] = 1
        """,
        "impossible-facts",
        "N >= 4",
        "no sizes satisfy the facts N >= 4, N <= 2",
    ),
    "empty dimension": Wrong(
        """
        kernel k(N)
        inout x: f32[N, N - 1]
        x[0, 0] = 1
        """,
        "empty-dimension",
        "N - 1",
        "with N=1: dimension 1 of x has extent 0; add `where N >= 2`",
    ),
    "nothing assigned": Wrong(
        """
        kernel k()
        out y: f32
        tmp t: f32
        y = t
        """,
        "read-before-write",
        "t",
        "t is read, and nothing assigns it",
    ),
    "accumulation without a start": Wrong(
        """
        kernel k(N)
        in  x: f32[N]
        out y: f32
        N
        | y max= x[{0}]
        """,
        "read-before-write",
        "y",
        "with N=1 at {0}=0: `max=` accumulates into y, which has no value yet: assign `y = -inf` before; "
        "or declare it `inout`, if the caller gives its values",
    ),
    "integer maximum without a start": Wrong(
        """
        kernel k(N)
        in  x: i32[N]
        out y: i32
        tmp t: i32
        N
        | t max= x[{0}]
        y = t
        """,
        "read-before-write",
        "t",
        "with N=1 at {0}=0: `max=` accumulates into t, which has no value yet: assign it before",
    ),
    "assigned by a scope that may not run": Wrong(
        """
        kernel k(N)
        in  x: f32[N]
        out y: f32
        tmp s: f32
        N - 1
        | s = x[{0}]
        y = s
        """,
        "read-before-write",
        "s",
        "with N=1: s is read before it is assigned; add `where N >= 2`",
    ),
    "assigned under a guard": Wrong(
        """
        kernel k(N)
        out y: f32[N]
        tmp t: f32[N]
        N
        | if {0} % 2 == 0
        | | t[{0}] = 1
        | y[{0}] = t[{0}]
        """,
        "read-before-write",
        "t[{0}]",
        "with N=2 at {0}=1: t[1] is read before it is assigned",
    ),
    "assigned in the next iteration": Wrong(
        """
        kernel k(N)
        out y: f32[N]
        tmp t: f32[N]
        N
        | y[{0}] = t[{0}]
        | t[{0}] = 1
        """,
        "read-before-write",
        "t[{0}]",
        "with N=1 at {0}=0: t[0] is read before it is assigned",
    ),
    "upper triangle read, lower assigned": Wrong(
        """
        kernel k(N)
        out y: f32[N]
        tmp t: f32[N, N]
        N
        | {0} + 1
        | | t[{0}, {1}] = 1
        N
        | y[{0}] = t[0, {0}]
        """,
        "read-before-write",
        "t[0, {0}]",
        "with N=2 at {0}=1: t[0, 1] is read before it is assigned",
    ),
    "gather of what is only partly assigned": Wrong(
        """
        kernel k(N)
        in  ids: i32[N]
        out y: f32[N]
        tmp t: f32[N + 1]
        N
        | t[{0}] = 1
        N
        | y[{0}] = t[ids[{0}]]
        """,
        "read-before-write",
        "t[ids[{0}]]",
        "with N=1 at {0}=0: t[1] is read before it is assigned",
    ),
    "tiles that leave a rest": Wrong(
        """
        kernel k(N)
        out y: f32[N]
        N // 16
        | 16
        | | y[16*{0} + {1}] = 1
        """,
        "unwritten-output",
        "y",
        "with N=1: y[0] is never assigned, and all of an output must be; add `where N % 16 == 0`",
    ),
    "output that nothing assigns": Wrong(
        """
        kernel k(N)
        out y: f32[N]
        """,
        "unwritten-output",
        "y",
        "with N=1: y[0] is never assigned, and all of an output must be",
    ),
    "one storage for values that live together": Wrong(
        """
        kernel k(N, M)
        in  x: f32[N, M]
        out y: f32[N, M]
        tmp e: f32[N, M~]
        N
        | M
        | | e[{0}, {1}] = x[{0}, {1}]
        | M
        | | y[{0}, {1}] = e[{0}, {1}]
        """,
        "shared-storage",
        "e[{0}, {1}]",
        "with N=1, M=2 at {0}=0, {1}=0: e[{0}, {1}] would be what `e[{0}, {1}] = x[{0}, {1}]` at {0}=0, {1}=1 "
        "left: these elements of e share storage; remove the `~`, or read each element before the next is written",
    ),
    "one storage for a sum and another": Wrong(
        """
        kernel k(N)
        in  x: f32[N]
        out y: f32
        tmp s: f32[2~]
        s[0] = 0
        s[1] = 0
        N
        | s[0] += x[{0}]
        y = s[0]
        """,
        "shared-storage",
        "s[0]",
        "with N=1: s[0] would be what `s[1] = 0` left: these elements of s share storage; remove the `~`, or "
        "read each element before the next is written",
    ),
    "open array on the stack": Wrong(
        """
        kernel k(N)
        out y: f32[N]
        tmp t: f32[N] stack
        N
        | t[{0}] = 1
        | y[{0}] = t[{0}]
        """,
        "open-extent",
        "t",
        "t is in `stack`, which needs constant extents, and N is not: "
        "use `heap`, or collapse the dimension with `~`",
    ),
    "iterations in parallel that need each other": Wrong(
        """
        kernel k(N)
        inout x: f32[N]
        N - 1 : p
        | x[{0} + 1] = x[{0}]
        """,
        "shared-element",
        "N - 1 : p",
        "this scope is marked `p`, and its iterations are not independent: with N=3: `x[{0} + 1] = x[{0}]` "
        "at {0}=0 and at {0}=1 touch the same element of `x`",
    ),
    "lanes that need each other in a nested scope": Wrong(
        """
        kernel k(N, M)
        inout x: f32[M, N + 1]
        N : v
        | M
        | | x[{1}, {0} + 1] = x[{1}, {0}]
        """,
        "shared-element",
        "N : v",
        "this scope is marked `v`, and its iterations are not independent: with N=2, M=1: "
        "`x[{1}, {0} + 1] = x[{1}, {0}]` at {0}=0, {1}=0 and at {0}=1, {1}=0 touch the same element of `x`",
    ),
    "unrolled with an open extent": Wrong(
        """
        kernel k(N)
        out y: f32[N]
        N : u
        | y[{0}] = 1
        """,
        "open-extent",
        "N : u",
        "the scope at 0 is marked `u`, which needs a constant extent; split it first",
    ),
    "lanes in lanes": Wrong(
        """
        kernel k(N)
        out y: f32[N, 8]
        N : v
        | 8 : v
        | | y[{0}, {1}] = 1
        """,
        "nested-mark",
        "8 : v",
        "the scope at 0.0 is marked `v` inside another scope marked `v`",
    ),
    "lanes that run unequally often": Wrong(
        """
        kernel k(N)
        inout y: f32[N, N]
        N : v
        | {0} + 1
        | | y[{0}, {1}] = 1
        """,
        "lane-extent",
        "N : v",
        "an extent inside the scope at 0, which is marked `v`, depends on its iterator {0}",
    ),
}
