"""The proofs that a kernel is well-formed: each error in words, and everything held to runs at small sizes."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, replace

import pytest
from enumeration import all_sizes, findings
from hypothesis import HealthCheck, given, settings
from loose import texts
from strategies import syntactic_kernels

import dojoir
from dojoir import KernelError, kernels
from dojoir.ir.nodes import Access, Dim, Kernel, Statement
from dojoir.proof import wellformed
from dojoir.proof.core import bounds, written
from dojoir.proof.core import wellformed as core_wellformed
from dojoir.proof.core.bounds import prove_bounds
from dojoir.proof.wellformed import prove

STAGES = ({"out-of-bounds"}, {"read-before-write", "unwritten-output"}, {"shared-storage"})


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


@pytest.mark.parametrize("name", WRONG)
def test_what_is_said_of(name: str) -> None:
    wrong = WRONG[name]
    error = refusal(parse(wrong.text))
    assert error is not None
    found = error.diagnostic
    assert (found.code, found.message) == (wrong.code, wrong.message)
    assert found.source is not None and found.span is not None
    pointed = found.source.line(found.span.line)[found.span.column - 1 : found.span.end - 1]
    assert pointed == wrong.culprit


@pytest.mark.parametrize("name", WRONG)
def test_what_is_said_of_a_kernel_without_a_text(name: str) -> None:
    kernel = parse(WRONG[name].text)
    error = refusal(kernel.evolve())
    assert error is not None
    assert error.diagnostic.message == WRONG[name].message
    source, span = error.diagnostic.source, error.diagnostic.span
    assert source is not None and span is not None
    assert source.text == dojoir.to_text(kernel)
    assert source.line(span.line)[span.column - 1 : span.end - 1] == WRONG[name].culprit


def test_error_shows_the_line_and_who_else_is_concerned() -> None:
    error = refusal(parse(WRONG["assigned by a scope that may not run"].text))
    assert str(error) == textwrap.dedent("""\
        <string>:7:5: error[read-before-write]: with N=1: s is read before it is assigned; add `where N >= 2`
          y = s
              ^
        <string>:6:3: note: assigned here
          | s = x[{0}]
            ^""")


def test_what_only_a_program_can_build() -> None:
    kernel = parse("kernel k(N)\ninout x: f32[N]\nN\n| x[{0}] = 1\n")
    (buffer,) = kernel.buffers
    assert refusal(kernel) is None
    for built, code, message in (
        (
            replace(buffer, role="in"),
            "write-to-input",
            "x is an in buffer, which nothing may write: declare it `inout`",
        ),
        (
            replace(buffer, dims=(Dim(buffer.dims[0].extent, collapsed=True),)),
            "argument-storage",
            "the caller has storage for every index of x: remove the `~`",
        ),
        (
            replace(buffer, storage="stack"),
            "argument-storage",
            "the caller chooses where x lives: remove `stack`",
        ),
    ):
        error = refusal(kernel.replace_buffer(built))
        assert error is not None
        assert (error.diagnostic.code, error.diagnostic.message) == (code, message)


def test_indices_that_only_a_program_can_build() -> None:
    kernel = parse(
        """
        kernel k(N)
        in  ids: i32[N]
        in  w: f32[N]
        out y: f32[N]
        N
        | y[{0}] = w[ids[{0}]]
        """
    )
    ids, w, y = kernel.buffers
    floating = refusal(kernel.evolve(buffers=(replace(ids, dtype=w.dtype), w, y)))
    assert floating is not None
    assert floating.diagnostic.code == "type-operand"
    assert floating.diagnostic.message == "an index must be an integer, and ids[{0}] is f32"
    statement = kernel.at("0.0")
    assert isinstance(statement, Statement) and isinstance(statement.value, Access)
    scatter = replace(statement, target=Access("y", statement.value.indices))
    scattered = refusal(kernel.replace_node((0, 0), scatter))
    assert scattered is not None
    assert scattered.diagnostic.code == "scatter"
    assert (
        scattered.diagnostic.message
        == "y[ids[{0}]] is assigned, so its indices must be affine: only an accumulation may scatter"
    )


# -- what is right -------------------------------------------------------------------------------------------
RIGHT = {
    "nothing": "kernel k()\n",
    "scopes that may not run": """
        kernel k(N)
        inout a: f64[N]
        N - 2
        | a[{0} + 1] = a[{0}] + a[{0} + 2]
        """,
    "a scope that never runs": """
        kernel k(N)
        in x: f32[N]
        out y: f32
        y = 0
        0
        | y = x[N]
        """,
    "a rest of the tiles": """
        kernel k(N)
        out y: f32[N]
        (N + 15) // 16
        | min(16, N - 16*{0})
        | | y[16*{0} + {1}] = 1
        """,
    "whole tiles by a fact": """
        kernel k(N)
        where N % 16 == 0
        out y: f32[N]
        N // 16
        | 16
        | | y[16*{0} + {1}] = 1
        """,
    "two halves": """
        kernel k(N)
        out y: f32[N]
        N
        | if {0} % 2 == 0
        | | y[{0}] = 0
        N // 2
        | y[2*{0} + 1] = 1
        """,
    "a triangle read as it was assigned": """
        kernel k(N)
        out y: f32[N]
        tmp t: f32[N, N]
        N
        | {0} + 1
        | | t[{0}, {1}] = 1
        N
        | y[{0}] = t[{0}, 0] + t[N - 1, {0}]
        """,
    "a value from the iteration before": """
        kernel k(N)
        in x: f32[N]
        out y: f32[N]
        tmp t: f32[N + 1]
        t[0] = 0
        N
        | t[{0} + 1] = t[{0}] + x[{0}]
        | y[{0}] = t[{0} + 1]
        """,
    "a recurrence from the last iteration back": """
        kernel k(N)
        inout x: f32[N]
        tmp t: f32[N + 1]
        t[N] = 0
        N
        | t[N - 1 - {0}] = t[N - {0}] + x[N - 1 - {0}]
        x[0] = t[0]
        """,
    "one storage for a running value, two dimensions collapsed": """
        kernel k(N, M)
        in x: f32[N, M]
        out y: f32[N, M]
        tmp e: f32[N~, M~]
        N
        | M
        | | e[{0}, {1}] = x[{0}, {1}]
        | | y[{0}, {1}] = e[{0}, {1}]
        """,
    "one storage, read one iteration late": """
        kernel k(N)
        in x: f32[N]
        inout y: f32[N]
        tmp t: f32[N~]
        N
        | if {0} > 0
        | | y[{0}] = t[{0} - 1]
        | t[{0}] = x[{0}]
        """,
    "another's storage, overwritten before it is read": """
        kernel k()
        out y: f32
        tmp t: f32[2~]
        t[0] = 1
        t[1] = 2
        t[0] = 3
        y = t[0]
        """,
    "sums in lanes": """
        kernel k(N)
        in x: f32[N]
        out y: f32
        y = 0
        N : v
        | y += x[{0}]
        """,
    "sizes bounded by facts": """
        kernel k(N, M)
        where N <= M, M <= 8
        in x: f32[8]
        out y: f32[N]
        N
        | y[{0}] = x[M - 1 - {0}]
        """,
    "a gather of what is wholly assigned": """
        kernel k(N, V)
        in ids: i32[N]
        out y: f32[N]
        tmp t: f32[V]
        V
        | t[{0}] = 1
        N
        | y[{0}] = t[ids[{0}]]
        """,
}


@pytest.mark.parametrize("name", RIGHT)
def test_accepts(name: str) -> None:
    kernel = parse(RIGHT[name])
    assert refusal(kernel) is None
    for sizes in all_sizes(kernel, 17 if len(kernel.runtime_sizes) == 1 else 4):
        assert not findings(kernel, sizes)


@pytest.mark.parametrize("name", kernels.names())
def test_library(name: str) -> None:
    assert refusal(kernels.load(name)) is None


def test_bounds_of_chosen_statements_only() -> None:
    kernel = parse("kernel k(N)\ninout x: f32[N]\nx[0] = 1\nx[N] = 1\n")
    assert prove_bounds(kernel, [0]) is None
    found = prove_bounds(kernel, [1])
    assert found is not None and found.number == 1 and found.dims == (0,)


def test_limit_on_steps_is_an_answer() -> None:
    kernel = parse(RIGHT["one storage, read one iteration late"])
    undecided = 0
    for steps in (20, 50, 100, 200, 400, 800, 1600, 3200, 6400):  # whatever isl is at when it stops
        error = refusal(kernel, steps)
        if error is not None:
            assert error.diagnostic.code == "undecided"
            message = f"no proof that k is well-formed was found within {steps} steps"
            assert error.diagnostic.message == message
            undecided += 1
    assert undecided >= 4
    prove(kernel)


def test_an_error_is_shown_in_the_text_at_hand() -> None:
    """Equal kernels share a proof, and never an error."""
    text = WRONG["constant index"].text
    first, second = refusal(parse(text)), refusal(parse("# moved" + textwrap.dedent(text)))
    assert first is not None and second is not None
    for error, line in ((first, 4), (second, 5)):
        span, source = error.diagnostic.span, error.diagnostic.source
        assert span is not None and source is not None and span.line == line
        assert source.line(line) == "y[2] = 1"


# -- held to runs, and quick answers to slow ones --------------------------------------------------------------
def hold_to_runs(kernel: Kernel) -> None:
    """What is proved is true of every small run; what is refused goes wrong at the sizes that the refusal names."""
    error = refusal(kernel)
    code = error.diagnostic.code if error else None
    if error and code == "impossible-facts":
        assert not list(all_sizes(kernel, 4))
        return
    refused = next((n for n, stage in enumerate(STAGES) if code in stage), len(STAGES))
    proved = set[str]().union(*STAGES[:refused])
    for sizes in all_sizes(kernel, 4):
        assert not findings(kernel, sizes) & proved, sizes
    if error:
        named = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", error.diagnostic.message)}
        assert code in findings(kernel, {name: named[name] for name in kernel.runtime_sizes}), error


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts(wide=False))
def test_tight_kernels_are_held_to_runs(text: str) -> None:
    hold_to_runs(dojoir.parse(text))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts(wide=True))
def test_wide_kernels_are_held_to_runs(text: str) -> None:
    hold_to_runs(dojoir.parse(text))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(syntactic_kernels())
def test_any_kernel_is_proved_or_refused(kernel: Kernel) -> None:
    error = refusal(kernel)
    if error is not None:
        source, span = error.diagnostic.source, error.diagnostic.span
        assert source is not None and span is not None
        assert source.line(span.line)[span.column - 1 : span.end - 1]


def without_quick_answers(kernel: Kernel) -> KernelError | None:
    """The refusal where isl is asked everything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "is_nonnegative", lambda *_: False)
        patch.setattr(core_wellformed, "is_nonnegative", lambda *_: False)
        patch.setattr(written, "_covers", lambda *_: False)
        patch.setattr(written, "_one_at_a_time", lambda *_: False)
        wellformed._proved.clear()
        found = refusal(kernel)
    wellformed._proved.clear()
    return found


@pytest.mark.parametrize("name", kernels.names())
def test_quick_answers_are_those_of_isl_on_the_library(name: str) -> None:
    assert without_quick_answers(kernels.load(name)) is None


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts(wide=True))
def test_quick_answers_are_those_of_isl(text: str) -> None:
    kernel = dojoir.parse(text)
    slow, quick = without_quick_answers(kernel), refusal(kernel)
    assert (slow and slow.diagnostic) == (quick and quick.diagnostic)
