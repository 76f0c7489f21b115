"""What bounds a kernel, read off its machine code and the ceilings."""

from __future__ import annotations

import platform

import pytest

import dojoir
from dojoir.runtime import Measurement
from dojoir.runtime.measurement.bottleneck import of_code
from dojoir.runtime.measurement.hot_loop import hottest, innermost

CHAIN = """\
total:
.LBB0_2:
	vcvtss2sd	(%rdi,%rax,4), %xmm2, %xmm2
	vaddsd	%xmm2, %xmm0, %xmm0
	incq	%rax
	cmpq	%rax, %rdx
	jne	.LBB0_2
	retq
"""

TILE = "t:\n.L1:\n.L2:\n" + "".join(
    f"\tvfmadd231ps\t(%rsi,%rax), %ymm{n}, %ymm{n + 2}\n" for n in range(10)
) + "\tjne\t.L2\n\tjb\t.L1\n"  # fmt: skip

SPILLED = TILE.replace("\tjne", "\tvmovups\t32(%rsp), %ymm1\n\tvmovups\t%ymm1, -64(%rbp)\n\tjne")

GATHERED = "g:\n.L1:\n\tvpinsrd\t$1, (%rax), %xmm0, %xmm0\n\tvgatherqps\t%xmm1, (%rax,%ymm0), %xmm2\n\tjne\t.L1\n"

DOTS = "d:\n" + ".L1:\n" + "\tvpinsrb\t$1, (%rax), %xmm0, %xmm0\n" * 40 + "\tjne\t.L1\n.L2:\n" + "".join(
    f"\tvpdpbusd\t(%rsi,%rax), %ymm{n}, %ymm{n + 2}\n" for n in range(10)
) + "\tjb\t.L2\n"  # fmt: skip
"""Bytes that one loop packs and another, shorter one multiplies."""


@pytest.mark.parametrize(
    ("asm", "bound_by", "fraction", "kind"),
    [
        (CHAIN, "memory", 0.2, "latency"),
        (CHAIN, "memory", 0.9, "bytes"),
        (TILE, "arithmetic", 0.8, "FMA"),
        (TILE, "arithmetic", 0.3, "instructions"),
        (SPILLED, "arithmetic", 0.3, "spills"),
        (GATHERED, None, None, "gathers"),
        (DOTS, "arithmetic", 0.3, "instructions"),
        (DOTS.replace("vpdpbusd", "vpmaddwd"), "arithmetic", 0.3, "instructions"),
    ],
)
def test_what_bounds_a_loop(asm: str, bound_by: str | None, fraction: float | None, kind: str) -> None:
    found = of_code(asm, bound_by, fraction)
    assert found is not None and found.kind == kind and str(found).startswith(f"{kind}: ")
    assert all(name in {move.name for move in dojoir.MOVES} for name in found.moves)


def test_code_without_a_loop_tells_nothing() -> None:
    assert of_code("f:\n\tretq\n", "memory", 0.1) is None
    assert of_code("", None, None) is None


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the code of x86")
def test_a_plain_sum_waits_for_itself() -> None:
    kernel = dojoir.parse("kernel total(N)\nin  x: f32[N]\nout s: f32\n\ns = 0\nN\n| s += x[{0}]\n")
    found = of_code(dojoir.emit(kernel, "asm"), "memory", 0.1)
    assert found is not None and found.kind == "latency"


def test_legal_moves_that_address_it() -> None:
    from dojoir.cli.timing import bound_lines

    kernel = dojoir.parse("kernel total(N)\nin  x: f32[N]\nout s: f32\n\ns = 0\nN\n| s += x[{0}]\n")
    found = of_code(CHAIN, "memory", 0.2)
    assert found is not None
    moves = found.legal_moves(kernel, "llvm")
    assert moves and all(dojoir.check(kernel, move) for move in moves)
    assert any(move.startswith("vectorize(") for move in moves)
    text = bound_lines(found, moves)
    assert "latency" in text and "legal moves" in text and max(map(len, text.splitlines())) <= 80


REST = "".join(
    f"\tvmovss\t{4 * n}(%rdi,%rax,4), %xmm3\n\tvfmadd231ss\t{4 * n}(%rsi,%rax,4), %xmm3, %xmm0\n" for n in range(8)
)
LANES_AND_REST = f"""\
dot:
.L1:
	vmovups	(%rdi,%rax,4), %zmm2
	vfmadd231ps	(%rsi,%rax,4), %zmm2, %zmm0
	vmovups	64(%rdi,%rax,4), %zmm3
	vfmadd231ps	64(%rsi,%rax,4), %zmm3, %zmm1
	addq	$32, %rax
	jb	.L1
.L2:
{REST}	addq	$8, %rax
	jb	.L2
	retq
"""
"""A loop in lanes, and one for the rest that has more instructions."""

