"""What a case is, and the sizes that cases are made at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Sizes:
    """Rows, columns, batch, channels, height, time, width of a model, heads, classes."""

    n: int
    m: int
    b: int
    c: int
    h: int
    t: int
    d: int
    heads: int
    classes: int


SMALL = Sizes(n=5, m=12, b=2, c=4, h=8, t=6, d=16, heads=2, classes=7)
PRACTICE = Sizes(n=1024, m=1024, b=8, c=64, h=56, t=128, d=512, heads=8, classes=1000)

Made = tuple[Any, tuple[Any, ...]]
Make = Callable[[Sizes], Made]


@dataclass(frozen=True)
class Case:
    """A module with inputs: `make(sizes, seed)`. One without gradients gives integers or has none."""

    name: str
    of: Make
    has_gradients: bool = True

    def make(self, sizes: Sizes, seed: int) -> tuple[nn.Module, tuple[Any, ...]]:
        torch.manual_seed(seed)
        module, inputs = self.of(sizes)
        return (module if isinstance(module, nn.Module) else Of(module)), inputs


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def cases(named: Mapping[str, Make], *makes: Make, without: tuple[str, ...] = ()) -> tuple[Case, ...]:
    """Cases by name, and by the names of functions; those in `without` have no gradients."""
    found = {**named, **{make.__name__: make for make in makes}}
    return tuple(Case(name, make, name not in without) for name, make in found.items())


def rows(s: Sizes) -> torch.Tensor:
    return torch.randn(s.n, s.m)


def image(s: Sizes) -> torch.Tensor:
    return torch.randn(s.b, s.c, s.h, s.h)


def words(s: Sizes) -> torch.Tensor:
    return torch.randn(s.b, s.t, s.d)
