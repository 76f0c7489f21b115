"""The lowering: where elements are, and where temporaries live."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import NARROW, WIDE, evaluated, found, program, rows

import dojoir
from dojoir.codegen.lir.arith import affine_value, constant_value, integer, least
from dojoir.codegen.lir.program import (
    INDEX,
    Allocate,
    Assign,
    Binary,
    Const,
    Declare,
    For,
    Parallel,
    Program,
    ProgramArray,
    Var,
)
from dojoir.codegen.lir.walk import parts
from dojoir.codegen.lower.nests.lanes import is_multiple
from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.lower.plans.layout import Layout
from dojoir.codegen.target import C, Target
from dojoir.ir.affine import Affine


def arrays(prog: Program) -> list[ProgramArray]:
    return [statement.array for statement in found(prog, Allocate)]


# -- layout ------------------------------------------------------------------------------------------------
def layout(declaration: str) -> Layout:
    kernel = dojoir.parse(f"kernel k(N, M, K)\ntmp t: f32[{declaration}\nout y: f32\ny = 0\n")
    return Layout(kernel.buffer("t"))


@pytest.mark.parametrize(
    ("declaration", "indices", "offset", "elements"),
    [
        ("N, M, K]", (1, 2, 3), (1 * 5 + 2) * 7 + 3, 3 * 5 * 7),
        ("N, M, K] order(2, 0, 1)", (1, 2, 3), (3 * 3 + 1) * 5 + 2, 3 * 5 * 7),
        ("N, M, K] pad(0, 1, 2)", (1, 2, 3), (1 * 6 + 2) * 9 + 3, 3 * 6 * 9),
        ("N, M~, K]", (1, 2, 3), 1 * 7 + 3, 3 * 7),
        ("N~, M~, K~]", (1, 2, 3), 0, 1),
        ("N, M, K] order(1, 2, 0) pad(4, 0, 0)", (1, 2, 3), (2 * 7 + 3) * 7 + 1, 5 * 7 * 7),
        ("2*N + 1, M, K - 1]", (1, 2, 3), (1 * 5 + 2) * 6 + 3, 7 * 5 * 6),
    ],
)
def test_offsets(declaration: str, indices: tuple[int, ...], offset: int, elements: int) -> None:
    sizes = {"N": 3, "M": 5, "K": 7}
    where = layout(declaration)
    assert (
        evaluated(where.offset([Const(affine_value(Affine.constant(0), ()).type, i) for i in indices]), sizes)
        == offset
    )
    assert evaluated(where.elements.value, sizes) == elements
    for d, dim in enumerate(where.buffer.dims):
        if not dim.collapsed:
            moved = [i + (n == d) for n, i in enumerate(indices)]
            further = where.offset([integer(i) for i in moved])
            assert evaluated(further, sizes) - offset == evaluated(where.stride(d).value, sizes)


def test_affine_values_and_their_bounds() -> None:
    n, i = Affine.size("N"), Affine.iterator(0)
    iterators = [Var(INDEX, "i")]
    for affine in (2 * n - 3 * i + 4, (n + i) // 4 + i % 8, (i - n) // 4, -((i - n) % 4), n * 0 + 7, 3 - i):
        for size in (1, 6, 13):
            for at in range(5):
                value = evaluated(affine_value(affine, iterators), {"N": size, "i": at})
                assert value == affine.evaluate({"N": size}, (at,))
                low = least(affine)
                assert low is None or low <= value
    assert least(n - 1) == 0
    assert least((n + i) // 4 * 2 + 3) == 3
    assert least(n - i) is None
    assert least(5 - (i % 4)) == 2
    ops = {
        part.op for part in parts(affine_value((n + i) // 4 + (i - n) % 4, iterators)) if isinstance(part, Binary)
    }
    assert {"div", "mod"} <= ops
    assert "floordiv" not in ops


def test_multiples() -> None:
    kernel = dojoir.parse("kernel k(N, M)\nwhere N % 32 == 0, M >= 16\nout y: f32\ny = 0\n")
    n, m = Affine.size("N"), Affine.size("M")
    assert is_multiple(n, 16, kernel.facts)
    assert is_multiple(n + 64 * m + 32, 32, kernel.facts)
    assert not is_multiple(n, 64, kernel.facts)
    assert not is_multiple(n + m, 16, kernel.facts)
    assert not is_multiple(n + 8, 16, kernel.facts)


def test_whole_temporaries_are_allocated_first() -> None:
    prog = program(rows())
    assert [(a.name, a.lives, a.align) for a in arrays(prog)] == [("m", "heap", 64), ("e", "heap", 64)]
    assert all(isinstance(statement, Allocate) for statement in prog.body[:2])


def test_one_element_is_a_variable_declared_by_its_assignment() -> None:
    prog = program(rows(m="N~"))
    assert [a.name for a in arrays(prog)] == ["e"]
    (declared,) = found(prog, Declare)
    assert declared.var.name == "m"
    assert isinstance(declared.value, Const)
    assert declared.value.value == -np.inf
    assert [a.var.name for a in found(prog, Assign)] == ["m"]


def test_a_variable_of_the_kernel_that_cores_write_is_in_memory() -> None:
    text = "kernel k(N)\nout y: f32[N]\ntmp t: f32\n1 : p\n| t = 3\nN\n| y[{0}] = t\n"
    (array,) = arrays(program(text))
    assert (array.name, array.lives, constant_value(array.elements)) == ("t", "stack", 1)


def test_a_row_is_private_to_a_chunk_of_rows_on_the_cores() -> None:
    prog = program(rows(m="N~", e="N~, M", p=" : p"))
    (parallel,) = found(prog, Parallel)
    assert [statement.array.name for statement in parallel.prologue if isinstance(statement, Allocate)] == ["e"]
    assert arrays(prog) == [statement.array for statement in parallel.prologue if isinstance(statement, Allocate)]
    assert [v.name for v in parallel.captures] == ["M"]
    assert [a.name for a in parallel.captured_arrays] == ["x", "y"]


def test_elements_of_their_own_are_shared_by_all_chunks() -> None:
    prog = program(rows(p=" : p"))
    (parallel,) = found(prog, Parallel)
    assert not parallel.prologue
    assert [a.name for a in parallel.captured_arrays] == ["m", "x", "e", "y"]


PRIVATE = """
kernel k(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[3] {storage}
N : v
| 3
| | t[{{1}}] = x[{{0}}] * {{1}}
| y[{{0}}] = t[0] + t[1] + t[2]
"""


@pytest.mark.parametrize(("storage", "lives"), [("stack", "stack"), ("heap", "heap")])
@pytest.mark.parametrize("target", [WIDE, NARROW, C])
def test_each_lane_has_its_own_array(target: Target, storage: str, lives: str) -> None:
    prog = program(PRIVATE.format(storage=storage), target)
    lanes = {WIDE: 32, NARROW: 8, C: 1}[target]
    sizes = {constant_value(array.elements) for array in arrays(prog)}
    assert {array.lives for array in arrays(prog)} == {lives}
    assert max(size for size in sizes if size is not None) == 3 * lanes
    if lives == "heap":
        assert len(arrays(prog)) == 1


def test_a_compilers_lanes_do_not_share_an_array() -> None:
    kinds = {
        storage: {loop.kind for loop in found(program(PRIVATE.format(storage=storage)), For)}
        for storage in ("heap", "stack")
    }
    assert kinds == {"heap": {"seq"}, "stack": {"simd", "seq"}}


def test_lanes_that_use_different_elements_share_an_array() -> None:
    text = PRIVATE.format(storage="").replace("t: f32[3]", "t: f32[N, 3]").replace("t[", "t[{0}, ")
    (array,) = arrays(program(text, WIDE))
    assert evaluated(array.elements, {"N": 10}) == 30


@pytest.mark.parametrize(
    ("declaration", "reason"),
    [
        ("f32[N] stack", "N elements, which is not constant"),
        ("f32[N, N + 1] reg", "N*(N + 1) elements, which is not constant"),
        ("f64[256, 256] stack", "takes 524288 bytes, more than 262144"),
    ],
)
def test_what_does_not_fit_on_the_stack(declaration: str, reason: str) -> None:
    index = "0, 0" if "," in declaration else "0"
    kernel = dojoir.parse(f"kernel k(N)\nout y: f64\ntmp t: {declaration}\nt[{index}] = 1\ny = t[{index}]\n")
    with pytest.raises(dojoir.KernelError) as error:
        lower(kernel, C)
    assert error.value.diagnostic.code == "stack-size"
    assert reason in error.value.diagnostic.message
    assert "place(t, heap)" in error.value.diagnostic.message
    assert "t: " in str(error.value)  # the line is shown


def test_what_does_not_fit_beside_the_others_goes_to_the_heap() -> None:
    text = "kernel k(N)\nout y: f64\ntmp t: f64[128, 128] stack\ntmp u: f64[128, 129] reg\n"
    for name in "tu":
        text += f"128\n| 128\n| | {name}[{{0}}, {{1}}] = {{0}}\n"
    prog = program(text + "y = t[0, 0] + u[0, 0]\n")
    assert {(array.name, array.lives) for array in arrays(prog)} == {("t", "stack"), ("u", "heap")}


def test_unused_temporaries_take_no_room() -> None:
    assert not arrays(program("kernel k(N)\nout y: f32\ntmp t: f32[N]\ntmp u: f32[3] stack\ny = 0\n"))
