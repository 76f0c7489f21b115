"""Kernels in versions for sizes: what the checker says of what stands under a guard on sizes."""

from __future__ import annotations

from random import Random

import pytest
import walks
from in_versions import in_versions

import dojoir
from dojoir.ir.nodes import Kernel
from dojoir.proof.under_sizes import out_of_guard, versions_of

HEAD = "kernel f(N, M)\nin  x: f32[N, M]\nout y: f32[N, M]\ntmp t: f32[N, M]\ntmp u: f32[N, M]\n\n"

BODY = """| N
| | M
| | | {0}[{{0}}, {{1}}] = 2 * x[{{0}}, {{1}}]
| | | y[{{0}}, {{1}}] = {0}[{{0}}, {{1}}] + 1
"""

OTHERS = "if 5*((N - 1) // 4) + 4 - N >= 1\n"


def in_two(first: str = "N == 4", temporary: str = "u", others: str = OTHERS) -> Kernel:
    return dojoir.parse(f"{HEAD}if {first}\n{BODY.format('t')}{others}{BODY.format(temporary)}")


@pytest.mark.parametrize("block", range(5))
def test_walks_keep_the_meaning(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As walks on other kernels: each move is held against runs, some against the core."""
    plain, made = walks.start_kernel, 0

    def start(random: Random, small: float = 0.0) -> tuple[Kernel, bool]:
        kernel, exact = plain(random, small)
        return in_versions(kernel, random), exact

    monkeypatch.setattr(walks, "start_kernel", start)
    for number in range(12):
        result = walks.walk(Random(f"versions {block} {number}"), steps=1 + number % 6, small=1.0)
        assert not result.failures, "\n\n".join(f.what + "\n" + f.text() for f in result.failures)
        made += result.counts["moves"]
    assert made > 15


def test_each_version_is_a_kernel_for_its_sizes() -> None:
    found = versions_of(in_two())
    assert found is not None
    first, second = found
    assert first.runtime_sizes == ("M",) and [b.name for b in first.buffers] == ["x", "y", "t"]
    assert second.runtime_sizes == ("N", "M") and len(second.facts) == 1
    for one in (in_two(), first, second):
        dojoir.prove(one)


@pytest.mark.parametrize(
    "kernel",
    [
        in_two(temporary="t"),  # who uses a temporary matters for marks
        in_two(others="if 5*((N - 1) // 4) + 4 - N >= 2\n"),  # at N = 3 neither runs
        in_two(first="N == 4 and M == 3"),
        dojoir.parse(f"{HEAD}if N == 4\n{BODY.format('t')}N\n| M\n| | y[{{0}}, {{1}}] = 2\n"),
    ],
)
def test_others_are_asked_as_a_whole(kernel: Kernel) -> None:
    assert versions_of(kernel) is None


def test_at_sizes_without_a_version_nothing_is_written() -> None:
    with pytest.raises(dojoir.KernelError, match="y"):
        dojoir.prove(in_two(others="if 5*((N - 1) // 4) + 4 - N >= 2\n"))


@pytest.mark.parametrize("use", ["t[0] = 1", "y[0, 0] = 1"])
def test_a_dimension_has_elements_at_all_sizes(use: str) -> None:
    """Storage is made for all versions, and not at the sizes of the one that uses it alone."""
    body = "N\n| M\n| | y[{0}, {1}] = x[{0}, {1}]\n".replace("\n", "\n| ").rstrip("| ")
    text = f"{HEAD.replace('t: f32[N, M]', 't: f32[N - 3]')}if N == 4\n| {use}\n| {body}{OTHERS}| {body}"
    kernel = dojoir.parse(text)
    with pytest.raises(dojoir.KernelError, match="t"):
        dojoir.prove(kernel)


def test_a_scope_is_independent_at_the_sizes_of_its_version_alone() -> None:
    """With N = 1 there is nothing that two iterations could share; with the others there is."""
    text = "kernel f(N)\ninout y: f32[N]\n\nif N {0} 1\n| N @i\n| | y[0] = {{0}}\n"
    assert dojoir.check(dojoir.parse(text.format("==")), "parallelize(@i)").status == "legal"
    assert dojoir.check(dojoir.parse(text.format(">=")), "parallelize(@i)").status == "illegal"
    assert dojoir.check(dojoir.parse(text.format("<=")), "parallelize(@i)").status == "legal"


def test_what_is_out_of_a_guard_has_its_numbers() -> None:
    out = out_of_guard(in_two(), (0, 0, 0))
    assert out is not None and out.exact and out.path == (0, 0)
    assert str(out.kernel).count("4\n") == 1 and "if N == 4" not in str(out.kernel)
    out = out_of_guard(in_two(), (1, 0))
    assert out is not None and not out.exact and out.path == (1,)
    assert out_of_guard(in_two(), (1,)) is None
