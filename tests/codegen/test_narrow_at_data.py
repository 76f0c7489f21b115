"""Accumulations of several threads into elements of every type, with no race: narrow ones in words beside them."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from agreement import agree
from gpu_compile import ARCHITECTURES, clang_error, nvrtc_error
from on_harness import run
from scattered import NARROW, ROWS, TYPES, arguments, every_operator, keep_their_bits, scattered_text

import dojoir
from dojoir.codegen.emission import gpu_program
from dojoir.codegen.gpu.printer import print_gpu
from dojoir.codegen.gpu.program import GpuProgram
from dojoir.codegen.lower import pipeline as lower
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.nests import work
from dojoir.codegen.lower.waits.barrier_proof import shared
from dojoir.codegen.lower.waits.exchanges import met
from dojoir.codegen.target import CUDA

ROW_SUMS = """kernel row_sums(N, C)
in ids: i32[N]
in x: {t}[N, C]
inout h: {t}[7, C]

N
| C
| | h[ids[{{0}}], {{1}}] {op} x[{{0}}, {{1}}]
"""

MARKED = """kernel marked()
in at: i32[37]
in x: f16[37, 6]
inout h: f16[7, 6]

37 : bx
| 6
| | h[at[{0}], {1}] += x[{0}, {1}]
"""


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("dtype", TYPES)
def test_every_operator_of_every_type(dtype: str, target: str) -> None:
    kernel = dojoir.parse(every_operator(dtype, threads=True))
    dojoir.prove(kernel)
    random = Random(f"{dtype} {target}")
    sizes = {"N": 70, "B": ROWS}
    given = arguments(kernel, sizes, random)
    found = run(kernel, given, sizes, target, random.choice(["forward", "backward"]))
    assert agree(kernel, dojoir.interpret(kernel, given, **sizes), found, exact=False) is None
    assert keep_their_bits(given, found)


@pytest.mark.parametrize("seed", range(24))
def test_drawn_accumulations_are_what_the_text_says(seed: int) -> None:
    random = Random(f"scattered {seed}")
    text = scattered_text(random, NARROW)
    kernel, target = dojoir.parse(text), random.choice(["cuda", "hip"])
    dojoir.prove(kernel)
    given = arguments(kernel, {}, random)
    expected = dojoir.interpret(kernel, given)
    found = run(kernel, given, {}, target, random.choice(["forward", "backward"]))
    assert agree(kernel, expected, found, exact=False) is None, text


@pytest.mark.parametrize("architecture", ["sm_80", "gfx90a"])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_compiler_takes_every_operator_of_every_type(dtype: str, architecture: str) -> None:
    target = ARCHITECTURES[architecture]
    text = dojoir.emit(dojoir.parse(every_operator(dtype, threads=True)), target)
    try:
        assert (clang_error if target == "hip" else nvrtc_error)(text, architecture) == ""
    except dojoir.ToolchainError as error:
        pytest.skip(f"there is no compiler: {error}")


@pytest.mark.parametrize(("dtype", "op"), [("f16", "+="), ("bf16", "*="), ("i8", "max="), ("u16", "+=")])
@pytest.mark.parametrize("sizes", [None, {"N": 100_000, "C": 64}], ids=["open", "told"])
def test_rules_give_such_a_nest_blocks_and_threads(dtype: str, op: str, sizes: dict[str, int] | None) -> None:
    kernel = dojoir.parse(ROW_SUMS.format(t=dtype, op=op))
    made = dojoir.optimize(kernel, "cuda", sizes=sizes).kernel
    nest = next(site for site in made.sites if site.statement.scatters)
    marks = {mark for scope in nest.scopes for mark in scope.marks}
    assert {"gx", "bx"} <= marks


def test_a_sum_of_ones_is_rounded_once() -> None:
    kernel = dojoir.parse(MARKED.replace("37", "1024").replace("marked()", "ones()"))
    dojoir.prove(kernel)
    given = {
        "at": np.zeros(1024, np.int32),
        "x": np.full((1024, 6), 3, np.float16),
        "h": np.zeros((7, 6), np.float16),
    }
    found = run(kernel, given, {})["h"]
    assert (found[0] == 3072).all() and not found[1:].any()


# -- the proof, and the harness --------------------------------------------------------------------------------
def inside_of_threads(kernel: dojoir.Kernel) -> lower.TextBeside:
    """The kernel with its sums in arrays whose beginning, addition and end are inside of the threads: a race."""
    return lower.with_sums_beside(lower.TextBeside.of(kernel), lambda now: lower.thread_carriers(now, CUDA))


def test_the_harness_finds_the_race_of_sums_inside_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """With each wall taken away that keeps the compiler from it."""
    kernel = dojoir.parse(MARKED)
    made = inside_of_threads(kernel)
    monkeypatch.setattr(lower, "_with_arrays", lambda *_: made)
    program = lower.lower(kernel, CUDA)
    given = arguments(kernel, {}, Random(3))
    with pytest.raises(dojoir.RunError, match="race"):
        run(kernel, given, {}, program=GpuProgram("cuda", print_gpu(program, "cuda"), program))


def test_the_marks_of_sums_inside_of_threads_have_no_proof() -> None:
    kernel = dojoir.parse(MARKED)
    assert not lower._has_right_marks(inside_of_threads(kernel).kernel, kernel)
    right = lower.with_words_beside(kernel, lambda now: met(Threads(now, CUDA.warp))).kernel
    assert lower._has_right_marks(right, kernel)


def test_without_a_proof_all_sums_are_made_around_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not seen that threads meet, what is made inside of them is not proved, and not used."""
    kernel = dojoir.parse(MARKED)
    source, known = dojoir.emit(kernel, "cuda"), lower.met
    blind = iter([frozenset()])
    monkeypatch.setattr(lower, "met", lambda threads: next(blind, None) or known(threads))
    assert dojoir.emit(kernel, "cuda") == source


