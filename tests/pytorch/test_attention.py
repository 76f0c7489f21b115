"""`scaled_dot_product_attention` of halves: products that matrix units take, and results as near as PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

import dojoir
from dojoir.backends.machine import MACHINES
from dojoir.passes.schedule.plan.planner import Planner

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")
import dojoir.torch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
F = torch.nn.functional
CASES: dict[str, dict[str, Any]] = {
    "all": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": 0.3},
    "of a mask": {"attn_mask": "bool"},
    "of a bias": {"attn_mask": "float"},
    "of grouped heads": {"enable_gqa": True},
}


class Attention(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__()
        self.given = given

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, **self.given)


def drawn(case: str, dtype: Any, length: int = 48) -> tuple[dict[str, Any], tuple[Any, Any, Any]]:
    torch.manual_seed(len(case))
    given = dict(CASES[case])
    heads = 2 if "enable_gqa" in given else 4
    if given.get("attn_mask") == "bool":
        given["attn_mask"] = torch.rand(length, length) > 0.5
        given["attn_mask"][3] = False  # a row without an element is zeros
    elif given.get("attn_mask") == "float":
        given["attn_mask"] = torch.randn(2, 1, length, length).to(dtype)
    q, k, v = (torch.randn(2, n, length, 32).to(dtype) for n in (4, heads, heads))
    return given, (q, k, v)


def wide(given: dict[str, Any], tensors: Any) -> Any:
    mask = given.get("attn_mask")
    more = {"attn_mask": mask.double()} if mask is not None and mask.is_floating_point() else {}
    return F.scaled_dot_product_attention(*(t.double() for t in tensors), **given | more)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("case", CASES)
def test_results_are_as_near_as_those_of_pytorch(case: str, dtype: str) -> None:
    given, tensors = drawn(case, getattr(torch, dtype))
    right = wide(given, tensors)
    eager = (F.scaled_dot_product_attention(*tensors, **given).double() - right).abs().max()
    made = dojoir.torch.from_module(Attention(given), tensors, optimize=False)
    assert (made(*tensors).double() - right).abs().max() <= 1.5 * eager
    short = "bf16" if dtype == "bfloat16" else "f16"
    assert f"tmp view_3: {short}" in made.text or ": " + short in made.text.split("tmp", 1)[1]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_causal_row_reads_no_later_block(dtype: str) -> None:
    given, tensors = drawn("causal", getattr(torch, dtype), 256)
    right = wide(given, tensors)
    eager = (F.scaled_dot_product_attention(*tensors, **given).double() - right).abs().max()
    made = dojoir.torch.from_module(Attention(given), tensors, optimize=False)
    assert made.text.count("128*({j} // 128) + 128 @") == 6
    assert (made(*tensors).double() - right).abs().max() <= 1.5 * eager
    for tensor in tensors:  # what stands in later blocks is nothing to the first
        tensor[:, :, 128:] = torch.nan
    found = made(*tensors)[:, :, :128].double()
    assert (found - right[:, :, :128]).abs().max() <= 1.5 * eager


def test_a_causal_row_under_other_conditions_chooses_among_all() -> None:
    """Fewer rows than keys, and rows in no whole blocks."""
    for rows, keys in ((128, 256), (200, 200)):
        q, k, v = (torch.randn(1, 2, n, 16).bfloat16() for n in (rows, keys, keys))
        made = dojoir.torch.from_module(Attention({"is_causal": True}), (q, k, v), optimize=False)
        assert f"{keys} @k" in made.text and "//" not in made.text.split("tmp")[-1]
        exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
        assert (made(q, k, v).double() - exact).abs().max() < 2e-2


@pytest.mark.parametrize("case", ["all", "causal", "of a bias"])
def test_autocast_gives_its_type(case: str) -> None:
    given, tensors = drawn(case, torch.float32)

    def cast(*tensors: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return F.scaled_dot_product_attention(*tensors, **given)

    torch._dynamo.reset()
    with torch.no_grad():
        ours, eager = torch.compile(cast, backend="dojoir")(*tensors), cast(*tensors)
    assert ours.dtype == eager.dtype == torch.bfloat16
    exact = wide(given, tensors)
    assert (ours - exact).abs().max() <= 2 * (eager - exact).abs().max()


def test_other_types_are_as_they_were() -> None:
    given, tensors = drawn("causal", torch.float32)
    made = dojoir.torch.from_module(Attention(given), tensors, optimize=False)
    assert (made(*tensors).double() - wide(given, tensors)).abs().max() < 1e-5


def test_gradients_are_as_near_as_those_of_pytorch() -> None:
    given, tensors = drawn("causal", torch.bfloat16)
    tensors = tuple(t.requires_grad_() for t in tensors)
    seed = torch.randn(2, 4, 48, 32).bfloat16()
    right = torch.autograd.grad(wide(given, tensors), tensors, seed.double())
    eager = torch.autograd.grad(F.scaled_dot_product_attention(*tensors, **given), tensors, seed)
    torch._dynamo.reset()
    compiled = torch.compile(Attention(given), backend="dojoir")
    ours = torch.autograd.grad(compiled(*tensors), tensors, seed)
    for mine, its, exact in zip(ours, eager, right, strict=True):
        assert (mine - exact).abs().max() <= 4 * (its - exact).abs().max()


def test_a_module_is_one_launch_on_matrix_units() -> None:
    q, k, v = (torch.zeros(1, 16, 1024, 64, dtype=torch.bfloat16) for _ in range(3))
    made = dojoir.torch.from_module(Attention({}), (q, k, v), optimize=False)
    plans = Planner(MACHINES["cuda"], {}).plans(dojoir.Trace(dojoir.parse(made.text)))
    text = dojoir.to_text(plans[0].trace.kernel)
    assert text.count("use(mma_m16n8k16_bf16)") == 3  # scores twice, and what they weigh
    assert sum(line.startswith("16 : g") for line in text.splitlines()) == 1


def test_gradients_of_f16_are_finite_where_sums_of_values_are_past_its_range() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, n, 8) for n in (4, 2048, 2048))
    tensors = tuple(t.half().requires_grad_() for t in (0.1 * q, 0.1 * k, v + 60))
    seed = torch.randn(1, 1, 4, 8).half()
    right = torch.autograd.grad(wide({}, tensors), tensors, seed.double())
    eager = torch.autograd.grad(F.scaled_dot_product_attention(*tensors), tensors, seed)
    torch._dynamo.reset()
    ours = torch.autograd.grad(torch.compile(Attention({}), backend="dojoir")(*tensors), tensors, seed)
    for mine, its, exact in zip(ours, eager, right, strict=True):
        assert (mine - exact).abs().max() <= 4 * (its - exact).abs().max()


@pytest.mark.parametrize("shapes", [((5, 8), (0, 8), (0, 8)), ((5, 0), (7, 0), (7, 8))])
def test_no_terms_are_what_pytorch_makes_of_them(shapes: Any) -> None:
    tensors = tuple(torch.randn(2, 3, *shape).half() for shape in shapes)
    torch._dynamo.reset()
    made = torch.compile(Attention({}), backend="dojoir")(*tensors)
    assert torch.allclose(made, F.scaled_dot_product_attention(*tensors), atol=2e-3)
