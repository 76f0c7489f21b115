"""Shared memory with chunks exchanged: right on the harness in each type and row, and where matrix units look."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gpu_compile import nvrtc_error
from on_harness import run

import dojoir
from dojoir.codegen.emission import gpu_program
from dojoir.ir.buffer_rules import SWIZZLES

TYPES = ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "u8", "f8e4m3")
TURNED = """kernel turned()
in  x: {dtype}[{rows}, {columns}]
out y: {dtype}[{columns}, {rows}]
inout n: i32[4]
tmp t: {dtype}[{rows}, {columns}] shared swizzle({row})

1 : gx
| {rows} : bx
| | {columns}
| | | t[{{1}}, {{2}}] = x[{{1}}, {{2}}]
| {rows} : bx
| | {columns}
| | | y[{{2}}, {{1}}] = t[{{1}}, {{2}}]
"""


def turned(dtype: str, row: int, shape: tuple[int, int], lanes: int = 1) -> dojoir.Kernel:
    rows, columns = shape
    text = TURNED.format(dtype=dtype, row=row, rows=rows, columns=columns).replace("inout n: i32[4]\n", "")
    trace = dojoir.Trace(dojoir.parse(text))
    if lanes > 1:
        for nest in ("0.0.0", "0.1.0"):
            trace.apply(f"split({nest}, {lanes})")
            trace.apply(f"vectorize({nest}.0)")
    return trace.kernel


CASES = [(dtype, SWIZZLES[n % 3], ((24, 64), 4) if n % 2 else ((7, 37), 1)) for n, dtype in enumerate(TYPES)]
CASES += [("f16", row, of) for row in SWIZZLES for of in (((24, 64), 4), ((7, 37), 1))]


@pytest.mark.parametrize(("dtype", "row", "of"), CASES)
def test_what_is_written_is_read_again(dtype: str, row: int, of: tuple[tuple[int, int], int]) -> None:
    shape, lanes = of
    kernel = turned(dtype, row, shape, lanes)
    size = kernel.buffer("x").dtype.itemsize
    bits = np.random.default_rng(0).integers(0, 2 ** (8 * size - 2), shape, dtype=f"u{size}")
    given = {"x": bits.view(kernel.buffer("x").dtype.stored)}
    out = run(kernel, given, {})["y"]
    assert np.array_equal(out.view(f"u{size}").reshape(shape[::-1]), bits.T)
    text = dojoir.emit(kernel, "cuda")
    assert f"swizzled{row}<{size}>(" in text
    assert not nvrtc_error(text, "sm_90")


def test_chunks_lie_where_matrix_units_look_for_them() -> None:
    """Of rows of 128 bytes chunk q of row r lies at q ^ r % 8."""
    kernel = turned("u8", 128, (16, 128))
    program = gpu_program(kernel, "cuda")
    (helper,) = re.findall(r"return \(int\)\((n \^ .*)\);", program.source)
    for n in range(16 * 128):
        row, chunk = n // 128, n // 16 % 8
        found = eval(helper.replace("/", "//"), {"n": n, "BYTES": 1})
        assert found == row * 128 + (chunk ^ row % 8) * 16 + n % 16


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("f32[64, 32] shared swizzle(48)", "32, 64, 128"),
        ("f32[64, 32] swizzle(128)", "is in heap"),
        ("f32[64, 32] shared swizzle", "as in swizzle(128)"),
        ("f4e2m1[64, 64] shared packed swizzle(128)", "is packed"),
    ],
)
def test_what_cannot_be_exchanged_is_told(declared: str, said: str) -> None:
    text = dojoir.to_text(turned("f32", 128, (64, 32))).replace("f32[64, 32] shared swizzle(128)", declared)
    with pytest.raises(dojoir.DojoError, match=re.escape(said)):
        dojoir.parse(text)


def test_a_move_puts_them_where_they_were() -> None:
    kernel = turned("f32", 128, (64, 32))
    trace = dojoir.Trace(kernel)
    for row in (64, 0):
        trace.apply(f"swizzle(t, {row})")
    assert "swizzle" not in dojoir.to_text(trace.kernel)
    trace.undo()
    trace.undo()
    assert trace.kernel == kernel
    assert dojoir.check(kernel, "place(t, heap)").code == "swizzled"
    assert dojoir.check(kernel, "swizzle(t, 128)").code == "no-change"


def test_a_block_has_room_for_whole_rows() -> None:
    """Chunks of the last rows go beyond the last element: memory is that of whole blocks of rows."""
    text = dojoir.emit(turned("f32", 128, (7, 37)), "cuda")
    (count,) = re.findall(r"float t\[(\d+)\]", text)
    assert int(count) * 4 % 1024 == 0


def test_arrays_lie_without_gaps_in_what_a_block_has() -> None:
    """Those of which chunks are exchanged begin at whole blocks of rows: small ones lie behind them."""
    sizes = [(f"s{n}", 16, "") for n in range(28)]
    sizes += [(f"t{n}", 1024 * (1 if n else 199), " swizzle(128)") for n in range(28)]
    sizes.sort(key=lambda one: int(one[0][1:]))
    declared = "".join(f"tmp {name}: u8[{size}] shared{how}\n" for name, size, how in sizes)
    fills = "".join(f"| {min(size, 1024)} : bx\n| | {name}[{{1}}] = x[{{1}}]\n" for name, size, _ in sizes)
    read = " + ".join(f"{name}[{{1}} % 16]" for name, *_ in sizes)
    head = "kernel full()\nin  x: u8[1024]\nout y: u8[1024]\n"
    text = dojoir.emit(
        dojoir.parse(f"{head}{declared}\n1 : gx\n{fills}| 1024 : bx\n| | y[{{1}}] = {read}\n"), "cuda"
    )
    offsets = [int(n) for n in re.findall(r"block_memory \+ (\d+)", text)]
    assert len(offsets) == len(sizes)
    assert max(offsets) + 16 == sum(size for _, size, _ in sizes)
