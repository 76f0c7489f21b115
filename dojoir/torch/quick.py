"""Operators on a GPU: a call of types, shapes and numbers that were seen before starts its launches at once."""

from __future__ import annotations

from typing import Any

import torch

from dojoir.torch.operator_form import OperatorForm
from dojoir.torch.places import places

MOST_CALLS = 64
"""How many calls an operator remembers."""

ALIGNMENT = 256
"""The alignment of addresses in the memory of temporaries, in bytes."""

Key = tuple[Any, ...]


class Quick:
    """The calls of one operator that were seen. Only calls whose tensors are of the declared types and ranks and
    dense are remembered, and no kernel that reads indices from data: that waits for what it found."""

    def __init__(self, form: OperatorForm) -> None:
        self._form = form
        self._calls: dict[Key, _QuickCall | None] = {}
        self._seen: set[Key] = set()
        self._checked = form.checked_as(None)

    def key(self, given: tuple[Any, ...], sizes: dict[str, Any]) -> Key | None:
        """The key of a call; None for one that is not remembered."""
        device = -1
        parts: list[Any] = []
        for i, dtype, rank, plain in self._checked:
            tensor = given[i]
            if tensor.dtype != dtype or tensor.dim() != rank or (plain and not tensor.is_contiguous()):
                return None
            own = tensor.get_device()
            if own < 0 or own != (device if parts else own):
                return None
            device = own
            parts.append(tensor.shape)
        if device < 0 or places.current() != device:
            return None
        numbers = [value for i, value in enumerate(given) if i not in self._form.tensors]
        return device, *parts, *numbers, *sizes.items()

    def start(self, key: Key, given: tuple[Any, ...]) -> Any:
        """The results as a list; None where the call is not known, or an address is not aligned."""
        call = self._calls.get(key)
        return None if call is None else call.start(key[0], given)

    def remember(
        self, key: Key, compiled: Any, arguments: list[Any], made: list[Any], sizes: dict[str, Any]
    ) -> None:
        """Keeps a call, the second time that it is made."""
        if key in self._calls:
            return
        if key not in self._seen:
            if len(self._seen) >= 4 * MOST_CALLS:
                self._seen.clear()
            self._seen.add(key)
            return
        if len(self._calls) >= MOST_CALLS:
            self._calls.clear()
        like = getattr(compiled, "prepared_like", None)
        prepared = None if like is None else like(*arguments, **sizes)
        is_quick = prepared is not None and not prepared.reports
        self._calls[key] = _QuickCall(self._form, prepared, made) if is_quick else None


class _QuickCall:
    def __init__(self, form: OperatorForm, prepared: Any, made: list[Any]) -> None:
        self._prepared, self._copied = prepared, form.copied
        self._layouts = [(tuple(one.shape), one.stride(), one.dtype) for one in made]
        self._order = [i for i in form.order if i < 0 or i in form.tensors]
        self._offsets: list[int] = []
        self._room = 0
        for size in prepared.workspace:
            self._offsets.append(self._room)
            self._room += -(-size // ALIGNMENT) * ALIGNMENT

    def start(self, device: int, given: tuple[Any, ...]) -> list[Any] | None:
        empty = places.empty
        made = [empty(shape, strides, dtype) for shape, strides, dtype in self._layouts]
        for i, r in self._copied:
            made[r].copy_(given[i])
        addresses = [given[i].data_ptr() if i >= 0 else made[~i].data_ptr() for i in self._order]
        if self._room:
            memory = empty((self._room,), (1,), torch.uint8)
            first = memory.data_ptr()
            addresses += [first + offset for offset in self._offsets]
        return made if self._prepared(addresses, places.stream(device)) else None
