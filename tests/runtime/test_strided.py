"""Arguments whose rows are further apart than they are long: `strided`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dojoir
from dojoir import build
from dojoir.codegen.simd.isas import ISAS
from dojoir.proof.core.check import declarations
from dojoir.runtime.build import c_toolchain
from dojoir.runtime.call.overlap import ByteRuns, are_beside, rows_of

SCALE = """
kernel scale(N, M)
in  x: f32[N, M] strided
out y: f32[N, M] strided

N
| M
| | y[{0}, {1}] = 2 * x[{0}, {1}]
"""

MATMUL = """
kernel product(M, N, K)
in  a: f32[M, K] strided
in  b: f32[K, N] strided
out c: f32[M, N] strided

M
| N
| | c[{0}, {1}] = 0
| | K
| | | c[{0}, {1}] += a[{0}, {2}] * b[{2}, {1}]
"""

CUBE = """
kernel cube(A, B, C)
in    x: f64[A, B, C] strided
inout y: f64[A, B, C] order(2, 0, 1) strided

A
| B
| | C
| | | y[{0}, {1}, {2}] += x[{0}, {1}, {2}]
"""

HERE = ("llvm", "c", "avx2")
ELSEWHERE = ("avx512", "neon", "rvv", "sve")


def array(*shape: int, dtype: str = "float32") -> NDArray[Any]:
    return (np.arange(np.prod(shape)) % 17 - 5).reshape(shape).astype(dtype)


def able(target: str) -> bool:
    try:
        dojoir.compile(dojoir.kernels.load("relu"), target)
    except dojoir.ToolchainError:
        return False
    return True


def test_the_text_has_it_and_gives_it_back() -> None:
    kernel = dojoir.parse(SCALE)
    assert kernel.buffer("x").strided and kernel.buffer("x").steps == (0,)
    assert dojoir.parse(dojoir.to_text(kernel)) == kernel
    assert kernel.hash != dojoir.parse(SCALE.replace(" strided", "")).hash
    assert dojoir.parse(CUBE).buffer("y").steps == (2, 0)
    with build.kernel("scale", "N", "M") as k:
        x = k.input("x", "f32", ["N", "M"], strided=True)
        y = k.output("y", "f32", ["N", "M"], strided=True)
        with k.scope("N") as i, k.scope("M") as j:
            y[i, j] = 2 * x[i, j]
    assert k.kernel == kernel


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("in x: f32[N] strided", "has none"),
        ("in x: f32 strided", "has none"),
        ("tmp x: f32[N, N] strided", "is a tmp"),
        ("in x: f32[N, N] pad(0, 4) strided", "pad"),
        ("in x: f32[N, N] strided 4", "takes no number"),
    ],
)
def test_where_it_makes_no_sense_it_is_refused(line: str, says: str) -> None:
    with pytest.raises(dojoir.KernelError, match=says):
        dojoir.parse(f"kernel k(N)\n{line}\n")


@pytest.mark.parametrize("target", HERE)
def test_columns_of_a_matrix_are_read_and_written_in_place(target: str) -> None:
    if not able(target):
        pytest.skip(f"{target} does not run here")
    kernel = dojoir.optimize(dojoir.parse(SCALE), target).kernel
    scale = dojoir.compile(kernel, target)
    for n, m, width in ((5, 17, 40), (1, 1, 3), (3, 40, 90), (40, 3, 7)):
        whole = array(n, width)
        expected = whole.copy()
        expected[:, -m:] = 2 * whole[:, :m]
        for _ in range(5):  # by the checks in Python, then by those in machine code
            given = whole.copy()
            scale(given[:, :m], given[:, -m:])
            assert np.array_equal(given, expected)


@pytest.mark.parametrize("target", HERE)
def test_a_product_of_blocks_leaves_what_is_around(target: str) -> None:
    if not able(target):
        pytest.skip(f"{target} does not run here")
    compiled = dojoir.compile(dojoir.optimize(dojoir.parse(MATMUL), target).kernel, target)
    a, b, c = array(20, 31), array(31, 50), array(23, 70)
    expected = c.copy()
    expected[2:19, 5:46] = a[1:18, 3:25] @ b[4:26, 9:50]
    compiled(a[1:18, 3:25], b[4:26, 9:50], c[2:19, 5:46])
    assert np.array_equal(c, expected)


def test_dimensions_in_another_order_and_every_second_row() -> None:
    cube = dojoir.compile(dojoir.parse(CUBE))
    x, y = array(9, 7, 6, dtype="float64"), array(5, 8, 11, dtype="float64")
    mine, its = x[::2, 1:6, 2:5], y[:3, :5, :].transpose(1, 2, 0)[:, 2:7, :]
    given = its.transpose(1, 0, 2)  # in memory: c, a, b
    with pytest.raises(dojoir.ArgumentError, match="order"):
        cube(mine, given)
    memory = array(4, 8, 11, dtype="float64")
    target = memory[:3, 1:6, 2:7].transpose(1, 2, 0)  # y[a, b, c] at memory[c, a, b]
    expected = memory.copy()
    expected[:3, 1:6, 2:7] += mine.transpose(2, 0, 1)
    cube(mine, target)
    assert np.array_equal(memory, expected)


@pytest.mark.parametrize("fixed", [{}, {"N": 1}, {"M": 1}])
def test_what_is_never_stepped_along_may_have_any_stride(fixed: dict[str, int]) -> None:
    scale = dojoir.compile(dojoir.parse(SCALE).specialize(**fixed))
    n, m = fixed.get("N", 3), fixed.get("M", 4)
    x, y = array(n, m + 2)[:, :m], np.zeros((n, m + 3), np.float32)[:, :m]
    if fixed.get("N") == 1:
        x = np.lib.stride_tricks.as_strided(x, x.shape, (0, 4))
    if fixed.get("M") == 1:
        x = np.lib.stride_tricks.as_strided(x, x.shape, (x.strides[0], 12))
    scale(x, y)
    assert np.array_equal(y, 2 * x)


def test_arrays_that_share_an_element_are_refused_and_others_are_not() -> None:
    scale = dojoir.compile(dojoir.parse(SCALE))
    memory = array(8, 40)
    for _ in range(6):
        scale(memory[:, 3:20], memory[:, 20:37])
        scale(memory[:, 20:37], memory[:, 3:20])
        with pytest.raises(dojoir.ArgumentError, match="share memory"):
            scale(memory[:, 3:20], memory[:, 19:36])
    rows = memory[::2], memory[1::2]
    scale(*rows)
    # rows that go on where others end: of 40 and of 80 elements, of which none is in both
    flat = array(30 * 40).reshape(30, 40)
    scale(flat[:9, :20], flat.reshape(15, 80)[:9, 20:40])
    with pytest.raises(dojoir.ArgumentError, match="share memory"):
        scale(flat[:9, :20], flat.reshape(15, 80)[:9, 10:30])


def test_rows_beside_each_other_are_never_said_to_be_where_an_element_is_shared() -> None:
    """The quick answer against all bytes, for small arrays."""
    from itertools import product

    yes = 0
    for start, run, pitch, n in product(range(9), (1, 2, 3), (3, 4, 6), (1, 2, 3)):
        for other_run, other_pitch, m in product((1, 2), (3, 4, 5), (1, 3)):
            mine = {i * pitch + b for i in range(n) for b in range(run)}
            its = {start + i * other_pitch + b for i in range(m) for b in range(other_run)}
            one, other = ByteRuns(run, pitch if n > 1 else 0), ByteRuns(other_run, other_pitch if m > 1 else 0)
            if are_beside(0, one, start, other):
                yes += 1
                assert not mine & its
    assert yes > 100
    assert rows_of((4, 3), (40, 4), 4, (0,)) == ByteRuns(12, 40)
    assert rows_of((4, 3), (12, 4), 4, ()) == ByteRuns(48, 0)


def test_without_it_the_error_says_so() -> None:
    plain = dojoir.compile(dojoir.parse(SCALE.replace(" strided", "")))
    with pytest.raises(dojoir.ArgumentError, match=r"declare 'in +x: f32\[N, M\] strided'") as caught:
        plain(array(4, 20)[:, :8], np.empty((4, 8), np.float32))
    assert caught.value.diagnostic.code == "bad-stride"
    with pytest.raises(dojoir.ArgumentError) as other:
        plain(array(8, 4).T, np.empty((4, 8), np.float32))
    assert "strided" not in str(other.value)


@pytest.mark.parametrize(
    "view", [lambda x: x[:, ::2], lambda x: x.T, lambda x: x[::-1], lambda x: np.broadcast_to(x[0], x.shape)]
)
def test_other_strides_are_refused(view: Any) -> None:
    scale = dojoir.compile(dojoir.parse(SCALE))
    given = view(array(6, 6))
    with pytest.raises(dojoir.ArgumentError, match="side by side"):
        scale(given, np.empty(given.shape, np.float32))


def test_tensors_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    scale = dojoir.compile(dojoir.parse(SCALE))
    whole = torch.arange(240, dtype=torch.float32).reshape(6, 40)
    expected = whole.clone()
    expected[:, 20:37] = 2 * whole[:, 3:20]
    for _ in range(5):
        scale(whole[:, 3:20], whole[:, 20:37])
    assert torch.equal(whole, expected)
    with pytest.raises(dojoir.ArgumentError, match="share memory"):
        scale(whole[:, 3:20], whole[:, 4:21])
    with pytest.raises(dojoir.ArgumentError, match=r"x\.contiguous\(\)"):
        scale(whole[:, ::4], torch.empty(6, 10))
    (result,) = scale.run({"x": whole[:, :7]}).values()
    assert torch.equal(result, 2 * whole[:, :7])


@pytest.mark.parametrize("text", [SCALE, MATMUL, CUBE], ids=["scale", "product", "cube"])
@pytest.mark.parametrize("target", HERE)
def test_verified_with_gaps(text: str, target: str) -> None:
    if not able(target):
        pytest.skip(f"{target} does not run here")
    kernel = dojoir.parse(text)
    assert dojoir.verify(dojoir.optimize(kernel, target).kernel, against=kernel, target=target).ok


def test_verify_sees_a_write_between_rows() -> None:
    """A kernel that was told to be dense, called as a strided one."""
    from dojoir.runtime.verification.trial import attempt

    scale = dojoir.compile(dojoir.parse(SCALE))

    class Wrong:
        kernel = scale.kernel

        def __call__(self, x: NDArray[Any], y: NDArray[Any], **sizes: int) -> None:
            scale(x, y)
            np.lib.stride_tricks.as_strided(y, (1, y.shape[1] + 1), y.strides)[0, -1] = 7

    right = attempt(scale, {"x": array(3, 4)}, {"N": 3, "M": 4}, True, 0xFF)
    wrong = attempt(Wrong(), {"x": array(3, 4)}, {"N": 3, "M": 4}, True, 0xFF)  # type: ignore[arg-type]
    assert right[1] == []
    assert wrong[1] == ["wrote between the rows of y"]


@pytest.mark.parametrize("target", ELSEWHERE)
def test_the_source_of_other_processors_takes_strides(target: str) -> None:
    source = dojoir.emit(dojoir.optimize(dojoir.parse(SCALE), target).kernel, target)
    assert "int64_t x_stride" in source and "int64_t y_stride" in source


@pytest.mark.parametrize("target", ["neon", "rvv"])
def test_emulated(target: str) -> None:
    if not able(target):
        pytest.skip(f"{target} is not emulated here")
    scale = dojoir.compile(dojoir.optimize(dojoir.parse(SCALE), target).kernel, target)
    whole = array(5, 40)
    expected = whole.copy()
    expected[:, 20:37] = 2 * whole[:, 3:20]
    scale(whole[:, 3:20], whole[:, 20:37])
    assert np.array_equal(whole, expected)


def test_the_instruction_sets_are_all_named() -> None:
    assert {*ELSEWHERE, "avx2"} <= set(ISAS)


def test_gpus_take_dense_arrays() -> None:
    with pytest.raises(dojoir.KernelError, match="leave out 'strided'") as caught:
        dojoir.emit(dojoir.parse(SCALE), "cuda")
    assert caught.value.diagnostic.code == "strided-argument"


def test_moves_and_certificates_know_it() -> None:
    kernel = dojoir.parse(SCALE)
    trace = dojoir.optimize(kernel, "avx2")
    assert trace.moves and dojoir.certify(trace)
    dense = dojoir.parse(SCALE.replace(" strided", ""))
    changed = declarations(kernel, dense)
    assert changed is not None and changed.code == "changed-argument"
    assert dojoir.interpret(kernel, {"x": array(4, 9)[:, :5]})["y"].tolist() == (2 * array(4, 9)[:, :5]).tolist()


def test_chains_keep_strides_of_arguments_only() -> None:
    first = dojoir.parse(SCALE)
    second = dojoir.parse(
        SCALE.replace("scale", "again")
        .replace("x:", "y:", 1)
        .replace("y:", "z:", 2)
        .replace("z: f32[N, M] strided\nout z", "y: f32[N, M] strided\nout z")
        .replace("| | y[{0}, {1}] = 2 * x[{0}, {1}]", "| | z[{0}, {1}] = 2 * y[{0}, {1}]")
    )
    joined = dojoir.chain(first, second)
    assert not joined.buffer("y").strided and joined.buffer("y").role == "tmp"
    assert joined.buffer("x").strided and joined.buffer("z").strided


def test_a_library_takes_leading_strides(tmp_path: Path) -> None:
    try:
        c_toolchain.find()
    except dojoir.ToolchainError:
        pytest.skip("no C compiler")
    folder = tmp_path / "lib"
    dojoir.write_library([dojoir.Trace(dojoir.parse(MATMUL))], folder, name="blocks", check=False)
    header = (folder / "blocks.h").read_text()
    assert "int64_t a_stride" in header and "strided array" in header
    manifest = json.loads((folder / "manifest.json").read_text())
    assert [entry.get("strided") for entry in manifest["kernels"][0]["arguments"]] == [[0], [0], [0]]
    sources = [entry["source"] for entry in manifest["kernels"]]
    command = [*c_toolchain.find().command, "demo.c", *sources, "-lm", "-o", "demo"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run(["./demo"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and ": ok" in done.stdout
