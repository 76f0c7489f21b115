"""The signature of an operator, and the conversion of tensors to the form that its kernel declares."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from math import prod
from typing import Any

import torch

import dojoir
from dojoir.torch.rows import row_size
from dojoir.torch.variants import NAMES, TYPES, Variants


class Arranged:
    """Tensors as the kernel declares them: the name of their type, where that is not the declared one, and the
    leading dimensions that stand for the rows."""

    __slots__ = ("lead", "name", "tensors")

    def __init__(self, tensors: list[Any], name: str | None, lead: tuple[Any, ...] | None) -> None:
        self.tensors, self.name, self.lead = tensors, name, lead


class OperatorForm:
    """The signature of an operator, and the functions that run it."""

    def __init__(self, name: str, kernel: dojoir.Kernel, variants: Variants, dtypes: tuple[str, ...]) -> None:
        """`kernel` declares the arguments; `dtypes` are the types that the floating-point ones may have, none for
        those that are declared."""
        self.name, self.kernel, self.variants = name, kernel, variants
        self.arguments = kernel.arguments
        self.inputs = tuple(b for b in self.arguments if b.role != "out")
        self.results = tuple(b for b in self.arguments if b.role != "in")
        self.tensors = tuple(i for i, b in enumerate(self.inputs) if b.dims or b.role == "inout")
        self.order = tuple(
            self.inputs.index(b) if b.role == "in" else ~self.results.index(b) for b in self.arguments
        )
        """For each argument of the kernel the input that it is, or, below zero, the result."""
        self.copied = tuple((self.inputs.index(b), r) for r, b in enumerate(self.results) if b.role == "inout")
        self.types = tuple(TYPES[b.dtype.name] for b in self.results)
        main = self._main
        self.base = None if main is None else main.dtype.name
        self.dtypes = () if self.base is None or set(dtypes) <= {self.base} else (self.base, *dtypes)
        own = [i for i in self.tensors if self.inputs[i].dtype.name == self.base]
        self.typed = tuple(own) if self.dtypes else ()
        """The inputs whose type may be another one."""
        self.checked = tuple(
            (i, TYPES[self.inputs[i].dtype.name], len(self.inputs[i].dims), self._is_plain(i)) for i in self.tensors
        )
        """For each tensor that is taken its number, its type, its rank, and whether it has to be contiguous."""

    @property
    def _main(self) -> Any:
        """The argument whose type is that of a call."""
        wide = [b for b in self.arguments if b.dtype.name in NAMES.values()]
        wide.sort(key=lambda b: (not b.dims, b.role == "out"))
        return wide[0] if wide else None

    def checked_as(self, name: str | None) -> tuple[tuple[int, torch.dtype, int, bool], ...]:
        """The same where the call has the type of that name."""
        if name is None:
            return self.checked
        own = TYPES[name]
        return tuple((i, own if i in self.typed else dtype, rank, plain) for i, dtype, rank, plain in self.checked)

    @property
    def _base_type(self) -> torch.dtype | None:
        return None if self.base is None else TYPES[self.base]

    def _is_plain(self, i: int) -> bool:
        buffer = self.inputs[i]
        return not (buffer.order or buffer.pad or buffer.strided or buffer.flat or buffer.packed)

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The sizes that no shape gives."""
        return self.variants.compiled().open_sizes

    @cached_property
    def rows(self) -> str | None:
        """The size that counts rows, if the kernel is one over rows."""
        found = row_size(self.kernel)
        if found is None:
            given = self.variants.given()
            if not isinstance(given, dojoir.Kernel):
                found = row_size(given.start)
        return found

    @cached_property
    def of_rows(self) -> tuple[tuple[int, int], ...]:
        """The inputs that have rows, with their ranks."""
        return tuple(
            (i, len(b.dims))
            for i, b in enumerate(self.inputs)
            if i in self.tensors and b.dims and self.rows is not None and str(b.dims[0].extent) == self.rows
        )

    @cached_property
    def places(self) -> dict[str, list[tuple[int, int]]]:
        """Where each size that is a dimension by itself can be read: the inputs and their dimensions."""
        found: dict[str, list[tuple[int, int]]] = {}
        for i in self.tensors:
            if self._is_plain(i):
                for d, dim in enumerate(self.inputs[i].dims):
                    if not dim.collapsed and str(dim.extent) in self.kernel.runtime_sizes:
                        found.setdefault(str(dim.extent), []).append((i, d))
        return found

    @property
    def schema(self) -> str:
        """The operator's types, in PyTorch's notation."""
        takes = [f"{self._type(i)} {b.name}" for i, b in enumerate(self.inputs)]
        takes += ["*", *(f"SymInt {name}" for name in self.sizes)] if self.sizes else []
        returns = ["Tensor"] * len(self.results)
        return f"({', '.join(takes)}) -> {returns[0] if len(returns) == 1 else '(' + ', '.join(returns) + ')'}"

    def _type(self, i: int) -> str:
        dtype = self.inputs[i].dtype
        return "Tensor" if i in self.tensors else {"f": "float", "b": "bool"}.get(dtype.kind, "int")

    # -- tensors as they come ----------------------------------------------------------------------------
    def is_as_declared(self, given: Sequence[Any]) -> bool:
        """Whether tensors have the declared types and ranks, and extents that agree."""
        for i, dtype, rank, _ in self.checked:
            tensor = given[i]
            if tensor.dtype != dtype or tensor.dim() != rank:
                return False
        for found in self.places.values():
            if len(found) > 1:
                i, d = found[0]
                first = given[i].shape[d]
                if any(given[i].shape[d] != first for i, d in found[1:]):
                    return False
        return True

    def arranged(self, given: Sequence[Any]) -> Arranged:
        """Tensors of one type, with the ranks and the extents that the kernel declares, by PyTorch's own
        operators: a mix of types is promoted, leading dimensions become rows, and an extent of 1 is expanded.

        Raises ArgumentError for tensors on several devices, and for types that the operator does not take."""
        tensors = list(given)
        where = [given[i].device for i in self.tensors]
        if any(device != where[0] for device in where[1:]):
            devices = {str(device) for device in where}
            raise dojoir.ArgumentError(
                f"{self.name}: the tensors are on several devices, {' and '.join(sorted(devices))}: move them to "
                f"one",
                "mixed-devices",
            )
        name = self._one_type(tensors)
        lead = self._rows(tensors)
        self._check_ranks(tensors)
        for found in self.places.values():
            extents = [tensors[i].shape[d] for i, d in found]
            if any(extent != extents[0] for extent in extents[1:]):
                whole = next(extent for extent in extents if extent != 1)
                for (i, d), extent in zip(found, extents, strict=True):
                    if extent != whole and extent == 1:
                        shape = [-1] * tensors[i].dim()
                        shape[d] = whole
                        tensors[i] = tensors[i].expand(shape)
        return Arranged(tensors, name, lead)

    def _one_type(self, tensors: list[Any]) -> str | None:
        if not self.typed:
            return None
        found = {tensors[i].dtype for i in self.typed}
        if len(found) == 1 and next(iter(found)) == self._base_type:
            return None
        if not all(dtype.is_floating_point for dtype in found):
            return None  # the call says which one it is
        dtype = reduce(torch.promote_types, found)
        name = NAMES.get(dtype)
        if name not in self.dtypes:
            return None
        for i in self.typed:
            if tensors[i].dtype != dtype:
                tensors[i] = tensors[i].to(dtype)
        return None if name == self.base else name

    def _check_ranks(self, tensors: Sequence[Any]) -> None:
        for i, _, rank, plain in self.checked:
            if plain and tensors[i].dim() != rank:
                rows = f"; dimensions before the last {rank - 1} may stand for the first" if self.rows else ""
                raise dojoir.ArgumentError(
                    f"{self.name}: argument {self.inputs[i].name} has {tensors[i].dim()} dimensions (shape "
                    f"{list(tensors[i].shape)}), and the kernel declares {rank}{rows}",
                    "bad-rank",
                )

    def _rows(self, tensors: list[Any]) -> tuple[Any, ...] | None:
        ranks = [(i, rank, tensors[i].dim()) for i, rank in self.of_rows]
        if all(rank == has for _, rank, has in ranks) or any(has < rank - 1 for _, rank, has in ranks):
            return None
        leads = {i: tuple(tensors[i].shape[: has - rank + 1]) for i, rank, has in ranks}
        shape = leads[ranks[0][0]]
        if any(lead != shape for lead in leads.values()):
            broadcast: Any = torch.broadcast_shapes
            shape = tuple(broadcast(*leads.values()))
        whole = prod(shape)
        for i, rank, has in ranks:
            rest = tuple(tensors[i].shape[has - rank + 1 :])
            if leads[i] != shape:
                tensors[i] = tensors[i].expand(*shape, *rest)
            tensors[i] = tensors[i].reshape(whole, *rest)
        return shape

    def restored(self, made: Any, lead: tuple[Any, ...] | None) -> Any:
        """A result with the leading dimensions that its rows were."""
        return made if lead is None else made.reshape(*lead, *made.shape[1:])

    def empty(self, given: Sequence[Any], sizes: dict[str, Any], name: str | None) -> list[torch.Tensor]:
        """New tensors for the results, of tensors as they are declared."""
        layouts = self.variants.compiled(name).results([given[i].shape for i in self.tensors], sizes)
        device = given[self.tensors[0]].device if self.tensors else None
        return [
            torch.empty_strided(shape, strides, dtype=dtype, device=device)
            for (shape, strides), dtype in zip(layouts, self.types_of(name), strict=True)
        ]

    def types_of(self, name: str | None) -> tuple[torch.dtype, ...]:
        """The types of the results where the call has that type."""
        if name is None:
            return self.types
        return tuple(
            TYPES[name] if b.dtype.name == self.base else dtype
            for b, dtype in zip(self.results, self.types, strict=True)
        )
