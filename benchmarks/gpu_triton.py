"""Softmax and rmsnorm in Triton, as its tutorials write such kernels: a row a program, in registers."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")


def _rows(x, y, columns, block: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, block)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=-float("inf"))
    e = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + at, e / tl.sum(e, axis=0), mask=inside)


def _normalised(x, g, y, columns, block: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, block)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / columns + 1e-6)
    tl.store(y + row * columns + at, values * scale * tl.load(g + at, mask=inside, other=0.0), mask=inside)


_softmax: Any = triton.jit(_rows)
_rmsnorm: Any = triton.jit(_normalised)


def softmax(x: Any, y: Any) -> Callable[[], None]:
    rows, columns = x.shape
    block, warps = _block(columns)

    def call() -> None:
        _softmax[(rows,)](x, y, columns, block=block, num_warps=warps)

    return call


def rmsnorm(x: Any, g: Any, y: Any) -> Callable[[], None]:
    rows, columns = x.shape
    block, warps = _block(columns)

    def call() -> None:
        _rmsnorm[(rows,)](x, g, y, columns, block=block, num_warps=warps)

    return call


def _block(columns: int) -> tuple[int, int]:
    """The elements of a program, and its warps."""
    block: int = triton.next_power_of_2(columns)
    return block, 4 if block <= 2048 else 8 if block <= 8192 else 16 if block <= 32768 else 32
