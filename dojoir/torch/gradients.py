"""The gradient of an operator: what is kept of a call, and what computes gradients from it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

import dojoir
from dojoir.torch.derivatives import DerivativeRules

if TYPE_CHECKING:
    from dojoir.torch.operator_form import OperatorForm


def gradients_of(
    form: OperatorForm, name: str, function: Callable[..., Any], own: OperatorForm | None = None
) -> DerivativeRules:
    """The rules of an operator whose gradients `function` computes; `own` is its form where it is an operator made
    of a kernel."""
    taken = {b.name: i for i, b in enumerate(form.inputs)}
    results = {b.name: i for i, b in enumerate(form.results)}
    gradients = {f"grad_{result}": i for result, i in results.items()}
    takes = _parameters(function, name) if own is None else [*(b.name for b in own.inputs), *own.sizes]
    known = {*taken, *results, *gradients, *form.sizes}
    for parameter in takes:
        if parameter not in known:
            raise dojoir.ArgumentError(
                f"backward of {name} takes '{parameter}', which is no argument or result of it, and no gradient of "
                f"a result: these are called {', '.join(sorted(known))}",
                "bad-backward",
            )
    wanted = [b.name for i, b in enumerate(form.inputs) if i in form.tensors and b.dtype.is_float]
    if own is not None:
        _check_results(form, own, name, wanted)
    kept_inputs = [n for n in taken if n in takes and taken[n] in form.tensors]
    kept_results = [n for n in results if n in takes and n not in taken]

    def remember(
        ctx: Any, inputs: tuple[Any, ...], output: Any, sizes: dict[str, Any], extra: tuple[Any, ...]
    ) -> None:
        outputs = output if isinstance(output, tuple | list) else (output,)
        ctx.save_for_backward(
            *(inputs[taken[n]] for n in kept_inputs), *(outputs[results[n]] for n in kept_results)
        )
        ctx.numbers = {n: inputs[i] for n, i in taken.items() if n in takes and i not in form.tensors}
        ctx.numbers |= {n: value for n, value in sizes.items() if n in takes}

    def backward(ctx: Any, *grads: Any) -> Any:
        saved = ctx.saved_tensors
        values: dict[str, Any] = dict(zip([*kept_inputs, *kept_results], saved, strict=True)) | ctx.numbers
        values |= {n: grads[i].contiguous() for n, i in gradients.items() if n in takes}
        found = function(**{n: values[n] for n in takes})
        named = _named(found, name, wanted, None if own is None else [b.name for b in own.results])
        made: list[Any] = [None] * len(taken)
        for n, i in taken.items():
            made[i] = named.get(f"grad_{n}")
            if made[i] is None and ctx.needs_input_grad[i + 1]:
                raise dojoir.ArgumentError(
                    f"backward of {name} gives no gradient for {n}, which requires one: let it return grad_{n}, or "
                    f"pass {n}.detach()",
                    "no-gradient",
                )
        return made[0] if len(made) == 1 else tuple(made)

    return DerivativeRules(remember, backward)


def _parameters(function: Callable[..., Any], name: str) -> list[str]:
    """The names that a function of the user's takes."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters
    for parameter in parameters.values():
        if parameter.kind not in named:
            raise dojoir.ArgumentError(
                f"backward of {name} takes '{parameter}': name the arguments, results and gradients that it needs",
                "bad-backward",
            )
    return list(parameters)


def _check_results(form: OperatorForm, own: OperatorForm, name: str, wanted: list[str]) -> None:
    """That a kernel returns gradients, each of the type and rank of what it is for."""
    by_name = {f"grad_{b.name}": b for b in form.inputs if b.name in wanted}
    for result in own.results:
        of = by_name.get(result.name)
        if of is None:
            raise dojoir.ArgumentError(
                f"backward of {name} returns '{result.name}', and should return some of {', '.join(by_name)}",
                "bad-backward",
            )
        if of.dtype != result.dtype or len(of.dims) != len(result.dims):
            raise dojoir.ArgumentError(
                f"backward of {name} returns {result.name} as {result.dtype} of {len(result.dims)} dimensions, and "
                f"{of.name} is {of.dtype} of {len(of.dims)}",
                "bad-backward",
            )


def _named(found: Any, name: str, wanted: list[str], returned: list[str] | None) -> dict[str, Any]:
    """Gradients by name, of what a function returned."""
    if isinstance(found, Mapping):
        return dict(found)
    names = returned if returned is not None else [f"grad_{n}" for n in wanted]
    several = found if isinstance(found, tuple | list) else (found,)
    if len(several) != len(names) or not all(value is None or isinstance(value, torch.Tensor) for value in several):
        raise dojoir.ArgumentError(
            f"backward of {name} returned {type(found).__name__}, and should return {', '.join(names)} as tensors",
            "bad-backward",
        )
    return dict(zip(names, several, strict=True))
