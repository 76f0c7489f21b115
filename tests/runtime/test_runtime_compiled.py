"""Compiled kernels: what they take, what they refuse before anything runs, and what they say when they fail."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import dojoir
from dojoir import ArgumentError, KernelError, RunError, ToolchainError
from dojoir.ir.dtypes import DTYPES
from dojoir.runtime.build import c_toolchain

SCALE = """
kernel scale(N, M)
where M >= 2
in  a: f32
in  x: f32[N, M]
out y: f32[N, M]

N
| M
| | y[{0}, {1}] = a * x[{0}, {1}]
"""

ROWS = """
kernel rows(N, V, D)
in  ids: i32[N]
in  w: f32[V, D]
out y: f32[N, D]

N @i
| D @d
| | y[{i}, {d}] = w[ids[{i}], {d}]
"""


def has_compiler() -> bool:
    try:
        c_toolchain.find()
    except ToolchainError:
        return False
    return True


TARGETS = [
    "llvm",
    pytest.param("c", marks=pytest.mark.skipif(not has_compiler(), reason="needs a C compiler")),
]


@pytest.fixture(scope="module")
def scale() -> dojoir.Compiled:
    return dojoir.compile(dojoir.parse(SCALE))


def refused(code: str, call: Callable[[], object], *words: str) -> None:
    """The call is refused with that code, and its message holds all the words."""
    with pytest.raises(ArgumentError) as caught:
        call()
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == code, diagnostic.message
    for word in words:
        assert word in diagnostic.message


def x(n: int = 3, m: int = 4) -> np.ndarray:
    return np.arange(n * m, dtype=np.float32).reshape(n, m)


# -- calls -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("target", TARGETS)
def test_in_place_and_run(target: str) -> None:
    compiled = dojoir.compile(dojoir.parse(SCALE), target)
    y = np.full((3, 4), np.nan, np.float32)
    compiled(2.0, x(), y)
    assert (y == 2 * x()).all()
    assert (compiled.run({"a": 3, "x": x()})["y"] == 3 * x()).all()
    assert compiled.target == target
    assert "scale" in compiled.source


@pytest.mark.parametrize("target", TARGETS)
def test_every_scalar_type(target: str) -> None:
    for dtype in (name for name, one in DTYPES.items() if not one.is_nibble):
        text = f"kernel copy(N)\nin a: {dtype}\nout y: {dtype}[N]\n\nN\n| y[{{0}}] = a\n"
        compiled = dojoir.compile(dojoir.parse(text), target)
        value = True if dtype == "bool" else 3
        y = compiled.run({"a": value}, N=5)["y"]
        expected = compiled.empty("y", N=5)
        expected[...] = _BITS_OF_THREE.get(dtype, value)
        assert y.tobytes() == expected.tobytes(), dtype


_BITS_OF_THREE = {"bf16": 0x4040, "f8e4m3": 0x44, "f8e5m2": 0x42, "f4e2m1": 0x5, "f8e8m0": 0x81}


@pytest.mark.parametrize("target", TARGETS)
def test_negative_and_extreme_scalars(target: str) -> None:
    for dtype, values in {
        "i8": (-128, 127),
        "i16": (-32768, 32767),
        "i32": (-(2**31), 2**31 - 1),
        "i64": (-(2**63), 2**63 - 1),
        "u8": (255,),
        "u16": (65535,),
        "u32": (2**32 - 1,),
        "u64": (2**64 - 1,),
        "f16": (-65504.0, 2.0**-24),
        "f32": (-3.4028234663852886e38, float("inf")),
    }.items():
        text = f"kernel copy()\nin a: {dtype}\nout y: {dtype}\n\ny = a\n"
        compiled = dojoir.compile(dojoir.parse(text), target)
        for value in values:
            assert compiled.run({"a": value})["y"][()] == value, (dtype, value)


def test_the_same_call_again_with_other_shapes(scale: dojoir.Compiled) -> None:
    for n, m in ((1, 2), (5, 3), (1, 2), (2, 7)):
        y = np.empty((n, m), np.float32)
        scale(2, x(n, m), y)
        assert (y == 2 * x(n, m)).all()


def test_a_bound_call_keeps_its_arrays_and_runs_again(scale: dojoir.Compiled) -> None:
    y = np.empty((3, 4), np.float32)
    call = scale.bind(2.0, x(), y)  # the temporary lives in the call
    for _ in range(3):
        y[:] = 0
        call()
        assert (y == 2 * x()).all()


def test_inout_is_copied_in_and_returned() -> None:
    text = "kernel grow(N)\ninout x: f32[N]\n\nN\n| x[{0}] += 1\n"
    compiled = dojoir.compile(dojoir.parse(text))
    given = np.arange(10, dtype=np.float32)[::2]  # any strides, since it is copied
    assert compiled.run({"x": given})["x"].tolist() == [1, 3, 5, 7, 9]
    assert given.tolist() == [0, 2, 4, 6, 8]
    own = np.zeros(3, np.float32)
    compiled(own)
    assert own.tolist() == [1, 1, 1]


def test_order_padding_and_alignment() -> None:
    text = """
