"""One callable of several traces of a kernel: each call's sizes pick the one that runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dojoir
from dojoir.passes import Versions
from dojoir.runtime.build import c_toolchain

MARKED = """
kernel marked(N, M)
in  x: f32[N, M]
out y: f32[N, M]
out n: i32

n = 0
N
| M
| | y[{0}, {1}] = 2 * x[{0}, {1}]
"""

PICK = """
kernel pick(N, K)
in  x: f32[K]
in  i: i32[N]
out y: f32[N]

N
| y[{0}] = x[i[{0}]]
"""


def traces() -> list[dojoir.Trace]:
    kernel = dojoir.kernels.load("softmax")
    return [dojoir.optimize(kernel), dojoir.Trace(kernel)]


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def able(target: str) -> bool:
    try:
        dojoir.compile(dojoir.kernels.load("relu"), target)
    except dojoir.ToolchainError:
        return False
    return True


@pytest.mark.parametrize("target", ["llvm", "c", "avx2", "neon"])
def test_every_size_gives_the_same_results_whichever_version_runs(target: str) -> None:
    if not able(target):
        pytest.skip(f"{target} does not run here")
    fast, plain = traces()
    versions = Versions([(fast, ["N >= 4, M % 8 == 0", "M == 3"]), (plain, "N != 1"), fast])
    compiled = dojoir.compile(versions, target)
    for n, m in ((1, 1), (4, 16), (5, 7), (2, 3), (40, 33), (1, 100)):
        x = np.random.default_rng(n).random((n, m), np.float32)
        y = np.empty_like(x)
        for _ in range(5 if target != "neon" else 1):
            compiled(x, y)
        assert np.allclose(y, softmax(x), rtol=1e-4)
        assert np.array_equal(compiled.run({"x": x})["y"], y)


def test_the_first_that_fits_is_taken() -> None:
    """Of versions that can be told apart by how they fail: the library of indices from data."""
    kernel = dojoir.parse(PICK)
    one, two = dojoir.Trace(kernel), dojoir.Trace(kernel)
    one.apply("split(0, 4)")
    two.apply("split(0, 8)")
    versions = Versions([(one, "N < 10"), (two, "N % 16 == 0"), dojoir.Trace(kernel)])
    compiled = dojoir.compile(versions)
    x = np.arange(3, dtype=np.float32)
    for n, number in ((9, 0), (16, 1), (48, 1), (11, 2)):
        assert versions.at(N=n, K=3) is versions.versions[number]
        i = np.zeros(n, np.int32)
        compiled(x, i, np.empty(n, np.float32))
        i[-1] = 7
        for _ in range(5):
            with pytest.raises(dojoir.RunError) as caught:
                compiled(x, i, np.empty(n, np.float32))
        source = caught.value.diagnostic.source
        assert caught.value.diagnostic.code == "index-out-of-range"
        assert source is not None
        depth = caught.value.diagnostic.render().count("| |")
        assert depth == (0 if number == 2 else 1)  # of the text of the version that ran


def test_a_bound_call_and_sizes_by_name() -> None:
    kernel = dojoir.parse("kernel fill(N, M)\nout y: f32[N]\n\nN\n| y[{0}] = M\n")
    other = dojoir.Trace(kernel)
    other.apply("split(0, 4)")
    compiled = dojoir.compile(Versions([(other, "M > 5"), dojoir.Trace(kernel)]))
    y = np.empty(9, np.float32)
    for m in (3, 7, 3, 7, 3, 7, 7, 3):
        compiled(y, M=m)
        assert (y == m).all()
        compiled.bind(y, M=m + 1)()
        assert (y == m + 1).all()


def test_scalars_of_every_type_come_through() -> None:
    lines = [f"in {dtype}_: {dtype}" for dtype in ("f64", "f32", "bf16", "i8", "u8", "i16", "u32", "i64", "bool")]
    body = "y[{0}] = f64_ + f64(f32_) + f64(bf16_) + f64(i8_) + f64(u8_) + f64(i16_) + f64(u32_) + f64(i64_)"
    kernel = dojoir.parse("\n".join(["kernel sums(N)", *lines, "out y: f64[N]", "", "N", f"| {body}", "| if N >= 0",
                                     "| | y[{0}] += select(bool_, 1.0, 0.0)"]))  # fmt: skip
    compiled = dojoir.compile(Versions([(dojoir.Trace(kernel), "N == 1"), dojoir.Trace(kernel)]))
    given = (0.5, 0.25, 2.0, -7, 200, -300, 4_000_000_000, -(1 << 40), True)
    for n in (1, 2):
        y = np.empty(n)
        for _ in range(5):
            compiled(*given, y)
        assert (y == sum(map(float, given))).all()


@pytest.mark.parametrize("name", ["softmax", "matmul", "relu", "dot"])
def test_what_is_known_is_what_optimize_takes(name: str) -> None:
    kernel = dojoir.kernels.load(name)
    versions = dojoir.schedules.versions(kernel, "llvm@znver4", threads=2)
    assert not versions.versions[-1].when and versions.start == kernel
    for size in (3, 300, 3000, 5000):
        sizes = dict.fromkeys(kernel.runtime_sizes, size)
        chosen = dojoir.optimize(kernel, "llvm@znver4", sizes=sizes, threads=2)
        taken = versions.at(**sizes).trace
        if chosen.moves != taken.moves:  # by rule alone: it knows the sizes there
            stored = {one.trace.moves for one in versions.versions[:-1]}
            assert chosen.moves not in stored


def test_small_sizes_stay_on_one_core() -> None:
    versions = dojoir.schedules.versions(dojoir.kernels.load("add"), threads=4)
    assert "parallelize" not in {move.name for move in versions.at(N=1000).trace.moves}
    assert "parallelize" in {move.name for move in versions.at(N=1 << 22).trace.moves}
    assert len(dojoir.schedules.versions(dojoir.kernels.load("conv2d", N=1), threads=2).versions) >= 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (lambda t: [], "1 to 256"),
        (lambda t: [(t, "N >> 4"), t], "not a condition"),
        (lambda t: [(t, "N >= 18446744073709551620"), t], "no size is so large"),
        (lambda t: [(t, "N % 18446744073709551620 == 0"), t], "no size is so large"),
        (lambda t: [(t, "Q >= 4"), t], "no runtime size"),
        (lambda t: [t, t], "put it last"),
        (lambda t: [(t, "N >= 4")], "all other sizes"),
        (lambda t: [(t, "N >= 4"), dojoir.Trace(dojoir.kernels.load("relu"))], "another kernel"),
    ],
)
def test_wrong_versions_are_refused(given: Any, says: str) -> None:
    with pytest.raises(dojoir.ArgumentError, match=says):
        Versions(given(dojoir.Trace(dojoir.kernels.load("softmax"))))


def test_a_gpu_asks_itself() -> None:
    with pytest.raises(dojoir.ArgumentError, match=r"dojoir\.optimize"):
        dojoir.compile(Versions(traces()[1:]), "cuda", emulated=True)


def test_strided_arguments_have_versions() -> None:
    kernel = dojoir.parse(MARKED.replace("x: f32[N, M]", "x: f32[N, M] strided"))
    compiled = dojoir.compile(Versions([(dojoir.optimize(kernel), "N >= 3"), dojoir.Trace(kernel)]))
    whole = np.random.default_rng(0).random((6, 40), np.float32)
    for n in (2, 5):
        y, count = np.empty((n, 9), np.float32), np.ones((), np.int32)
        for _ in range(5):
            compiled(whole[:n, 4:13], y, count)
        assert np.array_equal(y, 2 * whole[:n, 4:13]) and count == 0


def test_a_library_chooses_by_size(tmp_path: Path) -> None:
    try:
        c_toolchain.find()
    except dojoir.ToolchainError:
        pytest.skip("no C compiler")
    fast, plain = traces()
    versions = Versions([(fast, ["N >= 4, M % 8 == 0", "M == 3"]), plain])
    folder = tmp_path / "lib"
    made = dojoir.write_library([versions], folder, name="soft", check=False, sizes={"softmax": {"N": 4, "M": 8}})
    assert {"softmax.c", "softmax_v0.c", "softmax_v1.c"} <= set(made.files)
    source = (folder / "softmax.c").read_text()
    assert "(N >= 4 && M % 8 == 0)" in source and "|| (M == 3)" in source
    assert "softmax_v0" not in (folder / "soft.h").read_text()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert [one["when"] for one in manifest["kernels"][0]["trace"]["versions"]] == [
        [["N >= 4", "M % 8 == 0"], ["M == 3"]], []
    ]  # fmt: skip
    sources = ["demo.c", "softmax.c", "softmax_v0.c", "softmax_v1.c"]
    command = [*c_toolchain.find().command, *sources, "-lm", "-fopenmp", "-o", "demo"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run(["./demo"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "ok" in done.stdout


def test_an_operator_of_pytorch_with_sizes_that_change() -> None:
    torch = pytest.importorskip("torch")
    fast, plain = traces()
    op = dojoir.torch.op(Versions([(fast, "N >= 4"), plain]), "dojoir_versions::softmax")
    for n in (2, 3, 8, 5):
        x = torch.randn(n, 33)
        assert torch.allclose(op(x), torch.softmax(x, 1), atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_dynamic_shapes_under_torch_compile() -> None:
    torch = pytest.importorskip("torch")
    fast, plain = traces()
    op = dojoir.torch.op(Versions([(fast, "N >= 4"), plain]), "dojoir_versions::dynamic")
    graphs: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: op(x * 2) + 1, fullgraph=True, dynamic=True, backend=backend)
    for n in (2, 3, 8, 5):
        x = torch.randn(n, 33)
        assert torch.allclose(compiled(x), torch.softmax(2 * x, 1) + 1, atol=1e-5)
    assert len(graphs) == 1


@pytest.mark.parametrize("fact", ["K % 32 == 0", "M % 2 == 0, K % 64 == 0", "K % 32 == 0, M >= K"])
@pytest.mark.parametrize(("extent", "index"), [("K // 32", "32*{1}"), ("K // 2", "2*{1}")])
def test_sizes_that_the_facts_forbid_are_not_asked(fact: str, extent: str, index: str) -> None:
    """How often a statement runs is a whole number only where the facts hold."""
    text = f"kernel f(M, K)\nwhere {fact}\nin  x: f32[M, K]\nout y: f32[M]\n\nM\n| y[{{0}}] = 0\n| {extent}\n"
    made = dojoir.schedules.versions(dojoir.parse(f"{text}| | y[{{0}}] += x[{{0}}, {index}]\n"), threads=2)
    assert made.versions[0].when and "split_reduction" not in str(made.at(M=64, K=64).trace.moves)
    assert made.at(M=64, K=64) is made.versions[0] and made.at(M=2**20, K=2**20) is made.versions[-1]
