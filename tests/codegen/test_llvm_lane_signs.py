"""Signs of lanes in registers above the 15th, which one instruction that LLVM 22 puts in has not."""

from __future__ import annotations

from random import Random

import pytest
from agreement import agree, random_arguments

import dojoir
from dojoir.runtime.build.llvm_engine import host
from dojoir.runtime.build.llvm_lane_signs import is_wrong, takes_signs

HIGH = pytest.mark.skipif(
    not (host().triple.startswith("x86_64") and host().has("avx512vl") and host().has("avx512dq")),
    reason="registers above the 15th are those of AVX-512",
)
SMALLEST = """kernel made(N)
where N >= 2, N <= 2147483649, N // 2 <= 2147483649, N // 2 <= 2147483648
in  x0: f8e8m0[N - 1]
in  ids0: u32[N - 1]
out m0: f32[N - 1, 1]
tmp m0_at0: i64[N - 1, 1]
tmp m0_at0_: i64[N - 1, 1]
N - 1
| N - 1
| | if 4*{0} + 1 < 1
| | | m0_at0[N - {0} - 2, {0}] min= argmin_key(f32(max(16*{0}, x0[N - {0} - 2])), {1})
| m0_at0_[N - {0} - 2, 0] = argmin_key(f32(floor(N - {0} - 2)), -1)
| N // 2 : v
| | m0_at0_[N - {0} - 2, 0] min= argmin_key(f32(x0[ids0[{0}]] - x0[N - {0} - 2]), -{1})
| | m0_at0_[N - {0} - 2, 0] min= argmin_key(f32(round(x0[N - {0} - 2])), {1})
| m0[N - {0} - 2, 0] = value_of(f32, m0_at0_[N - {0} - 2, 0])
"""
"""The signs of two codes beside each other are taken by lane, where the lanes of the loop need many registers."""


@HIGH
@pytest.mark.parametrize("size", [5, 8, 9])
def test_the_sign_is_that_of_the_lane(size: int) -> None:
    kernel = dojoir.parse(SMALLEST)
    compiled = dojoir.compile(kernel, "llvm", threads=1)
    for seed in range(4):
        arguments = random_arguments(kernel, {"N": size}, Random(seed))
        expected = dojoir.interpret(kernel, arguments, N=size)
        assert agree(kernel, expected, compiled.run(arguments, N=size), exact=True) is None


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("\tvmovmskps\t%xmm15, %eax\n", False),
        ("\tvmovmskps\t%xmm17, %r9d\n", True),
        ("\tvmovmskpd\t%ymm16, %eax\n", True),
        ("\tvpmovmskb\t%ymm31, %eax\n", True),
        ("\tvmovmskps\t%xmm1, %eax\n\tkshiftrb\t$1, %k0, %k0\n", True),
        ("\tvmovmskps\t%xmm1, %eax\n\tkshiftrb\t$1, %k0, %k1\n\tkshiftrb\t$1, %k0, %k0\n", False),
        ("\tvmovmskps\t%xmm1, %eax\n\tvpcmpgtd\t%zmm1, %zmm0, %k1 {%k1}\n", True),
        ("\tvmovmskps\t%xmm1, %eax\n\tkxorw\t%k0, %k0, %k0\n", True),
        ("\tvmovmskps\t%xmm1, %eax\n.LBB0_1:\n\tkshiftrb\t$1, %k0, %k0\n", False),
        ("\tkshiftrb\t$1, %k0, %k0\n\tvmovmskps\t%xmm1, %eax\n", False),
        ("\tvpmovd2m\t%xmm17, %k0\n\tkmovd\t%k0, %eax\n", False),
    ],
)
def test_what_is_wrong_is_seen_in_the_text(code: str, wrong: bool) -> None:
    assert is_wrong(f"f:\n{code}\tretq\n") == wrong


@pytest.mark.parametrize(
    "code",
    ["c5f850c1", "c5fc50c1", "c5f950c1", "c57850c1", "c5fdd7c9", "c4c17850c1", "c4c17dd7c7"],
)
def test_no_such_instruction_is_passed_over(code: str) -> None:
    """Two and three bytes of prefix, registers below and above the seventh."""
    assert takes_signs("x86_64-unknown-linux-gnu", b"\x90" + bytes.fromhex(code) + b"\xc3")
    assert not takes_signs("aarch64-unknown-linux-gnu", bytes.fromhex(code))
    assert not takes_signs("x86_64-unknown-linux-gnu", bytes.fromhex("c5f810c1c3"))
