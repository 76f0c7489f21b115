"""Indices of 32 bits where no number needs more, else of 64: by the text alone, or by the sizes of a call."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest
from fake_gpu import FakeDriver
from gpu_kernels import ALL, MATMUL, RELU
from on_harness import run
from test_gpu_runs import SIZES

import dojoir
from dojoir.codegen.emission import gpu_program
from dojoir.codegen.gpu.program import GpuProgram
from dojoir.codegen.lir.ranges import loop_ranges
from dojoir.runtime.gpu import devices
from dojoir.runtime.gpu.plan import HostCode

FAR = """kernel far(T)
in  x: i32[60]
out y: i32[60]

1 : gx
| 60 : bx
| | y[{1}] = x[(1000*T + {1}) % 60]
"""
LAST = (2**31 - 1 - 59) // 1000
"""The largest T at which 1000*T + 59 is a number of 32 bits."""


def kernels_of(program: GpuProgram) -> str:
    """What runs on the device."""
    text = program.source
    return text[text.index('extern "C" __global__') : text.index("#if !defined")]


def test_a_text_with_constant_sizes_counts_in_32_bits() -> None:
    program = gpu_program(dojoir.parse(MATMUL), "cuda")
    assert "i64" not in kernels_of(program)
    assert "const int i3 = (int)threadIdx.x / 16;" in program.source
    assert program.shortened is program


def test_a_text_with_open_sizes_counts_in_64_bits_and_has_a_short_form() -> None:
    program = gpu_program(dojoir.parse(RELU), "cuda")
    assert "const i64 i2 = threadIdx.x;" in program.source and "i64 M" in kernels_of(program)
    assert "i64" not in kernels_of(program.shortened) and "int M" in kernels_of(program.shortened)
    host = program.source[program.source.index("#if !defined") :]
    assert "int run_relu(const float *x, float *y, i64 N, i64 M" in host


@pytest.mark.parametrize(
    ("sizes", "fits"),
    [
        ({"N": 1, "M": 2**31 - 1024}, True),
        ({"N": 1, "M": 2**31 + 1024}, False),
        ({"N": 2**15, "M": 2**16 - 512}, True),
        ({"N": 2**15, "M": 2**16 + 1}, False),
        ({"N": 32768, "M": 512}, True),
        ({"N": 3, "M": 2**30}, False),
    ],
)
def test_both_sides_of_the_limit(sizes: Mapping[str, int], fits: bool) -> None:
    program = gpu_program(dojoir.parse(RELU), "cuda")
    elements = program.elements(program.program.arguments[0], sizes)
    assert program.shortened.fits(sizes) == HostCode(program).is_short(sizes) == fits
    assert fits <= (elements <= 2**31)


def test_what_is_right_for_larger_sizes_is_known_to_be_right() -> None:
    host = HostCode(gpu_program(dojoir.parse(RELU), "cuda"))
    assert host.is_short({"N": 1000, "M": 1000})
    assert list(host._fitting) == [(1024, 1024)]
    assert host.is_short({"N": 1000, "M": 1024}) and host.is_short({"N": 7, "M": 3})
    assert list(host._fitting) == [(1024, 1024)]
    assert not host.is_short({"N": 2**20, "M": 2**20})


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize(("steps", "short"), [(LAST, True), (LAST + 1, False)])
def test_no_number_ever_wraps(target: str, steps: int, short: bool) -> None:
    """The call chooses: the short form would read another element beyond the limit, as it is run here too."""
    kernel, x = dojoir.parse(FAR), np.arange(60, dtype=np.int32)
    program = gpu_program(kernel, target)
    assert program.shortened.fits({"T": steps}) == short
    expected = dojoir.interpret(kernel, {"x": x}, T=steps)["y"]
    compiled = dojoir.compile(kernel, target, emulated=True)
    np.testing.assert_array_equal(compiled.run({"x": x}, T=steps)["y"], expected)
    alone = run(kernel, {"x": x}, {"T": steps}, target, program=program)["y"]
    np.testing.assert_array_equal(alone, expected)


def test_a_gpu_is_given_the_version_that_the_sizes_let_it(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver("cuda")
    monkeypatch.setattr(devices, "find", lambda target: driver)
    kernel, x = dojoir.parse(FAR), np.arange(60, dtype=np.int32)
    compiled = dojoir.compile(kernel, "cuda")
    built = driver.log.count("compile for sm_90")
    for steps, versions in ((3, 1), (LAST, 1), (LAST + 1, 2), (LAST + 2, 2), (5, 2)):
        found = compiled.run({"x": x}, T=steps)["y"]
        np.testing.assert_array_equal(found, dojoir.interpret(kernel, {"x": x}, T=steps)["y"])
        assert driver.log.count("compile for sm_90") == built + versions - 1


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_short_forms_give_the_same(name: str, target: str) -> None:
    kernel, sizes = dojoir.parse(ALL[name]), SIZES.get(name, {})
    program = gpu_program(kernel, target)
    random = np.random.default_rng(3)
    given = {
        b.name: random.integers(-4, 5, [dim.extent.evaluate(sizes) for dim in b.dims]).astype(b.dtype.stored)
        for b in kernel.arguments
        if b.role != "out"
    }
    assert program.shortened.fits(sizes) and "i64" not in kernels_of(program.shortened)
    expected = run(kernel, given, sizes, program=program)
    for array, values in run(kernel, given, sizes, program=program.shortened).items():
        np.testing.assert_array_equal(values, expected[array])


def test_data_of_64_bits_keeps_its_bits() -> None:
    text = "kernel f()\nin x: i64[64]\nout y: i64[64]\n\n64 : bx\n| y[{0}] = x[{0}] * 3 + {0}\n"
    kernel, x = dojoir.parse(text), np.arange(64, dtype=np.int64) * 2**40
    program = gpu_program(kernel, "cuda").shortened
    assert re.search(r"const i64 i0", program.source)
    np.testing.assert_array_equal(run(kernel, {"x": x}, {}, program=program)["y"], x * 3 + np.arange(64))


def test_what_shares_a_name_shares_a_range() -> None:
    """Blocks side by side name several variables alike: none may be held to what another can be."""
    known = loop_ranges(gpu_program(dojoir.parse(MATMUL), "cuda").program)
    assert known["i3"] == (0, 1023)
