"""The operator of one kernel: its schema, what runs it, what stands for it when shapes alone are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

import dojoir
from dojoir.torch.device import Given, OnDevice, to_compile
from dojoir.torch.gradients import Gradients, gradients_of

Operator = Any
"""`torch._ops.OpOverload`: a callable that PyTorch dispatches."""

_NAME = re.compile(r"([A-Za-z_]\w*)::([A-Za-z_]\w*)")

_libraries: dict[str, Any] = {}
"""What defines an operator, by name: PyTorch forgets an operator with it."""

_TYPES: dict[str, torch.dtype] = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2, "f4e2m1": torch.uint8,
    "i4": torch.int8, "u4": torch.uint8,
    "f8e8m0": getattr(torch, "float8_e8m0fnu", torch.uint8),  # from 2.7 on
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
    "u64": torch.uint64, "u32": torch.uint32, "u16": torch.uint16, "u8": torch.uint8, "bool": torch.bool,
}  # fmt: skip
"""The type of a tensor for each type of a kernel."""


def define(kernel: object, name: str, backward: object, threads: int | None, cuda: object) -> Operator:
    """Registers the operator: see `dojoir.torch.op`."""
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        shown = repr(name) if isinstance(name, str) else type(name).__name__
        raise dojoir.ArgumentError(
            f'an operator of PyTorch is called "namespace::name", not {shown}', "bad-operator-name"
        )
    given = _given(kernel, "op")
    own = None if cuda is None else _given(cuda, "cuda=")
    form = Form(dojoir.compile(to_compile(given), threads=threads), OnDevice(given, own))
    gradients = None if backward is None else _gradients(form, name, backward, threads)
    return register(form, name, gradients)


def _gradients(form: Form, name: str, backward: object, threads: int | None) -> Gradients:
    """What computes the gradients: a function of the user's, or an operator made of a kernel."""
    if not isinstance(backward, dojoir.Kernel | dojoir.Trace | dojoir.Versions):
        if callable(backward):
            return gradients_of(form, name, backward)
        raise dojoir.ArgumentError(
            f"backward takes a kernel, a trace or a function, not {type(backward).__name__}", "bad-backward"
        )
    given = _given(backward, "backward")
    own = Form(dojoir.compile(to_compile(given), threads=threads), OnDevice(given, None))
    operator = register(own, f"{name}_backward", None)
    return gradients_of(form, name, operator, own)


def _given(given: object, what: str) -> Given:
    if isinstance(given, dojoir.Kernel | dojoir.Trace | dojoir.Versions):
        return given
    raise dojoir.ArgumentError(
        f"{what} takes a kernel, a trace or versions of one, not {type(given).__name__}: dojoir.parse makes a "
        f"kernel of a text",
        "not-a-kernel",
    )


class Form:
    """What an operator takes and returns, and what runs it: `compiled` in the memory of the CPU, `on_device` in
    that of a GPU."""

    def __init__(self, compiled: dojoir.Compiled, on_device: OnDevice) -> None:
        self.compiled, self.on_device = compiled, on_device
        self.arguments = compiled.kernel.arguments
        self.inputs = tuple(b for b in self.arguments if b.role != "out")
        self.results = tuple(b for b in self.arguments if b.role != "in")
        self.sizes = compiled.open_sizes
        self.tensors = tuple(i for i, b in enumerate(self.inputs) if b.dims or b.role == "inout")
        self.types = tuple(_TYPES[b.dtype.name] for b in self.results)

    @property
    def schema(self) -> str:
        """The operator's types, in PyTorch's notation."""
        takes = [f"{self._type(i)} {b.name}" for i, b in enumerate(self.inputs)]
        takes += ["*", *(f"SymInt {name}" for name in self.sizes)] if self.sizes else []
        returns = ["Tensor"] * len(self.results)
        return f"({', '.join(takes)}) -> {returns[0] if len(returns) == 1 else '(' + ', '.join(returns) + ')'}"

    def _type(self, i: int) -> str:
        dtype = self.inputs[i].dtype
        return "Tensor" if i in self.tensors else {"f": "float", "b": "bool"}.get(dtype.kind, "int")

    def empty(self, given: Sequence[Any], sizes: dict[str, Any]) -> list[torch.Tensor]:
        """New tensors for the results."""
        layouts = self.compiled.results([given[i].shape for i in self.tensors], sizes)
        device = given[self.tensors[0]].device if self.tensors else None
        return [
            torch.empty_strided(shape, strides, dtype=dtype, device=device)
            for (shape, strides), dtype in zip(layouts, self.types, strict=True)
        ]


