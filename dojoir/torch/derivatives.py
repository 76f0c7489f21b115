"""Derivatives of an operator: what autograd is told of it, in reverse mode, in forward mode, and one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

import dojoir
from dojoir.torch.operator_form import OperatorForm


class DerivativeRules(NamedTuple):
    """The derivatives of an operator. `remember` keeps inputs, results and `extra` of a call in its context,
    `backward` makes gradients of gradients, `forward` tangents of tangents, where there is one. `call` gives the
    operator whose results have `extra` ones behind them; None for the operator itself."""

    remember: Callable[..., None]
    backward: Callable[..., Any]
    forward: Callable[..., Any] | None = None
    call: Callable[[tuple[Any, ...]], Any] | None = None


def no_rules(name: str) -> DerivativeRules:
    """For an operator without a backward: the error that says so, when one is asked for."""

    def backward(ctx: Any, *grads: Any) -> Any:
        raise dojoir.ArgumentError(
            f"{name} has no gradient: give dojoir.torch.op(…, backward=…) 'auto', a kernel or a function",
            "no-backward",
        )

    return DerivativeRules(lambda ctx, inputs, output, sizes, extra: None, backward)


def register(library: Any, below: str, form: OperatorForm, rules: DerivativeRules) -> None:
    """Tells PyTorch how to differentiate the operator. Tensors are brought into the form that the kernel declares
    by operators of PyTorch, which know their own derivatives; what the rules see is of that form."""
    namespace = form.name.partition("::")[0]

    def operator() -> Any:
        return getattr(getattr(torch.ops, namespace), below).default

    def plainly(given: tuple[Any, ...], sizes: dict[str, Any]) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return operator()(*given, **sizes)

    single: Any = torch.autograd.function._SingleLevelFunction

    count = len(form.results)

    def forward(ctx: Any, sizes: dict[str, Any], *given: Any) -> Any:
        extra: tuple[Any, ...] = ()
        if torch._C._are_functorch_transforms_active():
            with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):  # for the transforms around this one
                made = plainly(given, sizes)
        elif rules.call is not None and (keeping := rules.call(given)) is not None:
            with torch._C._AutoDispatchBelowAutograd():
                whole = keeping(*given, **sizes)
            made, extra = whole[0] if count == 1 else whole[:count], tuple(whole[count:])
        else:
            made = plainly(given, sizes)
        ctx.set_materialize_grads(True)
        rules.remember(ctx, given, made, sizes, extra)
        ctx.given = (given, sizes) if forward_ad._current_level >= 0 else None
        return made

    def backward(ctx: Any, *grads: Any) -> Any:
        found = rules.backward(ctx, *grads)
        return (None, *(found if isinstance(found, tuple) else (found,)))

    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        if rules.forward is None:
            raise no_forward(form.name)
        given, sizes = ctx.given
        return rules.forward(given, sizes, tangents)

    members = {name: staticmethod(function) for name, function in (
        ("forward", forward), ("backward", backward), ("jvp", jvp),
    )}  # fmt: skip
    recorded: Any = type(f"BackwardOf_{namespace}_{below}", (single,), members)
    positions = form.tensors

    def record(sizes: dict[str, Any], given: Sequence[Any]) -> Any:
        if torch._C._are_functorch_transforms_active():
            with enable_single_level_autograd_function():
                return recorded.apply(sizes, *given)
        return recorded.apply(sizes, *given)

    def autograd(*given: Any, **sizes: Any) -> Any:
        if not is_recorded(given, positions):
            return plainly(given, sizes)
        if form.is_as_declared(given):
            return record(sizes, given)
        found = form.arranged(given)
        made = record(sizes, found.tensors)
        if isinstance(made, tuple):
            return tuple(form.restored(one, found.lead) for one in made)
        return form.restored(made, found.lead)

    library.impl(below, autograd, "Autograd")


def is_recorded(given: tuple[Any, ...], positions: tuple[int, ...]) -> bool:
    """Whether a derivative may be asked of this call."""
    if torch.is_grad_enabled():
        for i in positions:
            if given[i].requires_grad:
                return True
    if forward_ad._current_level < 0:
        return False
    unpack: Any = forward_ad.unpack_dual
    return any(unpack(given[i]).tangent is not None for i in positions)


def no_forward(name: str) -> dojoir.ArgumentError:
    """That there are no tangents."""
    return dojoir.ArgumentError(
        f"{name} has no derivative in forward mode (jvp): dojoir.torch.op(…, backward='auto') makes one of its "
        f"kernel, where the gradient is taken of its text",
        "no-jvp",
    )