kernel pack(N, M)
in  x: f32[N, M] order(1, 0) pad(3, 0) align 128
out y: f32[N, M]

N
| M
| | y[{0}, {1}] = x[{0}, {1}]
"""
    compiled = dojoir.compile(dojoir.parse(text))
    given = compiled.empty("x", N=2, M=3)
    assert given.strides == (4, 4 * 5)
    assert given.ctypes.data % 128 == 0
    given[...] = np.arange(6).reshape(2, 3)
    assert compiled.run({"x": given})["y"].tolist() == [[0, 1, 2], [3, 4, 5]]
    refused("bad-stride", lambda: compiled.run({"x": x(2, 3)}), "argument x", "order(1, 0)", "compiled.empty('x'")
    moved = np.ndarray((2, 3), np.float32, np.empty(200, np.uint8).data, 4 + 0, (4, 20))
    if moved.ctypes.data % 128:
        refused("bad-alignment", lambda: compiled.run({"x": moved}), "argument x", "128 bytes")


def test_dimensions_that_are_no_plain_sizes() -> None:
    text = """
kernel valid(N)
in  x: f32[2*N + 1]
out y: f32[N]

N
| y[{0}] = x[2*{0} + 1]
"""
    compiled = dojoir.compile(dojoir.parse(text))
    assert compiled.run({"x": np.arange(7, dtype=np.float32)})["y"].tolist() == [1, 3, 5]
    refused("size-conflict", lambda: compiled.run({"x": np.zeros(6, np.float32)}), "argument x")


def test_a_size_that_no_shape_gives() -> None:
    text = "kernel repeat(N, T)\ninout x: f32[N]\n\nT\n| N\n| | x[{1}] += 1\n"
    compiled = dojoir.compile(dojoir.parse(text))
    assert compiled.run({"x": np.zeros(2, np.float32)}, T=5)["x"].tolist() == [5, 5]
    refused("size-missing", lambda: compiled.run({"x": np.zeros(2, np.float32)}), "T", "pass T=")
    refused("bad-size", lambda: compiled.run({"x": np.zeros(2, np.float32)}, T=0), "T")
    refused("bad-size", lambda: compiled.run({"x": np.zeros(2, np.float32)}, T=True), "T")
    refused("bad-size", lambda: compiled.run({"x": np.zeros(2, np.float32)}, T=1.5), "T")
    refused("bad-size", lambda: compiled.run({"x": np.zeros(2, np.float32)}, T=np.ones(2)), "T")
    own = np.zeros(2, np.float32)
    compiled(own, T=1)
    refused("bad-size", lambda: compiled(own, T=True), "T")
    compiled(own, T=np.int32(2))
    assert own.tolist() == [3, 3]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["exp", "expf", "memset", "malloc", "free", "main", "dojo_parallel_for"])
def test_a_kernel_may_be_called_like_a_function_that_it_needs(name: str, target: str) -> None:
    text = f"""
kernel {name}(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N]