def register(form: Form, name: str, gradients: Gradients | None) -> Operator:
    """The operator `name`, in place of one that was called so before."""
    namespace, _, below = name.partition("::")
    old = _libraries.pop(name, None)
    if old is not None:
        old._destroy()
    new_library: Any = torch.library.Library  # its methods have no types
    library = new_library(namespace, "FRAGMENT")
    try:
        library.define(below + form.schema)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise dojoir.ArgumentError(f"PyTorch does not take the operator {name}: {reason}", "bad-operator") from None
    _libraries[name] = library
    library.impl(below, _run(form), "CPU")
    library.impl(below, run_on_device(form), "CUDA")  # of AMD's GPUs too
    torch.library.register_fake(name, _fake(form, name), lib=library)
    remember, backward = gradients if gradients is not None else _no_gradients(name)
    torch.library.register_autograd(name, backward, setup_context=remember, lib=library)
    return getattr(getattr(torch.ops, namespace), below).default


def _run(form: Form) -> Callable[..., Any]:
    """What runs the kernel on tensors."""
    call = form.compiled
    order = _order(form)
    copied = tuple((form.inputs.index(b), r) for r, b in enumerate(form.results) if b.role == "inout")
    alone = len(form.results) == 1
    results, positions, empty_strided, types = call.results, form.tensors, torch.empty_strided, form.types

    def run(*given: Any, **sizes: Any) -> Any:
        layouts = results([given[i].shape for i in positions], sizes)
        made = [
            empty_strided(shape, strides, dtype=dtype)
            for (shape, strides), dtype in zip(layouts, types, strict=True)
        ]
        if any(result.numel() for result in made) or not made:
            for i, r in copied:
                made[r].copy_(given[i])
            call(*[given[i] if i >= 0 else made[~i] for i in order], **sizes)
        return made[0] if alone else tuple(made)

    def run_plain(*given: Any) -> Any:
        """The same for inputs that are all tensors, followed by one result: quicker."""
        ((shape, strides),) = results([tensor.shape for tensor in given], _NONE)
        made = empty_strided(shape, strides, dtype=types[0])
        if made.numel():
            call(*given, made)
        return made

    count = len(form.inputs)
    plain = order == (*range(count), -1) and len(positions) == count and not form.sizes
    return run_plain if plain else run


def run_on_device(form: Form) -> Callable[..., Any]:
    """What runs the kernel on tensors of a GPU, in PyTorch's current stream."""
    call, order = form.on_device, _order(form)
    copied = tuple((form.inputs.index(b), r) for r, b in enumerate(form.results) if b.role == "inout")
    alone = len(form.results) == 1

    def run(*given: Any, **sizes: Any) -> Any:
        made = form.empty(given, sizes)
        if any(result.numel() for result in made) or not made:
            for i, r in copied:
                made[r].copy_(given[i])
            call(*[given[i] if i >= 0 else made[~i] for i in order], **sizes)
        return made[0] if alone else tuple(made)

    return run


_NONE: dict[str, int] = {}


def _order(form: Form) -> tuple[int, ...]:
    """For each argument of the kernel the input that it is, or, below zero, the result."""
    return tuple(form.inputs.index(b) if b.role == "in" else ~form.results.index(b) for b in form.arguments)


def _fake(form: Form, name: str) -> Callable[..., Any]:
    """What gives results without contents, when a graph is made."""

    def fake(*given: Any, **sizes: Any) -> Any:
        for i in form.tensors:
            buffer, tensor = form.inputs[i], given[i]
            if tensor.dim() != len(buffer.dims) or tensor.dtype != _TYPES[buffer.dtype.name]:
                raise dojoir.ArgumentError(
                    f"{name}: argument {buffer.name} is a {tensor.dim()}-dimensional tensor of {tensor.dtype}, and "
                    f"the kernel declares {len(buffer.dims)} dimensions of {_TYPES[buffer.dtype.name]}",
                    "bad-dtype" if tensor.dim() == len(buffer.dims) else "bad-rank",
                )
        made = form.empty(given, sizes)
        return made[0] if len(made) == 1 else tuple(made)

    return fake


def _no_gradients(name: str) -> Gradients:
    """For an operator without a backward: the error that says so, when one is asked for."""

    def backward(ctx: Any, *grads: Any) -> Any:
        raise dojoir.ArgumentError(
            f"{name} has no gradient: give dojoir.torch.op(…, backward=…) a kernel or a function", "no-backward"
        )

    return (lambda ctx, inputs, output, keyword_only_inputs=None: None), backward
