"""Whether what dojoir makes of a module gives what the module gives in f64, with its gradients."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree

import dojoir
from modules.cases import SMALL, Case, Sizes

FORWARD, BACKWARD = 2e-5, 5e-5
"""How far from f64 results and gradients may be, of the largest number of each tensor."""


def tensors(given: Any) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(given) if isinstance(t, torch.Tensor)]


def difference(found: torch.Tensor, right: torch.Tensor) -> float:
    """The largest difference as a part of the largest number."""
    assert found.shape == right.shape, (found.shape, right.shape)
    if not right.dtype.is_floating_point:
        return float((found != right).sum())
    found, right = found.detach().double(), right.detach().double()
    apart = (found - right).abs()
    apart[found == right] = 0
    limit = right[right.isfinite()].abs().max() if right.isfinite().any() else 0.0
    return float((apart.max() / (limit + 1e-6)).nan_to_num(1e9)) if apart.numel() else 0.0


def is_near(found: torch.Tensor, right: torch.Tensor, limit: float) -> bool:
    return difference(found, right) <= limit


def _wide(inputs: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs)


def loss(results: Any) -> torch.Tensor:
    """A number that depends on all elements of all results."""
    floats = [o for o in tensors(results) if o.is_floating_point()]
    total: Any = 0
    for o in floats:
        total = total + (o * torch.sin(torch.arange(o.numel(), dtype=o.dtype, device=o.device)).view(o.shape)).sum()
    assert isinstance(total, torch.Tensor)
    return total


def right_forward(
    case: Case, seeds: Iterable[int], optimize: bool = True, sizes: Sizes = SMALL, device: str = "cpu"
) -> None:
    """Asserts that `from_module` gives the results of the module in f64, one import for all seeds."""
    imported = module = None
    for seed in seeds:
        made, inputs = _on(device, *case.make(sizes, seed))
        if module is None:
            module = made
            imported = dojoir.torch.from_module(
                copy.deepcopy(module), inputs, optimize=optimize, threads=1, whole=True
            )
        reference = copy.deepcopy(module).double()
        with torch.no_grad():
            found, right = tensors(imported(*inputs)), tensors(reference(*_wide(inputs)))
        for a, b in zip(found, right, strict=True):
            assert difference(a, b) <= FORWARD, f"{case.name}, seed {seed}: {difference(a, b):.1e}"
        if module.training and any(True for _ in module.buffers()):
            module = None  # its buffers have changed


def right_backward(
    case: Case, seeds: Iterable[int], optimize: bool = True, sizes: Sizes = SMALL, device: str = "cpu"
) -> None:
    """Asserts that `torch.compile` with dojoir, where nothing is left to PyTorch, gives results and gradients."""
    compiled = None
    for seed in seeds:
        module, inputs = _on(device, *case.make(sizes, seed))
        reference = copy.deepcopy(module).double()
        if compiled is None:
            torch._dynamo.reset()
            own = module
            backend = dojoir.torch.backend(whole=True, threads=1, optimize=optimize)
            compiled = torch.compile(own, backend=backend, fullgraph=True, dynamic=False)
        else:
            own.load_state_dict(module.state_dict())
            own.zero_grad()
        given = tuple(_leaf(x) for x in inputs)
        wide = tuple(_leaf(x) for x in _wide(inputs))
        found, right = compiled(*given), reference(*wide)
        loss(found).backward()
        loss(right).backward()
        for a, b in zip(tensors(found), tensors(right), strict=True):
            assert difference(a, b) <= FORWARD, f"{case.name}, seed {seed}: result {difference(a, b):.1e}"
        pairs = [*zip(given, wide, strict=True), *zip(own.parameters(), reference.parameters(), strict=True)]
        for a, b in pairs:
            if isinstance(b, torch.Tensor) and b.grad is not None:
                assert a.grad is not None
                apart = difference(a.grad, b.grad)
                assert apart <= BACKWARD, f"{case.name}, seed {seed}: gradient {apart:.1e}"


NARROW = {"bf16": (1e-3, 4e-3), "f16": (1e-3, 1e-3)}
"""How much further from f64 than 1.5 times what PyTorch is in a narrow type results and gradients may be."""


def narrow(case: Case, dtype: torch.dtype, seed: int = 0) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """A case in a narrow type."""
    module, inputs = case.make(SMALL, seed)
    return module.to(dtype), tuple(_as(x, dtype) for x in inputs)


def right_narrow(case: Case, name: str, seeds: Iterable[int] = (0,)) -> None:
    """Asserts that `from_module` in `bf16` or `f16` is about as near to f64 as PyTorch, and of the same types."""
    dtype, (limit, _) = _narrow_type(name), NARROW[name]
    imported = None
    for seed in seeds:
        module, inputs = narrow(case, dtype, seed)
        with torch.no_grad():
            right = tensors(copy.deepcopy(module).double()(*(_as(x, torch.float64) for x in inputs)))
            if imported is None:
                imported = dojoir.torch.from_module(copy.deepcopy(module), inputs, threads=1, whole=True)
            else:
                imported.module.load_state_dict(module.state_dict())
            eager, found = tensors(module(*inputs)), tensors(imported(*inputs))
        assert [one.dtype for one in found] == [one.dtype for one in eager]
        for one, its, other in zip(found, eager, right, strict=True):
            _check_narrow(case, one, its, other, limit, "result")


def right_narrow_backward(case: Case, name: str) -> None:
    """Asserts the same of the gradients, where nothing is left to PyTorch."""
    dtype, (_, limit) = _narrow_type(name), NARROW[name]
    module, inputs = narrow(case, dtype)
    backend = dojoir.torch.backend(whole=True, threads=1)
    torch._dynamo.reset()
    calls = copy.deepcopy(module), module, copy.deepcopy(module).double()
    compiled = torch.compile(calls[0], backend=backend, fullgraph=True, dynamic=False)
    given = [tuple(_leaf(x) for x in inputs) for _ in range(2)]
    given.append(tuple(_leaf(_as(x, torch.float64)) for x in inputs))
    for call, taken in zip((compiled, *calls[1:]), given, strict=True):
        loss(call(*taken)).backward()
    rows = [
        [*(x.grad for x in taken if isinstance(x, torch.Tensor)), *(p.grad for p in own.parameters())]
        for taken, own in zip(given, calls, strict=True)
    ]
    for one, its, other in zip(*rows, strict=True):
        if other is not None:
            assert one.dtype == dtype
            _check_narrow(case, one, its, other, limit, "gradient")


def _check_narrow(case: Case, found: Any, eager: Any, right: Any, limit: float, what: str) -> None:
    apart, its = difference(found, right), difference(eager, right)
    assert apart <= 1.5 * its + limit, f"{case.name}: {what} {apart:.1e}, PyTorch {its:.1e}"


def _narrow_type(name: str) -> torch.dtype:
    return {"bf16": torch.bfloat16, "f16": torch.float16}[name]


def _as(x: Any, dtype: torch.dtype) -> Any:
    return x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def _on(device: str, module: torch.nn.Module, inputs: tuple[Any, ...]) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    return module.to(device), tuple(x.to(device) if isinstance(x, torch.Tensor) else x for x in inputs)


def _leaf(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    return x.clone().requires_grad_(x.is_floating_point())