N : p
| t[{{0}}] = 0
N
| y[{{0}}] = exp(x[{{0}}]) + t[{{0}}]
"""
    compiled = dojoir.compile(dojoir.parse(text), target, threads=2)
    np.testing.assert_allclose(compiled.run({"x": np.ones(5, np.float32)})["y"], np.e, rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("threads", [1, 3])
def test_scopes_on_cores(target: str, threads: int) -> None:
    compiled = dojoir.compile(dojoir.parse(SCALE.replace("N\n|", "N : p\n|")), target, threads=threads)
    assert compiled.threads == threads
    for n in (1, 2, 50):
        assert (compiled.run({"a": 2, "x": x(n, 5)})["y"] == 2 * x(n, 5)).all()


# -- refusals ----------------------------------------------------------------------------------------------
@dataclass
class Elsewhere:
    """An array on another device."""

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None) -> object:
        raise AssertionError("asked for memory that the CPU cannot use")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def test_the_number_of_arguments(scale: dojoir.Compiled) -> None:
    refused("argument-count", lambda: scale(x(), x()), "takes 3 arguments", "in a, in x, out y", "not 2")
    refused("argument-count", lambda: scale(1, x(), x(), 3), "sizes are passed by name")


def test_no_array_at_all(scale: dojoir.Compiled) -> None:
    refused("not-an-array", lambda: scale(1, [[1.0, 2.0]], x()), "argument x", "not list")
    refused("not-an-array", lambda: scale(1, x(), None), "argument y", "not NoneType")


def test_element_types(scale: dojoir.Compiled) -> None:
    refused("bad-dtype", lambda: scale(1, x().astype(np.float64), x()), "argument x", "float64", "f32", "float32")
    refused("bad-dtype", lambda: scale(1, x(), x().astype(np.int32)), "argument y", "int32")
    refused("bad-dtype", lambda: scale(1, x().astype("U4"), x()), "argument x")
    refused("bad-dtype", lambda: scale(1, x().astype(object), x()), "argument x")


def test_byte_order(scale: dojoir.Compiled) -> None:
    swapped = x().astype(x().dtype.newbyteorder())
    refused("byte-order", lambda: scale(1, swapped, x()), "argument x", "newbyteorder")


def test_rank_and_shape(scale: dojoir.Compiled) -> None:
    refused("bad-rank", lambda: scale(1, x().ravel(), x()), "argument x", "1 dimensions", "declares 2")
    refused("size-conflict", lambda: scale(1, x(3, 4), x(3, 5)), "argument y", "M = 4", "dimension 1 of x")
    refused("size-conflict", lambda: scale(1, x(3, 4), x(3, 4), N=2), "N=2 was given")
    refused("bad-size", lambda: scale(1, x(0, 4), x(0, 4)), "argument x", "at least 1")


def test_fixed_dimensions() -> None:
    compiled = dojoir.compile(dojoir.parse(SCALE).specialize(M=4))
    assert (compiled.run({"a": 1, "x": x(2, 4)})["y"] == x(2, 4)).all()
    refused("bad-shape", lambda: compiled.run({"a": 1, "x": x(2, 5)}), "argument x", "must have 4")
    refused("unknown-size", lambda: compiled.run({"a": 1, "x": x(2, 4)}, M=4), "fixed to 4")


def test_facts_and_sizes(scale: dojoir.Compiled) -> None:
    refused("broken-fact", lambda: scale(1, x(3, 1), x(3, 1)), "M=1", "where M >= 2")
    refused("unknown-size", lambda: scale(1, x(), x().copy(), K=3), "no runtime size 'K'", "N, M")


def test_strides(scale: dojoir.Compiled) -> None:
    wide = np.zeros((3, 8), np.float32)
    refused("bad-stride", lambda: scale(1, wide[:, ::2], x()), "argument x", "np.ascontiguousarray(x)")
    refused("bad-stride", lambda: scale(1, x(), wide[:, :4]), "argument y")
    refused("bad-stride", lambda: scale(1, x()[::-1], x()), "argument x")
    refused("bad-stride", lambda: scale(1, np.asfortranarray(x()), x()), "argument x")
    one = np.zeros((1, 8), np.float32)[:, ::2]
    refused("bad-stride", lambda: scale(1, one, x(1, 4)), "argument x")
    y = np.empty((1, 4), np.float32)
    scale(1, np.zeros((5, 4), np.float32)[::5], y)  # the stride of a dimension of 1 does not matter


def test_alignment(scale: dojoir.Compiled) -> None:
    odd = np.zeros(3 * 4 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(3, 4)
    refused("bad-alignment", lambda: scale(1, odd, x()), "argument x", "multiple of 4")


def test_read_only(scale: dojoir.Compiled) -> None:
    frozen = x()
    frozen.flags.writeable = False
    y = x()
    scale(1, frozen, y)
    refused("read-only", lambda: scale(1, y, frozen), "argument y", "read-only", "y.copy()")


def test_overlap(scale: dojoir.Compiled) -> None:
    both = np.zeros(24, np.float32)
    left, right = both[:12].reshape(3, 4), both[12:].reshape(3, 4)
    scale(1, left, right)
    refused("overlap", lambda: scale(1, left, left), "y and x share memory")
    refused("overlap", lambda: scale(1, left, both[11:23].reshape(3, 4)), "y and x share memory")
    two = dojoir.compile(
        dojoir.parse("kernel f(N)\nin a: f32[N]\nin b: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = a[{0}] + b[{0}]\n")
    )
    y = np.empty(12, np.float32)
    two(both[:12], both[:12], y)  # inputs may share


def test_devices(scale: dojoir.Compiled) -> None:
    refused("bad-device", lambda: scale(1, Elsewhere(), x()), "argument x", "CUDA", "CPU")


def test_scalars(scale: dojoir.Compiled) -> None:
    y = np.empty((3, 4), np.float32)
    for good in (2, 2.0, np.float32(2), np.float64(2), np.int8(2), np.array(2.0)):
        scale(good, x(), y)
        assert (y == 2 * x()).all()
    for bad in ("2", None, True, 1j, [2], np.zeros(1), 1e39, 10**400, -1e300):
        refused("bad-scalar", lambda bad=bad: scale(bad, x(), y), "argument a")
    integer = dojoir.compile(dojoir.parse("kernel f()\nin a: i8\nout y: i8\n\ny = a\n"))
    assert integer.run({"a": np.uint64(100)})["y"] == 100
    for bad in (128, -129, 1.0, True, np.float32(1)):
        refused("bad-scalar", lambda bad=bad: integer.run({"a": bad}), "argument a")


def test_the_names_that_run_takes(scale: dojoir.Compiled) -> None:
    refused("missing-argument", lambda: scale.run({"x": x()}), "argument a", "in")
    refused("unknown-argument", lambda: scale.run({"a": 1, "x": x(), "z": x()}), "'z'", "a, x")
    refused("unknown-argument", lambda: scale.run({"a": 1, "xx": x()}), "did you mean 'x'")
    refused("unknown-argument", lambda: scale.run({"a": 1, "x": x(), "y": x()}), "y is an output")
    refused("no-array", lambda: scale.empty("a", N=1, M=2), "scalar")
    refused("unknown-buffer", lambda: scale.empty("q", N=1, M=2), "'q'")


def test_what_compile_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = dojoir.parse(SCALE)
    refused("unknown-target", lambda: dojoir.compile(kernel, "lvm"), "did you mean 'llvm'")
    refused("bad-threads", lambda: dojoir.compile(kernel, threads=0), "threads")
    refused("not-a-kernel", lambda: dojoir.compile(SCALE), "dojoir.parse")
    with pytest.raises(KernelError):
        dojoir.compile(dojoir.parse(SCALE.replace("x[{0}, {1}]\n", "x[{0}, {1} + 1]\n")))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ToolchainError, match="no-such-compiler"):
        dojoir.compile(kernel, "c")


# -- failures of the kernel itself -------------------------------------------------------------------------
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("wrong", [-1, 4, 2**31 - 1, -(2**31)])
def test_an_index_out_of_range_is_named(target: str, wrong: int) -> None:
    compiled = dojoir.compile(dojoir.parse(ROWS), target)
    w = np.arange(8, dtype=np.float32).reshape(4, 2)
    assert compiled.run({"ids": np.array([3, 0], np.int32), "w": w})["y"].tolist() == [[6, 7], [0, 1]]
    with pytest.raises(RunError) as caught:
        compiled.run({"ids": np.array([1, wrong], np.int32), "w": w})
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "index-out-of-range"
    assert "w[ids[{0}], {1}]" in diagnostic.message
    assert diagnostic.span is not None
    assert diagnostic.span.line == 9


@pytest.mark.parametrize("target", TARGETS)
def test_no_memory_for_a_temporary(target: str) -> None:
    text = """
