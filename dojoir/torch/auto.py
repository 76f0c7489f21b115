"""The derivatives of an operator, made of the text of its kernel: one for gradients, one for tangents."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

import dojoir
from dojoir.torch.derivatives import DerivativeRules, no_rules
from dojoir.torch.kept_temporaries import with_results, worth_keeping
from dojoir.torch.operator_form import OperatorForm
from dojoir.torch.operator_on_gpu import last
from dojoir.torch.thread_count import threads_now
from dojoir.torch.variants import NAMES, WIDE, Variants

Register = Callable[[OperatorForm, DerivativeRules], Any]


@dataclass(frozen=True)
class _Keeping:
    """A call that keeps temporaries: their names, its operator, and that of the gradients with its form."""

    names: tuple[str, ...]
    call: Any
    form: OperatorForm
    backward: Any


class Auto:
    """The gradients of one operator. `register` makes an operator of a form and its rules."""

    def __init__(self, form: OperatorForm, threads: int | None, register: Register, level: int = 1) -> None:
        self._form, self._threads, self._register, self._level = form, threads, register, level
        self._prefix = "d" * level + "_"
        self._given = {b.name: i for i, b in enumerate(form.inputs)}
        self._of = tuple(
            b.name for i, b in enumerate(form.inputs) if i in form.tensors and b.dims and b.dtype.name in WIDE
        )

    @cached_property
    def plain(self) -> dojoir.Kernel:
        """The kernel of the gradients by all floating-point tensors, which computes again what it needs. Raises
        ArgumentError or KernelError where it has none."""
        return self._gradient(())

    @cached_property
    def kernel(self) -> dojoir.Kernel:
        """The same; it takes results of the call where that leaves statements out. Not those that calls in bf16 or
        f16 round."""
        kept = tuple(b.name for b in self._form.results if b.role == "out" and b.dims and b.dtype.name in WIDE)
        if not kept or {"bf16", "f16"} & {self._form.base, *self._form.dtypes}:
            return self.plain
        try:
            found = self._gradient(kept)
        except dojoir.DojoError:  # a result that is not kept as it was needed
            return self.plain
        return found if len(found.sites) < len(self.plain.sites) else self.plain

    def _gradient(self, kept: tuple[str, ...]) -> dojoir.Kernel:
        given = self._form.variants.given()
        start = last(given) if isinstance(given, dojoir.Kernel) else given.start
        made = dojoir.gradient(start, of=self._of, keep=kept, prefix=self._prefix)
        return with_arrays(self._prefix, made)

    @cached_property
    def gradients(self) -> tuple[OperatorForm, Any]:
        """The operator of the gradients: it has derivatives of its own, found when they are asked for."""
        form = self._made(f"{self._form.name}_backward", self.kernel)
        deeper = Auto(form, self._threads, self._register, self._level + 1)
        return form, self._register(form, deeper.rules())

    @cached_property
    def keeping(self) -> _Keeping | None:
        """The operators of a call that keeps temporaries for its gradients; None where that spares nothing. They
        have no derivatives: gradients of gradients compute those again."""
        if self._form.base in ("bf16", "f16") or self._form.variants.has_own or self._level > 1:
            return None
        given = self._form.variants.given()
        start = last(given) if isinstance(given, dojoir.Kernel) else given.start
        results = tuple(b.name for b in self._form.results if b.role == "out" and b.dims and b.dtype.name in WIDE)
        temporaries = worth_keeping(start)
        if not temporaries:
            return None
        try:
            found = self._gradient((*results, *temporaries))
            taken = {b.name for b in found.arguments if b.role == "in"}
            names = tuple(name for name in temporaries if name in taken)
            known = {b.name for b in self.kernel.arguments} | {*names, *results}
            if not names or len(found.sites) >= len(self.kernel.sites) or not taken <= known:
                return None
            text = with_results(given, names, self._threads)
        except dojoir.DojoError:  # no results, or not as they were needed
            return None
        variants = Variants(lambda: text, None, self._threads)
        form = OperatorForm(f"{self._form.name}_kept", last(text), variants, self._form.dtypes)
        own = self._made(f"{self._form.name}_kept_backward", found)
        if {*own.sizes} - {*self.gradients[0].sizes} or form.sizes != self._form.sizes:
            return None
        calls = [self._register(one, no_rules(one.name)) for one in (form, own)]
        return _Keeping(names, calls[0], own, calls[1])

    @cached_property
    def tangents(self) -> tuple[OperatorForm, Any]:
        """The operator of the tangents: the gradient of the gradients, which are linear in what they are given."""
        seeds = tuple(b.name for b in self.plain.arguments if b.name in self._seeds and b.role != "out")
        kernel = with_arrays("t_", dojoir.gradient(self.plain, of=seeds, prefix="t_"))
        form = self._made(f"{self._form.name}_jvp", kernel)
        deeper = Auto(form, self._threads, self._register, self._level + 1)
        return form, self._register(form, deeper.rules())

    @property
    def _seeds(self) -> dict[str, int]:
        """The gradients of results by name, and which result each is of."""
        return {f"{self._prefix}{b.name}": r for r, b in enumerate(self._form.results)}

    def _made(self, name: str, kernel: dojoir.Kernel) -> OperatorForm:
        variants = Variants(
            lambda: dojoir.optimize(kernel, threads=threads_now(self._threads)()), None, self._threads
        )
        return OperatorForm(name, kernel, variants, self._form.dtypes)

    def rules(self) -> DerivativeRules:
        """The autograd rules of the operator."""
        return DerivativeRules(self._remember, self._backward, self._forward, self._call)

    # -- reverse -----------------------------------------------------------------------------------------
    def _call(self, given: tuple[Any, ...]) -> Any:
        """The operator that keeps temporaries, for a call of a type that does not round them."""
        if self._form.typed and NAMES.get(given[self._form.typed[0]].dtype) in ("bf16", "f16"):
            return None
        return None if self.keeping is None else self.keeping.call

    def _remember(
        self, ctx: Any, inputs: tuple[Any, ...], output: Any, sizes: dict[str, Any], extra: tuple[Any, ...]
    ) -> None:
        own, _ = self.gradients
        needed = {b.name: None for b in own.inputs}
        temporaries: tuple[str, ...] = ()
        if extra and self.keeping is not None:
            temporaries = self.keeping.names
            needed |= {b.name: None for b in self.keeping.form.inputs}
        kept = [name for name in needed if name in self._given and name not in self._seeds]
        tensors = [name for name in kept if self._given[name] in self._form.tensors]
        outputs = dict(
            zip((b.name for b in self._form.results), output if isinstance(output, tuple | list) else (output,),
                strict=True)
        )  # fmt: skip
        results = [name for name in needed if name in outputs and name not in self._given]
        ctx.save_for_backward(
            *(inputs[self._given[name]] for name in tensors), *(outputs[name] for name in results), *extra
        )
        ctx.names = [*tensors, *results, *temporaries]
        ctx.keeps = bool(temporaries)
        ctx.zeros = [self._zeros(b.name, inputs[i]) for i, b in enumerate(self._form.inputs)]
        ctx.numbers = {name: inputs[self._given[name]] for name in kept if name not in tensors}
        ctx.sizes = self._sizes(own, inputs, sizes)

    def _zeros(self, name: str, given: Any) -> Callable[[], Any] | None:
        if name not in self._of:
            return None
        shape, dtype, device = given.shape, given.dtype, given.device
        return lambda: torch.zeros(shape, dtype=dtype, device=device)

    def _sizes(self, own: OperatorForm, inputs: tuple[Any, ...], sizes: dict[str, Any]) -> dict[str, Any]:
        """The sizes that an operator takes by name."""
        found: dict[str, Any] = {}
        for name in own.sizes:
            if name in sizes:
                found[name] = sizes[name]
                continue
            places = self._form.places.get(name)
            if not places:
                raise dojoir.ArgumentError(
                    f"{self._form.name}: no shape of an input is the size {name}, which its gradient needs: give "
                    f"dojoir.torch.op(…, backward=…) a kernel or a function",
                    "no-backward",
                )
            i, d = places[0]
            found[name] = inputs[i].shape[d]
        return found

    def _backward(self, ctx: Any, *grads: Any) -> Any:
        own, operator = self.gradients
        if ctx.keeps and self.keeping is not None and not torch.is_grad_enabled():
            own, operator = self.keeping.form, self.keeping.backward
        if all(grad.numel() == 0 for grad in grads):  # sums of nothing
            return tuple(None if zeros is None else zeros() for zeros in ctx.zeros)
        values = dict(zip(ctx.names, ctx.saved_tensors, strict=True)) | ctx.numbers
        taken = {b.name: b for b in own.inputs}
        for name, r in self._seeds.items():
            if name in taken:
                values[name] = _shaped(grads[r], taken[name])
        found = operator(*(values[b.name] for b in own.inputs), **ctx.sizes)
        several = found if isinstance(found, tuple | list) else (found,)
        named = {b.name: one for b, one in zip(own.results, several, strict=True)}
        return tuple(named.get(f"{self._prefix}{b.name}") for b in self._form.inputs)

    # -- forward -----------------------------------------------------------------------------------------
    def _forward(self, given: tuple[Any, ...], sizes: dict[str, Any], along: tuple[Any, ...]) -> Any:
        own, operator = self.tangents
        values: dict[str, Any] = {}
        for b in own.inputs:
            inner = b.name.removeprefix(f"t_{self._prefix}")
            if inner != b.name and inner in self._of:
                i = self._given[inner]
                tangent = torch.zeros_like(given[i]) if along[i] is None else along[i]
                values[b.name] = _shaped(tangent, b)
            else:
                values[b.name] = given[self._given[b.name]]
        found = operator(*(values[b.name] for b in own.inputs), **self._sizes(own, given, sizes))
        several = found if isinstance(found, tuple | list) else (found,)
        named = {b.name: one for b, one in zip(own.results, several, strict=True)}
        made = []
        for result in self._form.results:
            tangent = named.get(f"t_{self._prefix}{result.name}")
            made.append(tangent if tangent is None or result.dims else tangent.reshape(()))
        return made[0] if len(made) == 1 else tuple(made)


def _shaped(grad: Any, buffer: Any) -> Any:
    """A gradient for an argument: dense, and one element where that is for a scalar."""
    return grad.contiguous() if grad.dim() == len(buffer.dims) else grad.reshape(1)


def with_arrays(prefix: str, kernel: dojoir.Kernel) -> dojoir.Kernel:
    """The kernel with an array of one element for each scalar gradient: a tensor, which is not read on the way."""
    scalars = [b.name for b in kernel.arguments if not b.dims and b.name.startswith(prefix)]
    if not scalars:
        return kernel
    header, _, body = dojoir.to_text(kernel).partition("\n\n")
    for name in scalars:
        header = re.sub(rf"^(in|out|inout)( +){name}: (\w+)$", rf"\1\2{name}: \3[1]", header, flags=re.MULTILINE)
        body = re.sub(rf"\b{name}\b", f"{name}[0]", body)
    return dojoir.parse(f"{header}\n\n{body}")
