"""`__restrict__` on a GPU: said of arrays through which no threads exchange values, and of no others."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from on_harness import run

import dojoir
from dojoir.codegen.emission import gpu_program

ENTROPY = """kernel entropy(N = 512, C = 512)
in  x: f32[N, C]
in  t: i64[N]
out loss: f32
tmp m: f32[N]
tmp s: f32[N]

N @i
| m[{i}] = -inf
| C @c
| | m[{i}] max= x[{i}, {c}]
N @i
| s[{i}] = 0
| C @c
| | s[{i}] += exp(x[{i}, {c}] - m[{i}])
loss = 0
N @i
| loss += log(s[{i}]) + m[{i}] - x[{i}, t[{i}]]
loss *= 1 / N
"""

OWN = """kernel own(N)
in  x: f32[N, 64]
out y: f32[N, 64]
tmp a: f32[N, 64]
tmp b: f32[N, 64]
tmp c: f32[N]

N : gx
| 64 : bx
| | a[{0}, {1}] = 2 * x[{0}, {1}]
| | b[{0}, {1}] = 3 * x[{0}, {1}]
| c[{0}] = x[{0}, 3]
| 64 : bx
| | y[{0}, {1}] = a[{0}, {1}] + b[{0}, 63 - {1}] + c[{0}]
"""

TURNS = """kernel turns(T)
inout x: f32[2, 64]

1 : gx
| T
| | 64 : bx
| | | x[({1} + 1) % 2, {2}] = x[{1} % 2, 63 - {2}] + 1
"""

COUNTS = """kernel counts(N)
in    x: i32[N]
inout n: i32

N : gx
| n += x[{0}]
"""

ORDERS: tuple[Literal["forward", "backward"], ...] = ("forward", "backward")


def restricted(text: str, target: str = "cuda") -> list[set[str]]:
    """The arrays that each launch of a kernel takes by a pointer that is `__restrict__`."""
    source = dojoir.emit(dojoir.parse(text), target)
    heads = re.findall(r"__global__ void.*?\)\n.*?\n?\{", source, re.DOTALL)
    return [set(re.findall(r"\*__restrict__ (\w+)", head)) for head in heads]


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_the_maxima_that_lanes_read_from_global_memory_are_not_restricted(target: str) -> None:
    """On an H100 the lanes saw `m` as it was before the barrier."""
    kernel = dojoir.optimize(dojoir.parse(ENTROPY), target).kernel
    head = re.search(r"entropy_kernel\((.*?)\)", dojoir.emit(kernel, target), re.DOTALL)
    assert head is not None
    assert re.findall(r"\*__restrict__ (\w+)", head[1]) == ["x", "s"]
    assert "float *m" in head[1]


@pytest.mark.parametrize("order", ORDERS)
def test_a_pointer_that_says_so_of_them_is_an_error_of_its_own(order: Literal["forward", "backward"]) -> None:
    kernel = dojoir.optimize(dojoir.parse(ENTROPY.replace("N = 512", "N = 16")), "cuda").kernel
    program = gpu_program(kernel, "cuda")
    random = np.random.default_rng(5)
    given = {"x": random.standard_normal((16, 512), np.float32), "t": random.integers(0, 512, 16)}
    expected = dojoir.interpret(kernel, given)["loss"]
    np.testing.assert_allclose(run(kernel, given, {}, order=order, program=program)["loss"], expected, rtol=1e-5)
    untrue = replace(program, source=program.source.replace("float *m,", "float *__restrict__ m,"))
    with pytest.raises(dojoir.RunError) as error:
        run(kernel, given, {}, order=order, program=untrue)
    assert error.value.diagnostic.code == "broken-restrict"


def test_what_each_thread_writes_and_reads_itself_is_restricted() -> None:
    (found,) = restricted(OWN)
    assert found == {"x", "y", "a"}  # b goes to another thread, c from one to all


def test_what_threads_hand_on_from_one_iteration_to_the_next_is_not_restricted() -> None:
    assert restricted(TURNS) == [set()]
    own = TURNS.replace("63 - {2}", "{2}")
    assert restricted(own) == [{"x"}]


def test_what_blocks_accumulate_into_is_not_restricted() -> None:
    assert restricted(COUNTS) == [{"x"}]


@pytest.mark.parametrize("text", [OWN, TURNS, COUNTS], ids=["own", "turns", "counts"])
def test_the_harness_agrees(text: str) -> None:
    """Every pointer that is not restricted is one of which the harness says that it must not be."""
    kernel = dojoir.parse(text)
    program = gpu_program(kernel, "cuda")
    sizes = dict.fromkeys(kernel.runtime_sizes, 3)
    given = dojoir.testing.random_inputs(kernel, {}, seed=1, **sizes)
    for order in ORDERS:
        run(kernel, given, sizes, order=order, program=program)
    for name in {array.name for array in (*program.program.arguments, *program.workspace)}:
        plain = re.search(rf"(\w+) \*{name}\b", program.source.partition("#if !defined")[0])
        if plain is not None:
            source = program.source.replace(plain[0], f"{plain[1]} *__restrict__ {name}", 1)
            with pytest.raises(dojoir.RunError, match="broken-restrict"):
                run(kernel, given, sizes, program=replace(program, source=source))
