"""What an operator is given: types, layouts, more dimensions, devices, autocast; and where it is kept."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tried

import dojoir
from dojoir import ArgumentError

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")
from dojoir.torch.rows import row_size  # noqa: E402
from dojoir.torch.variants import Variants, strided, with_dtype  # noqa: E402

F: Any = torch.nn.functional


@pytest.fixture(scope="module")
def norm() -> Any:
    return tried.operator()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", tried.LAYOUTS)
def test_every_layout_in_every_type_with_gradients(norm: Any, layout: str) -> None:
    for name in tried.TYPES:
        for way in (tried.eager, tried.autocast):
            assert tried.tried(norm, layout, name, way) == "right", (name, way)
    assert tried.tried(norm, layout, "f32", tried.batched) == "right"
    assert tried.tried(norm, layout, "f32", tried.eager, narrow=True) == "right"


@pytest.mark.filterwarnings("ignore")
def test_no_layout_is_an_error_in_a_graph(norm: Any) -> None:
    for layout in ("more dimensions", "transposed", "`x[:, ::2]`", "no rows"):
        assert tried.tried(norm, layout, "bf16", tried.graph) == "right", layout


def test_the_table_in_the_docs_has_every_row() -> None:
    page = (Path(__file__).parents[2] / "docs" / "torch.md").read_text(encoding="utf-8")
    for layout in tried.LAYOUTS:
        assert f"| {layout} |" in page


def test_types_of_a_call(norm: Any) -> None:
    x, g, b = torch.randn(2, 4), torch.randn(4), torch.randn(4)
    assert norm(x.bfloat16(), g, b.half(), 1e-5).dtype == torch.float32  # as PyTorch promotes them
    assert norm(x.bfloat16(), g.half(), b.half(), 1e-5).dtype == torch.float32
    only = dojoir.torch.op(dojoir.kernels.load("silu"), "dojoir_given::only", dtypes=(torch.float16,))
    assert only(torch.ones(2, 3).half()).dtype == torch.float16
    with pytest.raises(ArgumentError, match="bad-dtype"):
        only(torch.ones(2).double())
    with pytest.raises(ArgumentError, match="bad-dtype"):
        only(torch.ones(2, dtype=torch.int32))
    for wrong in ("bf16", ("i8",), (torch.int8,), 3):
        with pytest.raises(ArgumentError, match="bad-dtype"):
            dojoir.torch.op(dojoir.kernels.load("silu"), "dojoir_given::wrong", dtypes=wrong)


def test_temporaries_stay_wide() -> None:
    kernel = dojoir.kernels.load("layernorm", dtype="bf16")
    assert {b.name: b.dtype.name for b in kernel.buffers} == {
        "x": "bf16", "g": "bf16", "b": "bf16", "eps": "f32", "y": "bf16",
        "sum": "f32", "mean": "f32", "sq": "f32", "inv": "f32",
    }  # fmt: skip
    assert {b.dtype.name for b in dojoir.kernels.load("groupnorm", dtype="f64").buffers} == {"f64"}
    assert "f32" not in str(dojoir.kernels.load("groupnorm", dtype="f64"))
    for name in dojoir.kernels.names():
        for dtype in ("f64", "f32", "f16", "bf16"):
            dojoir.prove(dojoir.kernels.load(name, dtype=dtype))
    assert dojoir.kernels.load("silu", dtype="f64").with_dtype("f32") == dojoir.kernels.load("silu")
    with pytest.raises(ArgumentError, match="bad-dtype"):
        dojoir.kernels.load("softmax", dtype="i8")
    with pytest.raises(ArgumentError, match="bf16"):
        dojoir.kernels.load("softmax", dtype="bf61")


def test_a_text_all_in_bf16_gets_a_hint() -> None:
    text = dojoir.to_text(dojoir.kernels.load("softmax")).replace("f32", "bf16")
    with pytest.warns(UserWarning, match=r"holds m, e, s in bf16.*dtypes=\('bf16',\)"):
        dojoir.torch.op(dojoir.parse(text), "dojoir_given::narrow")


def test_moves_are_made_again_for_another_type() -> None:
    trace = dojoir.Trace(dojoir.kernels.load("softmax"))
    for move in ("join_scopes(0, 1)", "vectorize(0.1)"):
        trace.apply(move)
    again = with_dtype(trace, "bf16")
    assert isinstance(again, dojoir.Trace)
    assert [*map(str, again.moves)] == [*map(str, trace.moves)]
    op = dojoir.torch.op(trace, "dojoir_given::moved", dtypes=("bf16",))
    x = torch.randn(3, 5).bfloat16()
    torch.testing.assert_close(op(x), F.softmax(x, 1))


def test_rows_apart_are_not_copied() -> None:
    variants = Variants(lambda: dojoir.kernels.load("softmax"), None, None)
    apart = variants.strided(None)
    assert apart is not None
    x, y = torch.randn(4, 9)[:, 2:7], torch.empty(4, 5)
    apart(x, y)
    torch.testing.assert_close(y, F.softmax(x, 1))
    assert strided(dojoir.kernels.load("silu")) is None


@pytest.mark.parametrize(
    ("name", "size"),
    [("softmax", "N"), ("layernorm", "N"), ("matmul", "N"), ("gelu", "N"), ("attention", "H"), ("add", "N"),
     ("cumsum", "N"), ("embedding", "N"), ("bias_relu", "N"), ("conv2d", "N"), ("swiglu", "N"),
     ("reduce_mean_0", None), ("transpose", None), ("batchnorm_training", None), ("cross_entropy", None),
     ("heat3d", None), ("dot", None)],
)  # fmt: skip
def test_which_kernels_are_over_rows(name: str, size: str | None) -> None:
    assert row_size(dojoir.kernels.load(name)) == size


@pytest.mark.parametrize(
    "body",
    [
        "N\n| y[{0}] = x[{0}] + f32({0})\n",
        "N\n| y[N - 1 - {0}] = x[{0}]\n",
        "N\n| y[{0}] = x[0] + x[{0}]\n",
        "N\n| s = s0\n| y[{0}] = x[{0}] / N\n",
        "s = 0\nN\n| s += x[{0}]\n| y[{0}] = s\n",
        "N - 1\n| y[{0}] = x[{0}]\ny[N - 1] = x[N - 1]\n",
    ],
)
def test_kernels_that_know_the_number_of_a_row(body: str) -> None:
    text = f"kernel k(N)\nin x: f32[N]\nin s0: f32\nout y: f32[N]\ntmp s: f32\n\n{body}"
    assert row_size(dojoir.parse(text.replace("tmp s: f32\n", "") if "s " not in body else text)) is None


def test_tensors_on_several_devices_are_refused(norm: Any) -> None:
    x, g = torch.randn(2, 4), torch.randn(4)
    for given in ((x.to("meta"), g, g), (x, g.to("meta"), g)):
        with pytest.raises(ArgumentError, match="mixed-devices"):
            norm(*given, 1e-5)
    made = norm(x.to("meta"), g.to("meta"), g.to("meta"), 1e-5)
    assert (made.device.type, made.shape) == ("meta", x.shape)


@pytest.mark.filterwarnings("ignore")
def test_autocast() -> None:
    softmax = dojoir.torch.op(dojoir.kernels.load("softmax"), "dojoir_given::softmax")
    matmul = dojoir.torch.op(
        dojoir.kernels.load("matmul"), "dojoir_given::matmul", "auto", dtypes=("bf16",), autocast="bf16"
    )
    a, b = torch.randn(3, 4, requires_grad=True), torch.randn(4, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert softmax(a.bfloat16()).dtype == torch.float32  # the only type it takes
        made = matmul(a, b)
    assert made.dtype == torch.bfloat16
    made.sum().backward()
    assert a.grad.dtype == torch.float32
    torch.testing.assert_close(a.grad, b.sum(1).expand(3, 4), rtol=2e-2, atol=2e-2)
    with pytest.raises(ArgumentError, match="bad-dtype"):
        dojoir.torch.op(dojoir.kernels.load("silu"), "dojoir_given::cast", autocast="f16")


class Module(torch.nn.Module):
    """A norm whose operator is a part of it."""

    def __init__(self, op: Any) -> None:
        super().__init__()
        self.op = op
        self.g, self.b = torch.nn.Parameter(torch.ones(5)), torch.nn.Parameter(torch.zeros(5))

    def forward(self, x: Any) -> Any:
        return self.op(x, self.g, self.b, 1e-3)


@pytest.mark.filterwarnings("ignore")
def test_export_with_an_open_batch(norm: Any) -> None:
    dims = {0: torch.export.Dim("batch"), 1: torch.export.Dim("time")}
    exported = torch.export.export(Module(norm), (torch.randn(4, 2, 5),), dynamic_shapes=(dims,))
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    x = torch.randn(7, 3, 5)
    torch.testing.assert_close(torch.export.load(file).module()(x), F.layer_norm(x, (5,), eps=1e-3))


def test_pickles_here_and_in_another_process(norm: Any, tmp_path: Path) -> None:
    assert pickle.loads(pickle.dumps(norm)) is norm
    assert pickle.loads(pickle.dumps(torch.ops.aten.add.Tensor)) is torch.ops.aten.add.Tensor
    trace = dojoir.Trace(dojoir.kernels.load("softmax"))
    trace.apply("join_scopes(0, 1)")
    op = dojoir.torch.op(trace, "dojoir_given::pickled", dtypes=("f64",))
    assert pickle.loads(pickle.dumps(op)) is op
    file = tmp_path / "op.pickle"
    file.write_bytes(pickle.dumps(op))
    code = f"import pickle, torch\nop = pickle.load(open({str(file)!r}, 'rb'))\n"
    code += "print(op(torch.zeros(2, 3, 4, dtype=torch.float64)).sum().item())"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "6.0\n"
    )


def test_onnx_says_what_to_install(norm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(dojoir.ToolchainError, match="pip install onnx onnxscript"):
        dojoir.torch.onnx_table(norm)


@pytest.mark.filterwarnings("ignore")
def test_a_node_of_onnx_for_each_operator(norm: Any) -> None:
    pytest.importorskip("onnxscript", reason="needs onnxscript")
    made = torch.onnx.export(
        Module(norm), (torch.randn(3, 5),), dynamo=True, custom_translation_table=dojoir.torch.onnx_table(norm),
        dynamic_shapes=({0: "batch"},),
    )  # fmt: skip
    (node,) = [node for node in made.model.graph if node.domain == "dojoir_tried"]
    assert (node.op_type, len(node.inputs), [*node.attributes]) == ("layernorm", 3, ["eps"])
    with pytest.raises(ArgumentError, match="bad-operator"):
        dojoir.torch.onnx_table(3)
