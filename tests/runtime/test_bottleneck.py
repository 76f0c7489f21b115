"""What bounds a kernel, read off its machine code and the ceilings."""

from __future__ import annotations

import platform

import pytest

import dojoir
from dojoir.runtime.measurement.bottleneck import of_code

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
    from dojoir.cli.bounds import bound_lines, legal_moves

    kernel = dojoir.parse("kernel total(N)\nin  x: f32[N]\nout s: f32\n\ns = 0\nN\n| s += x[{0}]\n")
    found = of_code(CHAIN, "memory", 0.2)
    assert found is not None
    moves = legal_moves(kernel, found, "llvm")
    assert moves and all(dojoir.check(kernel, move) for move in moves)
    assert any(move.startswith("vectorize(") for move in moves)
    text = bound_lines(found, moves)
    assert "latency" in text and "legal moves" in text and max(map(len, text.splitlines())) <= 80
