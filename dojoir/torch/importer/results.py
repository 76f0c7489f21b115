"""What the importer makes of a graph: a program, what goes in, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from dojoir.torch.importer.index import IndexSum
from dojoir.torch.importer.nests import ImportedProgram


@dataclass(frozen=True)
class Viewed:
    """A result that is a view of another: operators of PyTorch with their arguments, the first of all left out."""

    of: Result
    steps: tuple[tuple[Any, tuple[Any, ...], dict[str, Any]], ...]


@dataclass(frozen=True)
class Stored:
    """A result in a buffer."""

    buffer: str
    shape: tuple[IndexSum, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class GivenInput:
    """A result that is an input as it is, by its number."""

    number: int


@dataclass(frozen=True)
class KnownResult:
    """A result that is no tensor: None, a number, a size."""

    value: Any


Result = Viewed | Stored | GivenInput | KnownResult


@dataclass(frozen=True)
class Input:
    """An input of the graph: a buffer, or a number that is a size; else unused."""

    name: str
    buffer: str | None
    size: str | None


@dataclass
class Lowered:
    """The lowered form of a graph: a program, its inputs in order, and its results; and the sources of sizes."""

    program: ImportedProgram
    inputs: list[Input]
    results: list[Result]
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    """The contents of the buffers that are no inputs: tensors that the graph has of its own."""

    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of each size the input, and the dimension of it, or -1 for the number itself."""

    size_names: dict[str, str] = field(default_factory=dict)
    """The name of a size for each symbol of PyTorch."""

    in_place: frozenset[str] = frozenset()
    """The buffers of inputs that are written."""

    origins: Mapping[str, Any] = field(default_factory=dict)
    """The operator of the graph that each buffer was made for."""


def buffers_of(results: Sequence[Result]) -> set[str]:
    """The buffers that results are in."""
    return {b for r in results for b in _buffers(r)}


def _buffers(result: Result) -> tuple[str, ...]:
    match result:
        case Stored(buffer):
            return (buffer,)
        case Viewed(of):
            return _buffers(of)
        case GivenInput() | KnownResult():
            return ()
