"""Operators in ONNX: a node of its own for each, which a runtime that has it carries out."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import dojoir

_TYPES = {"float": "FLOAT", "int": "INT", "SymInt": "INT", "bool": "INT"}


def table(operators: tuple[Any, ...]) -> dict[Any, Callable[..., Any]]:
    """See `dojoir.torch.onnx_table`."""
    try:
        onnx, values = importlib.import_module("onnx"), importlib.import_module("onnxscript.values")
    except ImportError:
        raise dojoir.ToolchainError(
            "ONNX's exporter needs onnxscript, which is not installed: pip install onnx onnxscript", "no-onnx"
        ) from None
    return {operator: _node(operator, onnx, values) for operator in operators}


def _node(operator: Any, onnx: Any, values: Any) -> Callable[..., Any]:
    """The constructor of an operator's node: tensors are its inputs, numbers and sizes its attributes."""
    schema = getattr(operator, "_schema", None)
    if schema is None:
        raise dojoir.ArgumentError(
            f"a translation table is made of operators, not of {type(operator).__name__}: dojoir.torch.op makes "
            f"one",
            "bad-operator",
        )
    domain, _, name = schema.name.partition("::")
    defs = onnx.defs.OpSchema
    formal = defs.FormalParameter
    tensors = [a.name for a in schema.arguments if str(a.type) == "Tensor"]
    numbers = {a.name: _TYPES[str(a.type)] for a in schema.arguments if str(a.type) != "Tensor"}
    types = [f"tensor({t})" for t in ("double", "float", "float16", "bfloat16", "int64", "int32", "int8", "bool")]
    constraints = [(f"T{i}", types, "") for i in range(len(tensors) + len(schema.returns))]
    described = defs(
        name,
        domain,
        1,
        inputs=[formal(n, f"T{i}") for i, n in enumerate(tensors)],
        outputs=[formal(f"y{r}", f"T{len(tensors) + r}") for r in range(len(schema.returns))],
        type_constraints=constraints,
        attributes=[defs.Attribute(n, getattr(defs.AttrType, kind), required=True) for n, kind in numbers.items()],
    )
    node = values.Op(values.Opset(domain, 1), name, described)
    order = [a.name for a in schema.arguments]

    def translated(*given: Any, **named: Any) -> Any:
        found = dict(zip(order, given, strict=False)) | named
        return node(*(found[n] for n in tensors), **{n: found[n] for n in numbers})

    return translated