kernel big(N, K)
in  x: f64[N]
out y: f64[N]
tmp t: f64[N, K]

N
| K
| | if {1} < 1
| | | t[{0}, {1}] = x[{0}]
N
| y[{0}] = t[{0}, 0]
"""
    compiled = dojoir.compile(dojoir.parse(text), target)
    assert compiled.run({"x": np.ones(2)}, K=3)["y"].tolist() == [1, 1]
    with pytest.raises(RunError) as caught:
        compiled.run({"x": np.ones(2)}, K=2**55)
    assert caught.value.diagnostic.code == "out-of-memory"


# -- DLPack ------------------------------------------------------------------------------------------------
def test_torch_tensors_without_copies(scale: dojoir.Compiled) -> None:
    torch = pytest.importorskip("torch")
    source, target = torch.arange(12, dtype=torch.float32).reshape(3, 4), torch.empty(3, 4)
    scale(2, source, target)
    assert torch.equal(target, 2 * source)
    view = torch.zeros(6, 4)[2:5]
    scale(2, source, view)
    assert torch.equal(view, 2 * source)
    assert (scale.run({"a": 1, "x": source})["y"] == source.numpy()).all()
    refused("bad-stride", lambda: scale(2, source.t().contiguous().t(), target), "argument x")
    refused("bad-dtype", lambda: scale(2, source.double(), target), "argument x", "float64")
    refused("no-dlpack", lambda: scale(2, source.clone().requires_grad_(), target), "argument x", "detach")
    refused("overlap", lambda: scale(2, target, target), "share memory")
    refused("overlap", lambda: scale(2, target.numpy(), target), "share memory")


@pytest.mark.parametrize(
    ("declared", "name"),
    [("bf16", "bfloat16"), ("f8e4m3", "float8_e4m3fn"), ("f8e5m2", "float8_e5m2"), ("bool", "bool")],
)
def test_torch_types_that_numpy_does_not_know(declared: str, name: str) -> None:
    torch = pytest.importorskip("torch")
    compiled = dojoir.compile(
        dojoir.parse(f"kernel copy(N)\nin x: {declared}[N]\nout y: {declared}[N]\n\nN\n| y[{{0}}] = x[{{0}}]\n")
    )
    source = torch.tensor([1.0, 0.0, 1.5, -2.0]).to(getattr(torch, name))
    target = torch.zeros_like(source)
    compiled(source, target)
    assert torch.equal(source.view(torch.uint8), target.view(torch.uint8))


def test_ml_dtypes_arrays() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    text = "kernel twice(N)\nin x: bf16[N]\nout y: bf16[N]\n\nN\n| y[{0}] = 2 * x[{0}]\n"
    compiled = dojoir.compile(dojoir.parse(text))
    source = np.array([1.5, -3.0], ml_dtypes.bfloat16)
    target = np.zeros(2, ml_dtypes.bfloat16)
    compiled(source, target)
    assert target.astype(np.float32).tolist() == [3.0, -6.0]
    bits = np.zeros(2, np.uint16)
    compiled(source.view(np.uint16), bits)
    assert (bits == target.view(np.uint16)).all()
    refused("bad-dtype", lambda: compiled(source.astype(np.float16), bits), "bfloat16 or uint16")


class FromCapsule:
    """An object that shares a NumPy array through DLPack, in the version that it is asked for."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None) -> object:
        return self.array.__dlpack__(max_version=max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def test_read_only_memory_comes_in_a_versioned_capsule(scale: dojoir.Compiled) -> None:
    frozen = x()
    frozen.flags.writeable = False
    y = np.empty((3, 4), np.float32)
    scale(2, FromCapsule(frozen), FromCapsule(y))
    assert (y == 2 * x()).all()
    refused("read-only", lambda: scale(2, y, FromCapsule(frozen)), "argument y")


def test_what_is_no_capsule(scale: dojoir.Compiled) -> None:
    class Liar(FromCapsule):
        def __dlpack__(self, *, max_version: tuple[int, int] | None = None) -> object:
            return ctypes.c_int(3)

    class Broken(FromCapsule):
        def __dlpack_device__(self) -> tuple[int, int]:
            raise RuntimeError("the device is gone")

    refused("no-dlpack", lambda: scale(1, Liar(x()), x()), "argument x")
    refused("no-dlpack", lambda: scale(1, Broken(x()), x()), "argument x", "the device is gone")
