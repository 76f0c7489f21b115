"""The passes of the lowering: their page, and the verifier of what they leave."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lir_programs import F32, N, array, index, over_n, program
from lowering_page import PAGE, TEXTS, with_parts

import dojoir
from dojoir.codegen.lir.passes import VARIABLE, watching
from dojoir.codegen.lir.program import (
    INDEX,
    Assign,
    Barrier,
    Binary,
    Const,
    Declare,
    Let,
    Load,
    Program,
    Stmt,
    Store,
    Type,
    Var,
)
from dojoir.codegen.lir.verify import problems, verify
from dojoir.codegen.lower.pipeline import DEVICE, HOST, lower
from dojoir.codegen.target import C

A, AT = Var(F32, "a"), Var(INDEX, "at")
ONE = Const(F32, 1.0)
ARRAYS = (array("x", "f32"), array("y", "f32"))


def made(*body: Stmt) -> Program:
    return program(body, ARRAYS)


def test_the_page_shows_the_passes_as_they_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_parts(page), "write it anew: python tests/helpers/lowering_page.py"


def test_passes_have_names_of_their_own_and_bring_each_node_once() -> None:
    for passes in (HOST, DEVICE):
        assert len({each.name for each in passes}) == len(passes)
        brought = [node for each in passes for node in each.brings]
        assert len(set(brought)) == len(brought)


@pytest.mark.parametrize("target", TEXTS)
def test_each_pass_is_told_of(target: str) -> None:
    seen: list[str] = []
    text = dojoir.emit(dojoir.parse(TEXTS[target]), target, watch=lambda name, _: seen.append(name))
    assert text == dojoir.emit(dojoir.parse(TEXTS[target]), target)
    passes = [each.name for each in (DEVICE if target == "cuda" else HOST)]
    assert seen[: len(passes)] == passes


RIGHT = over_n(Let(A, Load(F32, "x", AT)), Store("y", AT, A))
WRONG = {
    "a is used, and not defined": (over_n(Let(A, ONE)), Store("y", index(0), A)),
    "a is defined again": (Let(A, ONE), Let(A, ONE)),
    "a is assigned, and was not declared": (Let(A, ONE), Assign(A, ONE)),
    "a is a f32, and gets a i64": (Declare(A, N),),
    "z is no array here": (Store("z", index(0), ONE),),
    "add that gives a f32 has operands of f32 and i64": (Let(A, Binary(F32, "add", ONE, N)),),
    "an access of f32 at i64x4": (Store("y", Const(Type(INDEX.dtype, 4), 0), ONE),),
}  # fmt: skip


def test_a_program_that_is_right_has_no_problem() -> None:
    assert list(problems(made(RIGHT))) == []


@pytest.mark.parametrize("problem", WRONG)
def test_a_problem_is_found(problem: str) -> None:
    assert list(problems(made(*WRONG[problem]))) == [problem]


def test_a_node_that_no_pass_brought_is_found() -> None:
    with pytest.raises(AssertionError, match="kernel after nests: there is a Barrier"):
        verify(made(Barrier(("y",))), "nests", HOST[4].brings)


def test_the_verifier_runs_behind_each_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = dojoir.parse(TEXTS["avx2"])
    monkeypatch.setenv(VARIABLE, "1")
    made = lower(kernel, C)
    monkeypatch.setattr(
        "dojoir.codegen.lower.pipeline.fenced", lambda body: (*body, Store("nowhere", index(0), ONE))
    )
    with pytest.raises(AssertionError, match="norms after fences: nowhere is no array here"):
        lower(kernel, C)
    assert list(problems(replace(made, arguments=())))


def test_what_watches_is_told_of_no_more_than_is_inside() -> None:
    seen: list[str] = []
    with watching(lambda name, _: seen.append(name)):
        pass
    lower(dojoir.parse(TEXTS["avx2"]), C)
    assert seen == []