ADDED = """\
added:
.L1:
	vmovups	(%rdi,%rax,4), %zmm0
	vmovups	64(%rdi,%rax,4), %zmm1
	vaddps	(%rsi,%rax,4), %zmm0, %zmm0
	vaddps	64(%rsi,%rax,4), %zmm1, %zmm1
	vmovups	%zmm0, (%rdx,%rax,4)
	vmovups	%zmm1, 64(%rdx,%rax,4)
	addq	$32, %rax
	jb	.L1
	retq
"""
"""Additions none of which waits for another one."""

MASKED = "m:\n.L0:\n.L1:\n" + "".join(
    f"\tvfmadd231ps\t(%rsi,%rax), %zmm{n}, %zmm{n + 12}\n" for n in range(12)
) + "\tjne\t.L1\n.L2:\n" + "".join(
    f"\tvmovups\t(%rsi,%rax), %zmm{n} {{%k1}} {{z}}\n\tvfmadd231ps\t(%rsi,%rax), %zmm{n}, %zmm{n + 12} {{%k1}}\n"
    for n in range(12)
) + "\tjne\t.L2\n\tjb\t.L0\n"  # fmt: skip
"""The full tiles, and, with lanes off, those at an edge."""


def test_the_loop_for_the_rest_is_not_the_hot_one() -> None:
    loop = hottest(LANES_AND_REST)
    assert loop is not None and loop.lanes == 16 and loop.elements == 32 and loop.chains == (1, 1)
    edge = hottest(MASKED)
    assert edge is not None and len(edge.code) == 13 and edge.depth == 1
    assert len(list(innermost(MASKED))) == 2


def test_of_loops_that_do_different_things_the_slower_one_is_hot() -> None:
    """The sum, one element after the other, and not the product in lanes behind it."""
    loop = hottest(CHAIN + ADDED.replace("vaddps", "vmulps"))
    assert loop is not None and loop.function == "total" and loop.lanes == 1 and loop.chains == (1,)


def test_what_no_iteration_waits_for_is_no_sum() -> None:
    found = of_code(ADDED, "memory", 0.2)
    assert found is not None and found.kind == "instructions" and "16 elements at a time" in found.why


def test_a_sum_among_much_other_work_is_not_waited_for() -> None:
    more = "".join(f"\tvmulps\t%ymm{n}, %ymm{n}, %ymm{n + 8}\n" for n in range(1, 8)) * 3
    busy = of_code(f"f:\n.L1:\n{more}\tvaddps\t%ymm1, %ymm0, %ymm0\n\tjne\t.L1\n", "memory", 0.2)
    assert busy is not None and busy.kind == "instructions"


def test_instructions_are_told_apart_by_kind() -> None:
    loop = hottest(LANES_AND_REST)
    assert loop is not None
    assert loop.kinds == {"floats": 2, "loads": 2, "addresses": 1, "branches": 1}
    spilled = hottest(SPILLED)
    assert spilled is not None and spilled.kinds["stack"] == 2 and sum(spilled.kinds.values()) == len(spilled.code)


ROWS = """
kernel rows(N, M)
in  x: f32[N, M]
in  y: f32[N, M]
out s: f32[N]
N
| s[{0}] = 0
| M
| | s[{0}] += x[{0}, {1}] * y[{0}, {1}]
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the code of x86")
def test_a_kernel_and_its_version_with_lanes_have_cards_of_their_own() -> None:
    kernel = dojoir.parse(ROWS)
    lanes = dojoir.apply(kernel, "vectorize(0.1)")
    loops = [hottest(dojoir.emit(one, "asm")) for one in (kernel, lanes)]
    assert all(loop is not None for loop in loops)
    assert [loop.lanes > 1 for loop in loops if loop is not None] == [False, True]
    cards = [of_code(dojoir.emit(one, "asm"), "memory", 0.2) for one in (kernel, lanes)]
    assert cards[0] is not None and cards[1] is not None and cards[0] != cards[1]


def measured(
    kernel: dojoir.Kernel, seconds: float, threads: int = 1, target: str = "llvm", **sizes: int
) -> Measurement:
    return Measurement(
        kernel.name, target, sizes, threads, True, (seconds,) * 9, 0.95, 1, 1, 1e9, 1e9
    )  # fmt: skip


def test_what_the_sizes_say_comes_before_the_code() -> None:
    shared = dojoir.apply(dojoir.parse(ROWS), "parallelize(0)")
    small = dojoir.bottleneck(shared, measured(shared, 4e-6, 4, N=64, M=4))
    assert small is not None and small.kind == "overhead"
    uneven = dojoir.bottleneck(shared, measured(shared, 1e-3, 4, N=5, M=100_000))
    assert uneven is not None and uneven.kind == "imbalance" and "one has 2" in uneven.why
    even = dojoir.bottleneck(shared, measured(shared, 1e-3, 4, N=400, M=1000))
    assert even is None or even.kind not in ("overhead", "imbalance")
    bound = dojoir.apply(dojoir.parse(ROWS), "bind(0, gx)")
    few = dojoir.bottleneck(bound, measured(bound, 1e-3, 1, "cuda", N=5, M=100_000))
    assert few is not None and few.kind == "occupancy" and few.moves
