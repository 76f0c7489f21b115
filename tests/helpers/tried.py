"""What an operator made of a kernel is given, and what comes of it, as a table: types, layouts and ways to call it.

The kernel is layernorm, one over rows, with `backward="auto"`; what is right is PyTorch's own in f64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dojoir

TYPES = ("f64", "f32", "bf16", "f16")
ERRORS = {"f64": 1e-9, "f32": 1e-4, "bf16": 6e-2, "f16": 8e-3}
"""How far a result may be from that in f64, where values are about 1."""

N, M = 6, 8
EPS = 1e-3


def torch() -> Any:
    import torch

    return torch


def dtype_of(name: str) -> Any:
    names = {"f64": "float64", "f32": "float32", "bf16": "bfloat16", "f16": "float16"}
    return getattr(torch(), names[name])


def operator() -> Any:
    kernel = dojoir.kernels.load("layernorm")
    return dojoir.torch.op(kernel, "dojoir_tried::layernorm", "auto", dtypes=TYPES)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "dense": lambda x: x(N, M),
    "more dimensions": lambda x: x(2, 3, M),
    "one row": lambda x: x(M),
    "no rows": lambda x: x(0, M),
    "transposed": lambda x: x(M, N).t(),
    "permuted": lambda x: x(3, M, 2).permute(0, 2, 1),
    "rows apart, `x[:, :M]`": lambda x: x(N, M + 3)[:, :M],
    "`x[:, ::2]`": lambda x: x(N, 2 * M)[:, ::2],
    "a row repeated, `expand`": lambda x: x(1, M).expand(N, M),
    "channels last": lambda x: x(2, 3, 4, M).to(memory_format=torch().channels_last),
}
"""Tensors of each layout, made of dense ones."""

Call = Callable[[Any, Any, Any], Any]


def eager(op: Call) -> Call:
    return op


def compiled(op: Call) -> Call:
    return torch().compile(op, fullgraph=True, dynamic=False)


def dynamic(op: Call) -> Call:
    return torch().compile(op, fullgraph=True, dynamic=True)


def graph(op: Call) -> Call:
    return torch().compile(op, fullgraph=True, backend="aot_eager")


def autocast(op: Call) -> Call:
    def call(*given: Any) -> Any:
        with torch().autocast("cpu", dtype=torch().bfloat16):
            return op(*given)

    return call


def batched(op: Call) -> Call:
    def call(x: Any, g: Any, b: Any) -> Any:
        return torch().vmap(op, in_dims=(0, None, None))(torch().stack([x, x]), g, b)[0]

    return call


WAYS: dict[str, Callable[[Call], Call]] = {
    "eager": eager, "compiled": compiled, "dynamic": dynamic, "autocast": autocast, "vmap": batched,
}  # fmt: skip
"""Ways to call an operator."""


def tried(op: Call, layout: str, name: str, way: Callable[[Call], Call], narrow: bool = False) -> str:
    """What comes of one call and its gradients: `right`, `wrong`, or the error. With `narrow`, g is one element."""
    library = torch()
    library.manual_seed(0)
    dtype = dtype_of(name)
    leaves: list[Any] = []

    def leaf(*shape: int) -> Any:
        leaves.append(library.randn(*shape).to(dtype).requires_grad_())
        return leaves[-1]

    x, g, b = LAYOUTS[layout](leaf), leaf(M), leaf(M)
    torch()._dynamo.reset()
    try:
        y = way(lambda x, g, b: op(x, g[:1] if narrow else g, b, EPS))(x, g, b)
        y.square().sum().backward()
    except Exception as error:
        return type(error).__name__
    found = [y.detach(), *(one.grad for one in leaves)]
    leaves, wide = [], [one.detach().double().requires_grad_() for one in leaves]
    again = iter(wide)
    x, g, b = LAYOUTS[layout](lambda *_: next(again)), next(again), next(again)
    first = (g[:1] if narrow else g).expand(M)
    want = library.nn.functional.layer_norm(x, (M,), first, b, EPS)
    want.square().sum().backward()
    wanted = [want.detach(), *(one.grad for one in wide)]
    for one, other in zip(found, wanted, strict=True):
        scale = max(1.0, float(other.abs().max())) if other.numel() else 1.0
        if one.dtype != dtype or one.shape != other.shape:
            return "wrong"
        if other.numel() and float((one.double() - other).abs().max()) > ERRORS[name] * scale:
            return "wrong"
    return "right"


def row(op: Call, layout: str, narrow: bool = False) -> list[str]:
    """The cells of a layout: for each way the types that were right, and what else came."""
    cells = []
    for way in WAYS.values():
        found = {name: tried(op, layout, name, way, narrow) for name in TYPES}
        if set(found.values()) == {"right"}:
            cells.append("right")
        else:
            cells.append(", ".join(f"{name}: {what}" for name, what in found.items() if what != "right"))
    return cells
