"""The functions that run an operator's kernel on tensors, and their substitutes when only shapes are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import dojoir
from dojoir.torch.operator_form import Arranged, OperatorForm
from dojoir.torch.quick import Quick
from dojoir.torch.variants import NAMES, TYPES

_NONE: dict[str, int] = {}


def on_cpu(form: OperatorForm) -> Callable[..., Any]:
    """The function that runs the kernel in the memory of the CPU. The checks of types, ranks and layouts come
    first, and are few: whatever does not fit them takes the longer way."""
    runners: dict[Any, Callable[..., Any]] = {}
    first = form.typed[0] if form.typed else None

    def otherwise(given: tuple[Any, ...], sizes: dict[str, Any]) -> Any:
        """Another type of all tensors has a runner of its own."""
        dtype = None if first is None else given[first].dtype
        name = None if dtype is None else NAMES.get(dtype)
        if name is None or name == form.base or name not in form.dtypes:
            return at_length(form, given, sizes)
        runner = runners.get(dtype)
        if runner is None:
            runner = runners[dtype] = _runner(form, name, lambda given, sizes: at_length(form, given, sizes))
        return runner(*given, **sizes)

    return _runner(form, None, otherwise)


def _runner(
    form: OperatorForm, name: str | None, otherwise: Callable[[tuple[Any, ...], Any], Any]
) -> Callable[..., Any]:
    """The function that runs the kernel on tensors of one type, and leaves the others to `otherwise`."""
    alone, order, copied, positions = len(form.results) == 1, form.order, form.copied, form.tensors
    checked, types, empty_strided = form.checked_as(name), form.types_of(name), torch.empty_strided
    variants, threads = form.variants, form.variants.threads
    compiled: list[Any] = []  # the threads of a call, the callable for as many and, in `run_plain`, its layouts

    def run(*given: Any, **sizes: Any) -> Any:
        for i, dtype, rank, plain in checked:
            tensor = given[i]
            if tensor.dtype != dtype or tensor.dim() != rank or (plain and not tensor.is_contiguous()):
                return otherwise(given, sizes)
        if not compiled or compiled[0] != threads():
            compiled[:] = threads(), variants.compiled(name)
        call = compiled[1]
        try:
            layouts = call.results([given[i].shape for i in positions], sizes)
            made = [
                empty_strided(shape, strides, dtype=dtype)
                for (shape, strides), dtype in zip(layouts, types, strict=True)
            ]
            if any(result.numel() for result in made) or not made:
                for i, r in copied:
                    made[r].copy_(given[i])
                call(*[given[i] if i >= 0 else made[~i] for i in order], **sizes)
        except dojoir.ArgumentError:
            return otherwise(given, sizes)
        return made[0] if alone else tuple(made)

    def run_plain(*given: Any) -> Any:
        """The same for inputs that are all tensors, followed by one result: quicker."""
        for i, dtype, rank, plain in checked:
            tensor = given[i]
            if tensor.dtype != dtype or tensor.dim() != rank or (plain and not tensor.is_contiguous()):
                return otherwise(given, _NONE)
        if not compiled or compiled[0] != threads():
            call = variants.compiled(name)
            compiled[:] = threads(), call, call.results
        _, call, results = compiled
        try:
            ((shape, strides),) = results([tensor.shape for tensor in given], _NONE)
            made = empty_strided(shape, strides, dtype=types[0])
            if made.numel():
                call(*given, made)
        except dojoir.ArgumentError:
            return otherwise(given, _NONE)
        return made

    count = len(form.inputs)
    plain = order == (*range(count), -1) and len(positions) == count and not form.sizes
    return run_plain if plain else run


def at_length(form: OperatorForm, given: tuple[Any, ...], sizes: dict[str, Any]) -> Any:
    """The same for tensors of any type, rank and layout that the operator takes. Raises ArgumentError for
    others."""
    found = form.arranged(given)
    call, tensors = _compiled(form, found)
    made = form.empty(tensors, sizes, found.name)
    if any(result.numel() for result in made) or not made:
        for i, r in form.copied:
            made[r].copy_(tensors[i])
        call(*[tensors[i] if i >= 0 else made[~i] for i in form.order], **sizes)
    restored = [form.restored(result, found.lead) for result in made]
    return restored[0] if len(restored) == 1 else tuple(restored)


def _compiled(form: OperatorForm, found: Arranged) -> tuple[dojoir.Compiled, list[Any]]:
    """The compiled kernel for the layout of some tensors, and these with copies of those that fit none."""
    tensors = list(found.tensors)
    apart = [i for i, _, _, plain in form.checked if plain and not tensors[i].is_contiguous()]
    call = None
    if apart and all(_has_rows_apart(tensors[i]) for i in apart):
        call = form.variants.strided(found.name)
    if call is None:
        for i in apart:
            tensors[i] = tensors[i].contiguous()
        call = form.variants.compiled(found.name)
    return call, tensors


def _has_rows_apart(tensor: Any) -> bool:
    """Whether the innermost elements lie side by side, and the other dimensions inside of one another."""
    if tensor.dim() < 2 or tensor.stride(-1) != 1 or 0 in tensor.shape:
        return False
    inner = tensor.shape[-1]
    for d in reversed(range(tensor.dim() - 1)):
        if tensor.stride(d) < inner:
            return False
        inner = tensor.stride(d) * tensor.shape[d]
    return True


def on_device(form: OperatorForm) -> Callable[..., Any]:
    """The function that runs the kernel on tensors of a GPU, in PyTorch's current stream."""
    quick = Quick(form)

    def run(*given: Any, **sizes: Any) -> Any:
        key = quick.key(given, sizes)
        results = None if key is None else quick.start(key, given)
        if results is not None:
            return results[0] if len(results) == 1 else tuple(results)
        found = form.arranged(given)
        tensors = list(found.tensors)
        for i, _, _, plain in form.checked:
            if plain:
                tensors[i] = tensors[i].contiguous()
        made = form.empty(tensors, sizes, found.name)
        if any(result.numel() for result in made) or not made:
            for i, r in form.copied:
                made[r].copy_(tensors[i])
            call = form.variants.on_device(found.name)
            arguments = [tensors[i] if i >= 0 else made[~i] for i in form.order]
            call(*arguments, **sizes)
            if key is not None:
                quick.remember(key, call.compiled, arguments, list(made), sizes)
        restored = [form.restored(result, found.lead) for result in made]
        return restored[0] if len(restored) == 1 else tuple(restored)

    return run


def fake(form: OperatorForm) -> Callable[..., Any]:
    """The function that gives results without contents, when a graph is made."""

    def run(*given: Any, **sizes: Any) -> Any:
        found = form.arranged(given)
        for i in form.tensors:
            buffer, tensor = form.inputs[i], found.tensors[i]
            declared = buffer.dtype.name
            dtype = TYPES[found.name if found.name is not None and declared == form.base else declared]
            if tensor.dim() != len(buffer.dims) or tensor.dtype != dtype:
                raise dojoir.ArgumentError(
                    f"{form.name}: argument {buffer.name} is a {tensor.dim()}-dimensional tensor of {tensor.dtype}"
                    f", and the kernel declares {len(buffer.dims)} dimensions of {dtype}",
                    "bad-dtype" if tensor.dim() == len(buffer.dims) else "bad-rank",
                )
        made = [form.restored(one, found.lead) for one in form.empty(found.tensors, sizes, found.name)]
        return made[0] if len(made) == 1 else tuple(made)

    return run
