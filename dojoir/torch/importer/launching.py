"""Programs on a GPU: all launches of a kernel by one call, on memory of PyTorch's allocator, in its stream.

What the general way checks at each call is known here: types, sizes and layouts are the plan's, and results are
new. An index read from data that is out of range is told by a later call, as PyTorch does: it does not wait.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from dojoir.torch.importer.plans import AllocatedBuffer, CallPlan, picker
from dojoir.torch.places import Places

ALIGNMENT = 256
"""The alignment of addresses in the memory of temporaries, in bytes."""


class Launches:
    """The calls of a plan on one GPU. `start(inputs)` gives the results; None where a tensor does not lie as the
    launches need it, which the general way takes or refuses."""

    def __init__(
        self,
        plan: CallPlan,
        kernels: Sequence[tuple[Any, Sequence[str]]],
        device: int,
        places: Places,
        in_place: frozenset[str],
    ) -> None:
        """`kernels` are prepared calls with the buffers that each takes; `in_place` are inputs that are written."""
        self.places, self.device, self.plan = places, device, plan
        self.taken = [(one.number, one.order is not None, one) for one in plan.taken]
        self._in_place = [n for n, buffer in enumerate([*plan.slots][: len(plan.taken)]) if buffer in in_place]
        self._held = [_constant(tensor, shape, device) for tensor, shape in plan.constants]
        self._constants = [tensor.data_ptr() for tensor in self._held]
        self.made = [made.as_shown for made in plan.made if made.is_result]
        self._layouts = [(made.shape, made.strides, made.dtype) for made in self.made]
        inside = [made for made in plan.made if not made.is_result]
        order = [*plan.slots][: len(self.taken) + len(self._held)] + [m.buffer for m in (*self.made, *inside)]
        number = {buffer: n for n, buffer in enumerate(order)}
        offsets, room = _placed(inside)
        temporaries, largest = len(order), 0
        reporting = [prepared for prepared, _ in kernels if prepared.reports]
        self._words = places.words(len(reporting)) if reporting else None
        self._reports: list[tuple[Any, Any]] = []
        self._tail: list[int] = []
        """The addresses of words, behind all that a call computes."""
        calls: list[tuple[Any, list[int]]] = []
        inner: list[int] = []
        """The offsets of temporaries of kernels: they share what lies behind the buffers between kernels."""
        for prepared, buffers in kernels:
            slots, at = [number[buffer] for buffer in buffers], room
            for size in prepared.workspace:
                slots.append(temporaries + len(inner))
                inner.append(at)
                at += -(-size // ALIGNMENT) * ALIGNMENT
            largest = max(largest, at)
            calls.append((prepared, slots))
        self._offsets, self._room = [*offsets, *inner], max(room, largest)
        words = temporaries + len(inner)
        for prepared, slots in calls:
            if prepared.reports:
                assert self._words is not None
                address = self._words.data_ptr() + 4 * len(self._reports)
                slots.append(words + len(self._reports))
                self._reports.append((ctypes.c_int32.from_address(address), prepared))
                self._tail.append(address)
        self._calls = [(prepared, picker(slots)) for prepared, slots in calls]
        count = len(self.taken) + len(plan.constants)
        place = {made.buffer: n for n, made in enumerate(self.made)}
        self._slots: list[int | None] = [None] * count
        self._slots += [place.get(made.buffer) for made in plan.made]
        self._is_direct = plan.direct == tuple(made.buffer for made in self.made)

    def start(self, inputs: Sequence[Any]) -> list[Any] | None:
        """Raises RunError where an earlier call read an index that was out of range, or the device reports an
        error."""
        places, device = self.places, self.device
        if self._reports:
            self.raise_pending()
        kept: list[torch.Tensor] = []
        addresses: list[int] = []
        for number, has_order, one in self.taken:
            tensor = inputs[number]
            if tensor.get_device() != device:
                return None
            if has_order or not tensor.is_contiguous():
                tensor = one.fitted(tensor)
                kept.append(tensor)
            addresses.append(tensor.data_ptr())
        if self._in_place and any(addresses[n] != inputs[self.taken[n][0]].data_ptr() for n in self._in_place):
            return None  # a copy would be written
        if self._in_place and self._share(inputs):
            return None
        addresses += self._constants
        empty = places.empty
        made = [empty(shape, strides, dtype) for shape, strides, dtype in self._layouts]
        addresses += [tensor.data_ptr() for tensor in made]
        if self._room:
            memory = empty((self._room,), (1,), torch.uint8)
            first = memory.data_ptr()
            addresses += [first + offset for offset in self._offsets]
        addresses += self._tail
        stream = places.stream(device)
        for prepared, picked in self._calls:
            if not prepared(picked(addresses), stream):
                return None
        if self._is_direct:
            return made
        tensors: Any = [None if slot is None else made[slot] for slot in self._slots]
        for n in self._in_place:
            number, _, one = self.taken[n]
            tensors[n] = one.fitted(inputs[number])
        return [make(tensors, inputs) for make in self.plan.results]

    def _share(self, inputs: Sequence[Any]) -> bool:
        """Whether an input that is written may lie in the memory of another one."""
        places = [inputs[number].untyped_storage().data_ptr() for number, _, _ in self.taken]
        return any(places.count(places[n]) > 1 for n in self._in_place)

    def raise_pending(self) -> None:
        """Raises RunError where an earlier call read an index that was out of range."""
        for word, prepared in self._reports:
            status = word.value
            if status:
                word.value = 0
                raise prepared.failure(status)


def _placed(made: Sequence[AllocatedBuffer]) -> tuple[list[int], int]:
    """The offset of each buffer in one allocation, and the size of that."""
    offsets, end = [], 0
    for one in made:
        offsets.append(end)
        end += -(-one.nbytes // ALIGNMENT) * ALIGNMENT
    return offsets, end


def _constant(tensor: torch.Tensor, shape: tuple[int, ...], device: int) -> torch.Tensor:
    return tensor.to(torch.device("cuda", device)).contiguous().view(shape)
