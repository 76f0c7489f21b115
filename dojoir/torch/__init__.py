"""Kernels as operators of PyTorch: in eager code, under autograd, in what `torch.compile` makes.

PyTorch is imported when `op` is first called: `pip install 'dojoir[torch]'`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dojoir
from dojoir.passes import Versions

if TYPE_CHECKING:
    from dojoir.torch.imported import Imported
    from dojoir.torch.operator import Operator

__all__ = ["backend", "from_module", "onnx_table", "op"]


def op(
    kernel: dojoir.Kernel | dojoir.Trace | Versions,
    name: str,
    backward: dojoir.Kernel | dojoir.Trace | Versions | Callable[..., Any] | str | None = None,
    *,
    threads: int | None = None,
    cuda: dojoir.Kernel | dojoir.Trace | None = None,
    dtypes: Sequence[object] = (),
    autocast: object = None,
    schedule: str | None = "auto",
) -> Operator:
    """A kernel, what a trace made of one, or versions of one by size (`dojoir.schedules.versions`), as the
    operator `name` of PyTorch (`"namespace::name"`), which is returned: `y = softmax(x)`, and
    `torch.ops.namespace.name` too.

    It takes what the kernel takes (`in` and `inout`), in declared order or by name, and the sizes that no shape
    gives, by name. It returns each `out` and `inout` as a new tensor, several as a tuple. Where every result is
    empty, it returns at once. It works in eager mode, under `torch.compile(fullgraph=True)`, in what
    `torch.export` makes, under `torch.vmap`, and with gradients where `backward` is given:

    - `"auto"`: made of the text by `dojoir.gradient`; then there are derivatives of every order, in reverse and in
      forward mode (`torch.func`);
    - a kernel or trace whose arguments are called as those of the operator (`x`), its results (`y`), or the
      gradients of its results (`grad_y`), and whose results are called `grad_x`; as a function on tensors alone;
    - or a function with parameters of such names. It returns the gradient of the only floating-point tensor that
      the operator takes, or a tuple with one for each, in declared order, or a mapping from `grad_x`.

    `threads` is how many threads a call has on the CPU. By default each call has as many as PyTorch has then
    (`torch.set_num_threads`), or `$DOJOIR_THREADS`; what is scheduled is so for as many as there are at first.

    A text is scheduled by `dojoir.optimize` when the operator is made; with `schedule=None`, or where it has marks,
    it runs as it is written. What a trace made, and versions, run as they are.

    `dtypes` are types besides the declared one that its floating-point tensors may have (`("bf16",
    torch.float16)`). The results then have the type of the call, what is computed in between stays f32 (f64 for
    f64), and a mix of them is promoted as PyTorch does. A kernel for another type is compiled at the first such
    call. Under autocast inputs are cast to `autocast`, by default to the declared type where there is no other,
    else not at all.

    Tensors may lie in any way: rows apart from one another are read as they are, all else is copied. Where each
    row of the results is computed from that row of the inputs, any leading dimensions, or none, may stand for the
    rows; an extent of 1 is expanded.

    Tensors are on the CPU or on one GPU. There it runs in PyTorch's current stream, also while a graph records it
    (`torch.cuda.graph`), the kernel `cuda` where that is given (or the last one of that trace). Else the kernel
    itself where it has scopes for grids, else what `dojoir.optimize` makes of its text for the GPU. It is compiled
    at the first such call.

    An operator is pickled with what it was made of.

    The same name again replaces the operator. Raises ArgumentError for what is not of this form, KernelError for a
    text without a gradient, ToolchainError where PyTorch is missing, and what `dojoir.compile` raises.
    """
    _need("op")
    from dojoir.torch.operator import define

    return define(kernel, name, backward, threads, cuda, dtypes, autocast, schedule)


def onnx_table(*operators: Operator) -> dict[Operator, Callable[..., Any]]:
    """The translation table of some operators for ONNX:
    `torch.onnx.export(model, args, dynamo=True, custom_translation_table=onnx_table(softmax))`.

    Each becomes a node of its own, named as it is, in the domain of its namespace: its inputs are the tensors, its
    attributes the numbers and sizes. Raises ToolchainError (`no-onnx`) where onnxscript is missing, ArgumentError
    for what is no operator.
    """
    from dojoir.torch.onnx import table

    return table(operators)


def from_module(
    module: Any,
    example_inputs: Sequence[Any],
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: Any = None,
    optimize: bool = True,
    threads: int | None = None,
    budget: float | None = None,
    whole: bool = False,
) -> Imported:
    """A module of PyTorch as kernels: it is exported with `example_inputs` (a tuple, and `kwargs` by name), its
    operators are read, and what belongs together becomes one text, which `dojoir.optimize` schedules. What is
    returned is a module again: it is called as the given one, whose parameters it shares, on the CPU or on a GPU.

    - `.text` is what was read, before it is scheduled; `.kernel` the same as a kernel, where it is one; `.kernels`
      are those that run.
    - `dynamic` says which sizes stay open, as `dynamic_shapes` of `torch.export.export` does: for an argument `x`
      `{"x": {0: torch.export.Dim("batch")}}`. All others are fixed to those of the example.
    - Where gradients are asked for, forward and backward pass are what `torch.compile(module, backend="dojoir")`
      makes of the module.
    - `optimize=False` runs the texts as they were written; `budget` is seconds for planning on a CPU, past which
      the kernels that are left do. What was planned is kept, and the next process goes on from there.
    - An operator that there is no text for is left to PyTorch, and the graph is cut around it: `.left` are these,
      with the lines of the model. With `whole` such a module is refused.

    Raises ArgumentError: `no-export` where PyTorch cannot export the module, `no-operator` where it is to be
    `whole` and is not; and ToolchainError where PyTorch is missing.
    """
    _need("from_module")
    from dojoir.torch.imported import import_module

    return import_module(module, example_inputs, kwargs, dynamic, optimize, threads, budget, whole)


def backend(
    *, whole: bool = False, threads: int | None = None, optimize: bool = True, budget: float | None = None
) -> Any:
    """A backend of `torch.compile`, as `torch.compile(module, backend="dojoir")` has one, with a report of its own:
    after a call, `print(backend.report)` says how many kernels there are and which operators were left to PyTorch.

    `whole` refuses what would be left, by ArgumentError, `no-operator`; `optimize` and `budget` are those of
    `from_module`. All four are `options=` of `torch.compile`, too."""
    _need("backend")
    from dojoir.torch.compiler import CompileBackend

    return CompileBackend(whole=whole, threads=threads, optimize=optimize, budget=budget)


def _need(name: str) -> None:
    if importlib.util.find_spec("torch") is None:
        raise dojoir.ToolchainError(
            f"dojoir.torch.{name} needs PyTorch, which is not installed: pip install 'dojoir[torch]'", "no-torch"
        )
