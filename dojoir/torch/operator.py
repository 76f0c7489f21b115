"""The operator of one kernel: what PyTorch is told of it."""

from __future__ import annotations

import copyreg
import re
from typing import Any

import torch

import dojoir
from dojoir.passes import Versions
from dojoir.torch import derivatives
from dojoir.torch.auto import Auto
from dojoir.torch.batches import over_batch
from dojoir.torch.derivatives import DerivativeRules, no_rules
from dojoir.torch.gradients import gradients_of
from dojoir.torch.operator_calls import fake, on_cpu, on_device
from dojoir.torch.operator_form import OperatorForm
from dojoir.torch.operator_on_gpu import Given
from dojoir.torch.thread_count import threads_now
from dojoir.torch.variants import TYPES, Variants, hint_about_temporaries, type_names

Operator = Any
"""`torch._ops.OpOverload`: a callable that PyTorch dispatches."""

_NAME = re.compile(r"([A-Za-z_]\w*)::([A-Za-z_]\w*)")

_libraries: dict[str, Any] = {}
"""The libraries that define the operators, by name: PyTorch forgets an operator with it."""

_recipes: dict[str, tuple[Any, ...]] = {}
"""The arguments of `define`, by the name of the operator."""


def define(
    kernel: object,
    name: str,
    backward: object,
    threads: int | None,
    cuda: object,
    dtypes: object,
    autocast: object,
    schedule: object,
) -> Operator:
    """Registers the operator: see `dojoir.torch.op`."""
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        shown = repr(name) if isinstance(name, str) else type(name).__name__
        raise dojoir.ArgumentError(
            f'an operator of PyTorch is called "namespace::name", not {shown}', "bad-operator-name"
        )
    if schedule not in ("auto", None):
        message = f"schedule is 'auto', or None for a text that runs as it is written, not {schedule!r}"
        raise dojoir.ArgumentError(message, "bad-operator")
    given = _given(kernel, "op")
    own = None if cuda is None else _given(cuda, "cuda=")
    hint_about_temporaries(given)
    form = _operator_form(name, _scheduled(given, threads, schedule), own, threads, type_names(dtypes))
    rules = no_rules(name) if backward is None else _derivative_rules(form, backward, threads, schedule)
    operator = register(form, rules, _autocast(form, autocast))
    _recipes[name] = kernel, name, backward, threads, cuda, dtypes, autocast, schedule
    return operator


def again(*recipe: Any) -> Operator:
    """The operator of a pickle: the one of that name where it was made of the same, else it is made."""
    name = recipe[1]
    known = _recipes.get(name)
    if known is not None and all(map(_is_same, known, recipe)):
        return _operator(name)
    return define(*recipe)


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, dojoir.Trace) and isinstance(other, dojoir.Trace):
        return one.start == other.start and [*map(str, one.moves)] == [*map(str, other.moves)]
    return one == other


def _reduced(operator: Any) -> tuple[Any, tuple[Any, ...]]:
    recipe = _recipes.get(operator._schema.name)
    if recipe is not None:
        return again, recipe
    return _operator, (operator._schema.name, operator._overloadname)


copyreg.pickle(torch._ops.OpOverload, _reduced)  # PyTorch's own operators are pickled by name, as in a graph


def _operator(name: str, overload: str = "default") -> Operator:
    namespace, _, below = name.partition("::")
    return getattr(getattr(getattr(torch.ops, namespace), below), overload)


def _operator_form(
    name: str, given: Given, own: Given | None, threads: int | None, dtypes: tuple[str, ...]
) -> OperatorForm:
    variants = Variants(lambda: given, own, threads)
    variants.on_device(None)  # what is wrong with `own` is said now
    return OperatorForm(name, variants.compiled().kernel, variants, dtypes)


def _scheduled(given: Given, threads: int | None, schedule: object) -> Given:
    """The input of an operator; of a text without marks what `dojoir.optimize` makes of it."""
    if schedule is None or not isinstance(given, dojoir.Kernel):
        return given
    if any(getattr(node, "marks", ()) for _, node in given.walk()):
        return given
    return dojoir.optimize(given, threads=threads_now(threads)())


def _derivative_rules(
    form: OperatorForm, backward: object, threads: int | None, schedule: object
) -> DerivativeRules:
    """The derivatives: of the text, of a function of the user's, or of an operator made of a kernel."""
    if backward == "auto":
        found = Auto(form, threads, register)
        _ = found.gradients  # what has no gradient is said now
        return found.rules()
    if not isinstance(backward, dojoir.Kernel | dojoir.Trace | Versions):
        if callable(backward):
            return gradients_of(form, form.name, backward)
        raise dojoir.ArgumentError(
            f"backward takes 'auto', a kernel, a trace or a function, not {type(backward).__name__}", "bad-backward"
        )
    given = _scheduled(_given(backward, "backward"), threads, schedule)
    own = _operator_form(f"{form.name}_backward", given, None, threads, form.dtypes)
    operator = register(own, no_rules(own.name))
    return gradients_of(form, form.name, operator, own)


def _given(given: object, what: str) -> Given:
    if isinstance(given, dojoir.Kernel | dojoir.Trace | Versions):
        return given
    raise dojoir.ArgumentError(
        f"{what} takes a kernel, a trace or versions of one, not {type(given).__name__}: dojoir.parse makes a "
        f"kernel of a text",
        "not-a-kernel",
    )


def _autocast(form: OperatorForm, given: object) -> str | None:
    """The type that inputs are cast to under autocast: the one that is said, else the only one there is."""
    if given is None:
        return None if form.dtypes else form.base
    (name,) = type_names((given,))
    if name not in (form.dtypes or (form.base,)):
        known = ", ".join(form.dtypes or (str(form.base),))
        raise dojoir.ArgumentError(f"autocast is one of the types of {form.name}, {known}, not {name}", "bad-dtype")
    return name


def register(form: OperatorForm, rules: DerivativeRules, cast: str | None = None) -> Operator:
    """The operator of a form, in place of one that was called so before."""
    name = form.name
    namespace, _, below = name.partition("::")
    _recipes.pop(name, None)
    old = _libraries.pop(name, None)
    if old is not None:
        old._destroy()
    new_library: Any = torch.library.Library  # its methods have no types
    library = new_library(namespace, "FRAGMENT")
    try:
        library.define(below + form.schema, tags=(torch.Tag.pt2_compliant_tag,))
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise dojoir.ArgumentError(f"PyTorch does not take the operator {name}: {reason}", "bad-operator") from None
    _libraries[name] = library
    library.impl(below, on_cpu(form), "CPU")
    library.impl(below, on_device(form), "CUDA")  # of AMD's GPUs too
    torch.library.register_fake(name, fake(form), lib=library)
    derivatives.register(library, below, form, rules)
    torch.library.register_vmap(name, over_batch(form), lib=library)
    if cast is not None:
        for device in ("cpu", "cuda"):
            torch.library.register_autocast(name, device, TYPES[cast], lib=library)
    return _operator(name)
