"""The operator under `torch.vmap`: one call where rows of the batch are rows of the kernel, else one for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dojoir.torch.operator_form import OperatorForm


def over_batch(form: OperatorForm) -> Callable[..., Any]:
    """The rule of a batch: its inputs, with the dimension of each that is the batch, to results with theirs."""

    def rule(info: Any, dims: tuple[Any, ...], *given: Any, **sizes: Any) -> Any:
        operator = getattr(getattr(torch.ops, form.name.partition("::")[0]), form.name.partition("::")[2]).default
        front = [t if d is None else t.movedim(d, 0) for t, d in zip(given, dims, strict=True)]
        rows = {i for i, _ in form.of_rows}
        batched = {i for i, d in enumerate(dims) if d is not None}
        if rows and batched <= rows:
            whole = [t.expand(info.batch_size, *t.shape) if i in rows - batched else t for i, t in enumerate(front)]
            found = operator(*whole, **sizes)
            return found, (0,) * len(found) if isinstance(found, tuple) else 0
        each = [
            operator(*(t[n] if i in batched else t for i, t in enumerate(front)), **sizes)
            for n in range(info.batch_size)
        ]
        if isinstance(each[0], tuple):
            return tuple(torch.stack(some) for some in zip(*each, strict=True)), (0,) * len(each[0])
        return torch.stack(each), 0

    return rule