@pytest.mark.parametrize("mark", ["gx", "bx"])
def test_an_accumulation_that_is_not_atomic_has_no_proof(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = MARKED.replace("f16", "f32").replace(": bx", f": {mark}")
    kernel = dojoir.parse(text)
    assert [pair.buffer for pair in shared(kernel, CUDA.warp, ())] == ["h"]
    assert shared(kernel, CUDA.warp, met(Threads(kernel, CUDA.warp))) == []
    for module in (lower, work):
        monkeypatch.setattr(module, "met", lambda threads: frozenset())
    with pytest.raises(dojoir.KernelError, match="no proof") as caught:
        dojoir.emit(kernel, "cuda")
    assert caught.value.diagnostic.code == "no-atomic"


@pytest.mark.parametrize("line", ["h[{0}, {1}]", "h[at[{0}], {1}]"])
def test_elements_of_their_own_need_no_atomic(line: str) -> None:
    text = MARKED.replace("f16", "f32").replace("i32[37]", "i32[37] distinct").replace("[7, 6]", "[37, 6]")
    kernel = dojoir.parse(text.replace("h[at[{0}], {1}]", line))
    dojoir.prove(kernel)
    assert shared(kernel, CUDA.warp, ()) == []
    assert "atomicAdd" not in dojoir.emit(kernel, "cuda")


def test_what_a_launch_uses_in_other_ways_is_refused() -> None:
    text = "kernel f(N)\nin x: f16[N]\ninout s: f16[N + 1]\nout y: f16[N]\n\n"
    text += "N : gx\n| s[0] += x[{0}]\n| y[{0}] = s[{0} + 1]\n"
    kernel = dojoir.parse(text)
    dojoir.prove(kernel)
    with pytest.raises(dojoir.KernelError, match="a tmp of 4 bytes") as caught:
        gpu_program(kernel, "cuda")
    assert caught.value.diagnostic.code == "no-atomic"
