"""Wide accesses: neighbours that one access of a thread moves, where their address is seen to be aligned."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gpu_kernels import SOFTMAX
from on_harness import run

import dojoir
from dojoir.codegen.emission import gpu_program

ADD = """kernel add(N, M)
where M % 4 == 0
inout x: f32[N, M]
in    w: f32[M]
in    b: i32[N]
out   y: f32[N, M]

N : gx
| (M // 4 + 31) // 32
| | min(32, M // 4 - 32*{1}) : bx
| | | 4 : v
| | | | x[{0}, 128*{1} + 4*{2} + {3}] += w[128*{1} + 4*{2} + {3}] * f32(b[{0}])
| | | | y[{0}, 128*{1} + 4*{2} + {3}] = x[{0}, 128*{1} + 4*{2} + {3}] + 1
"""


def test_a_row_is_read_and_written_by_sixteen_bytes() -> None:
    program = gpu_program(dojoir.parse(SOFTMAX), "cuda")
    assert program.source.count("const float4 x4 = *((const float4 *)&x[") == 1
    assert program.source.count("*(float4 *)&y[") == 1
    assert program.wide == {"x": 16, "y": 16}


def test_what_is_stored_first_is_the_value_of_what_reads_it() -> None:
    text = dojoir.emit(dojoir.parse(ADD), "cuda")
    assert "float4 w4 =" in text
    assert "*(float4 *)&x[" in text and "*(float4 *)&y[" in text
    assert len(re.findall(r"= x_[0-3] \+ 1.0f;", text)) == 4


def test_what_reads_another_element_than_is_stored_reads_memory() -> None:
    other = ADD.replace("x: f32[N, M]", "x: f32[N, 2*M]").replace("= x[{0}, ", "= x[{0}, M + ")
    kernel = dojoir.parse(other)
    text = dojoir.emit(kernel, "cuda")
    assert "*(float4 *)&x[" not in text and "*(float4 *)&y[" in text
    random = np.random.default_rng(0)
    given = {name: random.uniform(-1, 1, shape).astype("f4") for name, shape in (("x", (2, 256)), ("w", 128))}
    given["b"] = random.integers(-4, 4, 2).astype("i4")
    found = run(kernel, given, {"N": 2, "M": 128})
    assert np.array_equal(found["y"].reshape(2, 128), given["x"][:, 128:] + np.float32(1))


@pytest.mark.parametrize("change", [("where M % 4 == 0", "where M % 2 == 0"), ("where M % 4 == 0", "where M >= 4")])
def test_without_the_fact_accesses_are_narrower(change: tuple[str, str]) -> None:
    text = dojoir.emit(dojoir.parse(ADD.replace(*change)), "cuda")
    assert "float4 *)&y[" not in text
    assert ("float2 *)&y[" in text) == ("% 2" in change[1])


def test_without_alignment_accesses_are_of_one_element() -> None:
    program = gpu_program(dojoir.parse(ADD), "cuda", wide=False)
    assert not program.wide
    assert not re.search(r"float[24]", program.source)


@pytest.mark.parametrize("wide", [True, False])
def test_wide_accesses_do_the_same(wide: bool) -> None:
    kernel, sizes = dojoir.parse(ADD), {"N": 3, "M": 148}
    random = np.random.default_rng(0)
    given = {
        "x": random.uniform(-1, 1, (3, 148)).astype("f4"),
        "w": random.uniform(-1, 1, 148).astype("f4"),
        "b": random.integers(-4, 4, 3).astype("i4"),
    }
    expected = dojoir.interpret(kernel, given, **sizes)
    for target in ("cuda", "hip"):
        found = run(kernel, given, sizes, target, program=gpu_program(kernel, target, wide=wide))
        for name, array in found.items():
            np.testing.assert_allclose(array, expected[name], rtol=1e-6)


NARROW = """kernel narrow(N)
where N % 16 == 0
in  x: bf16[N]
in  a: i8[N]
in  b: u8[N]
out y: bf16[N]
out c: i8[N]
out d: u8[N]

(N // 16 + 31) // 32 : gx
| min(32, N // 16 - 32*{0}) : bx
| | 16 : v
| | | y[512*{0} + 16*{1} + {2}] = x[512*{0} + 16*{1} + {2}] * bf16(2)
| | | c[512*{0} + 16*{1} + {2}] = max(a[512*{0} + 16*{1} + {2}], i8(-3))
| | | d[512*{0} + 16*{1} + {2}] = b[512*{0} + 16*{1} + {2}] ^ u8(129)
"""


@pytest.mark.parametrize(("target", "word"), [("cuda", "uint4"), ("hip", "u32x4")])
def test_narrow_numbers_are_moved_by_sixteen_bytes(target: str, word: str) -> None:
    """As words, of which each element is a part: C++ has no types of eight or sixteen."""
    kernel, sizes = dojoir.parse(NARROW), {"N": 48}
    program = gpu_program(kernel, target)
    assert program.wide == dict.fromkeys("xabycd", 16)
    assert len(re.findall(rf"= \*\(\(const {word} \*\)&", program.source)) == 4  # x twice
    random = np.random.default_rng(0)
    given = {
        "x": (random.integers(0, 1 << 16, 48) & 0xBFFF).astype("u2"),
        "a": random.integers(-128, 128, 48).astype("i1"),
        "b": random.integers(0, 256, 48).astype("u1"),
    }
    expected = dojoir.interpret(kernel, given, **sizes)
    for name, array in run(kernel, given, sizes, target).items():
        np.testing.assert_array_equal(array, expected[name].view(array.dtype), err_msg=name)


def test_a_row_of_bf16_is_moved_by_sixteen_bytes() -> None:
    text = (
        "kernel f(N, M)\nin x: bf16[N, M]\nout y: bf16[N, M]\n\nN\n| M\n| | y[{0}, {1}] = x[{0}, {1}] * bf16(2)\n"
    )
    trace = dojoir.Trace(dojoir.parse(text).specialize(M=4096))
    (rows,) = dojoir.parse_pipeline("block_rows(0, 512)")
    assert isinstance(rows, dojoir.passes.Pass)
    rows(trace)
    assert gpu_program(trace.kernel, "cuda").wide == {"x": 16, "y": 16}


PAIRS = """kernel pairs(M)
in    x: f32[M, 128]
in    rows: i32[M]
inout y: f32[M, 128]
inout q: f4e2m1[M, 64] packed

M : gx
| 4 : bx
| | 8 : v
| | | y[{0}, 32*{1} + 4*{2}] = x[{0}, 32*{1} + 4*{2}] * 2 - x[{0}, 32*{1} + 4*{2} + 1] * x[{0}, 32*{1} + 4*{2} + 2]
| | | y[{0}, 32*{1} + 4*{2} + 1] = x[{0}, 32*{1} + 4*{2} + 3] + x[{0}, 32*{1} + 4*{2}]
| | | y[{0}, 32*{1} + 4*{2} + 2] = x[{0}, 32*{1} + 4*{2} + 3]
| | | y[{0}, 32*{1} + 4*{2} + 3] = x[{0}, 32*{1} + 4*{2} + 3] if {0} < i64(rows[0])
| | 8 : v
| | | 2 : u
| | | | q[{0}, 16*{1} + 2*{2} + {3}] = sat(f4e2m1, x[{0}, 32*{1} + 2*{2} + {3}] + x[0, 16]) if {0} < i64(rows[0])
"""


def test_iterations_that_take_several_neighbours_share_wide_loads_and_a_condition() -> None:
    text = dojoir.emit(dojoir.parse(PAIRS), "cuda")
    assert text.count("const float4 x4") >= 8
    assert text.count("*(uint2 *)&q[") == 1
    assert text.count("(i64)rows[0]") == 9  # eight under conditions of their own, one around the wide store


@pytest.mark.parametrize("rows", [0, 2, 9])
def test_pairs_in_wide_accesses_are_what_the_text_says(rows: int) -> None:
    kernel, sizes = dojoir.parse(PAIRS), {"M": 3}
    random = np.random.default_rng(1)
    given = {
        "x": (4 * random.uniform(-1, 1, (3, 128))).astype("f4"),
        "y": random.uniform(-1, 1, (3, 128)).astype("f4"),
        "rows": np.full(3, rows, "i4"),
        "q": random.integers(0, 256, (3, 32)).astype("u1"),
    }
    expected = dojoir.interpret(kernel, given, **sizes)
    for target in ("cuda", "hip"):
        found = run(kernel, given, sizes, target, program=gpu_program(kernel, target))
        for name, array in found.items():
            np.testing.assert_array_equal(array, expected[name])
