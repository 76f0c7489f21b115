"""Dimensions that would share their storage: what is refused without isl, beside what the core says."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

import dojoir
from dojoir.ir.nodes import Kernel
from dojoir.proof.certificate import identity
from dojoir.proof.check import compare, prove_by_core
from dojoir.proof.refute.first_iteration import shares_too_much

HEAD = "kernel f(N, M)\nwhere {where}\nin x: f32[N, M]\ninout a: f32[N, M]\ntmp t: f32[{dims}]\n"


def kernel_of(body: str, dims: str, where: str) -> Kernel:
    kernel = dojoir.parse(HEAD.format(where=where, dims=dims) + body)
    dojoir.prove(kernel)
    return kernel


def collapsed(kernel: Kernel, dim: int) -> Kernel:
    buffer = kernel.buffer("t")
    dims = tuple(replace(d, collapsed=d.collapsed or n == dim) for n, d in enumerate(buffer.dims))
    return kernel.replace_buffer(replace(buffer, dims=dims))


BLOCKS = "N\n| t[{0} // 4, {0} % 4] = x[{0}, 0]\nN\n| a[{0}, 0] = 2 * t[{0} // 4, {0} % 4]"
ROWS = "N\n| M\n| | t[{0}, {1}] = 2 * x[{0}, {1}]\n| M\n| | a[{0}, {1}] = 2 * t[{0}, {1}]"


@pytest.mark.parametrize(
    ("body", "dims", "where", "dim", "seen"),
    [
        (BLOCKS, "(N + 3) // 4, 4", "N >= 1", 0, True),
        (BLOCKS, "(N + 3) // 4, 4", "N >= 1", 1, True),
        (BLOCKS, "(N + 3) // 4, 4", "N <= 4", 0, False),  # legal: there is one block
        (BLOCKS, "(N + 3) // 4, 4", "N <= 4", 1, True),
        ("N\n| t[{0} // 2, {0} % 2] = x[{0}, 0]\na[0, 0] = t[0, 1]", "N, 2", "N == 3", 0, False),  # legal
        ("N\n| t[{0} // 2, {0} % 2] = x[{0}, 0]\na[0, 0] = t[0, 1]", "N, 2", "N == 5", 0, True),
        ("N\n| t[{0} // 2, {0} % 2] = x[{0}, 0]\na[0, 0] = t[0, 1]", "N, 2", "N == 5", 1, False),
        (
            "N\n| M\n| | t[{0} + {1}, {0}] = x[{0}, {1}]\nN\n| a[{0}, 0] = t[{0}, {0}]",
            "N + M, N",
            "N >= 1",
            0,
            False,
        ),
        (ROWS, "N, M", "N >= 1", 0, False),  # legal
        (ROWS, "N, M", "N >= 1", 1, True),
        ("N\n| t[N - 1 - {0}] = x[{0}, 0]\na[0, 0] = t[0]", "N", "N >= 1", 0, False),  # the last one is read
        ("N\n| t[{0}] = x[{0}, 0]\na[0, 0] = t[N - 1]", "N", "N >= 1", 0, False),
        ("N\n| t[{0}] = x[{0}, 0]\na[0, 0] = t[0]", "N", "N >= 1", 0, True),
        ("0\n| t[{0}] = 2 * t[{0}]\na[0, 0] = 1", "N", "N >= 1", 0, False),  # legal
    ],
)
def test_what_is_written_over_is_seen(body: str, dims: str, where: str, dim: int, seen: bool) -> None:
    kernel = kernel_of(body, dims, where)
    after = collapsed(kernel, dim)
    assert shares_too_much(kernel, after) == seen
    verdict = prove_by_core(kernel, after, identity(kernel))
    assert not (seen and verdict), str(verdict)
    assert verdict.status == compare(kernel, after, identity(kernel)).status


INDICES = ("{0}", "{0} // 2", "{0} % 2", "{0} // 3", "{0} % 3", "N - 1 - {0}", "0", "{1}", "{1} // 2", "{1} % 2")


@pytest.mark.parametrize("seed", range(3))
def test_the_core_refuses_what_is_seen(seed: int) -> None:
    random, said = Random(f"collapsed {seed}"), {True: 0, False: 0}
    for _ in range(60):
        chosen = random.sample(INDICES, 2)
        read = random.choice((chosen, chosen, ["0", "0"], ["0", "1"], chosen[::-1]))
        body = f"N\n| M\n| | t[{', '.join(chosen)}] = 2 * x[{{0}}, {{1}}]\n"
        body += f"N\n| M\n| | a[{{0}}, {{1}}] = 2 * t[{', '.join(read)}]"
        kernel = dojoir.parse(HEAD.format(where=f"N <= {random.choice((2, 3, 9))}", dims="N + 1, N + M + 1") + body)
        try:
            dojoir.prove(kernel)
        except dojoir.KernelError:
            continue
        for dim, other in product(range(2), (False, True)):
            start = collapsed(kernel, 1 - dim) if other else kernel
            if other and not compare(kernel, start, identity(kernel)):
                continue
            after = collapsed(start, dim)
            seen = shares_too_much(start, after)
            said[seen] += 1
            assert not (seen and prove_by_core(start, after, identity(start))), f"{start}\n{after}"
    assert min(said.values()) > 5, said
