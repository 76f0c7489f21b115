"""Kernels as operators of PyTorch: in eager code, under autograd, in what `torch.compile` makes.

PyTorch is imported when `op` is first called: `pip install 'dojoir[torch]'`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import dojoir

if TYPE_CHECKING:
    from dojoir.torch.operator import Operator

__all__ = ["op"]


def op(
    kernel: dojoir.Kernel | dojoir.Trace | dojoir.Versions,
    name: str,
    backward: dojoir.Kernel | dojoir.Trace | dojoir.Versions | Callable[..., Any] | str | None = None,
    *,
    threads: int | None = None,
    cuda: dojoir.Kernel | dojoir.Trace | None = None,
    dtypes: Sequence[object] = (),
    autocast: object = None,
) -> Operator:
    """A kernel, what a trace made of one, or versions of one by size (`dojoir.versions`), as the operator `name` of
    PyTorch (`"namespace::name"`), which is returned: `y = softmax(x)`, and `torch.ops.namespace.name` too.

    It takes what the kernel takes (`in` and `inout`), in declared order or by name, and the sizes that no shape
    gives, by name; it returns each `out` and `inout` as a new tensor, several as a tuple. Where every result is
    empty, it returns at once. It works on tensors in the layout that the kernel declares, in eager mode, under
    `torch.compile(fullgraph=True)`, and with gradients where `backward` is given:

    - a kernel or trace whose arguments are called as those of the operator (`x`), its results (`y`), or the
      gradients of its results (`grad_y`), and whose results are called `grad_x`; as a function on tensors alone;
    - or a function with parameters of such names. It returns the gradient of the only floating-point tensor that
      the operator takes, or a tuple with one for each, in declared order, or a mapping from `grad_x`.

    Tensors are on the CPU or on one GPU. There it runs in PyTorch's current stream, also while a graph records it
    (`torch.cuda.graph`), the kernel `cuda` where that is given (or the last one of that trace); else the kernel
    itself where it has scopes for grids, else what `dojoir.optimize` makes of its text for the GPU. It is compiled
    at the first such call.

    The same name again replaces the operator. Raises ArgumentError for what is not of this form, ToolchainError
    where PyTorch is missing, and what `dojoir.compile` raises.
    """
    if importlib.util.find_spec("torch") is None:
        raise dojoir.ToolchainError(
            "dojoir.torch.op needs PyTorch, which is not installed: pip install 'dojoir[torch]'", "no-torch"
        )
    from dojoir.torch.operator import define

    return define(kernel, name, backward, threads, cuda, dtypes, autocast)
