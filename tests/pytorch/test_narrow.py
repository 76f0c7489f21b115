"""Modules in bf16 and f16: arguments in the type, what lies between in f32, against f64."""

from __future__ import annotations

import re
from typing import Any

import pytest

import dojoir

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")
from modules import CASES  # noqa: E402
from modules.agreement import narrow, right_narrow, right_narrow_backward  # noqa: E402

BOTH = ("mlp", "swiglu", "layer_norm", "conv2d", "attention_causal", "gru_cell", "cross_entropy", "squeeze_excite")
"""Those that are run in f16 too."""

RESULTS = (
    *BOTH, "argmax", "channel_shuffle", "glu", "masked", "outer", "sum_rows", "total", "where", "concatenated",
    "heads", "padded", "transposed", "casts", "gelu", "matrix_vector", "rms_norm", "softmax", "log_softmax",
    "upsampled", "embedding", "index_select", "matmul", "rolled", "kl_divergence", "logsumexp", "pixel_shuffle",
    "variance", "addmm", "batch_norm_inference", "nll_weighted", "triangle", "huber", "index_put", "linear",
    "cumulative_sum", "batch_norm_training", "group_norm", "scatter_add", "max_pool", "average_pool",
    "conv2d_depthwise", "einsum_attention", "experts", "conv2d_stem", "conv_transpose2d_apart",
)  # fmt: skip

GRADIENTS = (
    "mlp", "layer_norm", "softmax", "sum_columns", "transposed", "sigmoid", "heads", "gelu", "glu", "log_softmax",
    "outer", "concatenated", "logsumexp", "matrix_vector", "variance", "padded", "embedding", "rms_norm", "matmul",
    "index_put", "linear", "batch_norm_training", "max_pool", "cumulative_sum",
    "conv2d_stem", "conv_transpose2d_apart",
)  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("name", "dtype"), [*((n, "bf16") for n in RESULTS), *((n, "f16") for n in BOTH)])
def test_results_are_as_near_as_those_of_pytorch(name: str, dtype: str) -> None:
    right_narrow(CASES[name], dtype)


@pytest.mark.parametrize("name", BOTH)
def test_what_lies_between_is_in_f32(name: str) -> None:
    imported = dojoir.torch.from_module(*narrow(CASES[name], torch.bfloat16), threads=1)
    lines = imported.text.splitlines()
    assert any(line.startswith("in ") and ": bf16[" in line for line in lines)
    narrow_ones = {line.split()[1].rstrip(":") for line in lines if line.startswith("tmp ") and ": bf16" in line}
    factors = {name for line in lines for name in re.findall(r"\+= .*?(\w+)\[.*\* .*?(\w+)\[", line)}
    assert narrow_ones <= {name for pair in factors for name in pair}  # what products multiply stays as it is


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_as_near_as_those_of_pytorch(name: str) -> None:
    right_narrow_backward(CASES[name], "bf16")


def test_what_is_compared_for_equality_is_rounded_first() -> None:
    class Largest(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            z = x * y
            return (z == z.amax(1, keepdim=True)).float() * 2

    torch.manual_seed(0)
    x, y = torch.randn(4, 9).bfloat16(), torch.randn(4, 9).bfloat16()
    imported = dojoir.torch.from_module(Largest(), (x, y))
    assert torch.equal(imported(x, y), Largest()(x, y))
