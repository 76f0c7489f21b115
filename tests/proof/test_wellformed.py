"""The proofs that a kernel is well-formed: what they say of one that is not, in words."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from random import Random

import pytest
from drawing import draw
from wrong_kernels import WRONG, parse, refusal

import dojoir
from dojoir.ir.nodes import Access, Dim, Statement
from dojoir.proof import wellformed
from dojoir.sets.limits import StepLimitReached


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
    assert scattered.diagnostic.code == "read-before-write"
    assert "y[0] may stay as it was, and has no value yet" in scattered.diagnostic.message


# -- what moves led to ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(6))
def test_what_legal_moves_led_to_is_not_proved_again(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`compile` refused as undecided what `optimize` had given, where the whole text takes long to prove: drawn
    kernels, with no steps left for it. A text is proved."""
    random = Random(f"well-formed after moves {seed}")
    kernel = draw("runnable", random, small=True)
    scheduled = dojoir.optimize(kernel, threads=random.choice((1, 2))).kernel
    moved = dojoir.Trace(kernel)
    for move in random.sample(dojoir.moves(kernel), 1):
        moved.apply(move)

    def endless(_: dojoir.Kernel) -> None:
        raise StepLimitReached

    monkeypatch.setattr(wellformed, "_complaint", endless)
    for made in (kernel, scheduled, moved.kernel):
        dojoir.compile(made)
        dojoir.Trace(made)
    other = dojoir.parse("kernel k(N)\nout y: f32[N]\n\nN\n| y[{0}] = " + str(random.random()) + "\n")
    for proved in (dojoir.compile, dojoir.Trace, dojoir.prove):
        with pytest.raises(dojoir.KernelError) as caught:
            proved(other)
        assert caught.value.diagnostic.code == "undecided"
