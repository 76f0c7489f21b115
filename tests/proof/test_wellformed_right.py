"""The proofs that a kernel is well-formed accept what is right, and are held to runs at small sizes."""

from __future__ import annotations

import re
import textwrap

import pytest
from enumeration import all_sizes, findings
from hypothesis import HealthCheck, given, settings
from strategies import drawn_kernels
from wrong_kernels import WRONG, parse, refusal

import dojoir
from dojoir import KernelError, kernels
from dojoir.ir.nodes import Kernel
from dojoir.proof import wellformed
from dojoir.proof.core import bounds, written
from dojoir.proof.core import wellformed as core_wellformed
from dojoir.proof.core.bounds import prove_bounds
from dojoir.proof.wellformed import prove
from dojoir.support.memo import clear_caches

STAGES = ({"out-of-bounds"}, {"read-before-write", "unwritten-output"}, {"shared-storage"})


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
    clear_caches()  # what is known to be well-formed takes no steps
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
@given(drawn_kernels("tight"))
def test_tight_kernels_are_held_to_runs(kernel: Kernel) -> None:
    hold_to_runs(dojoir.parse(dojoir.to_text(kernel)))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn_kernels("wide"))
def test_wide_kernels_are_held_to_runs(kernel: Kernel) -> None:
    hold_to_runs(dojoir.parse(dojoir.to_text(kernel)))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn_kernels("any"))
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
@given(drawn_kernels("wide"))
def test_quick_answers_are_those_of_isl(kernel: Kernel) -> None:
    slow, quick = without_quick_answers(kernel), refusal(kernel)
    assert (slow and slow.diagnostic) == (quick and quick.diagnostic)
