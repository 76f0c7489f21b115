"""How many threads a call on the CPU has: those of PyTorch."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch


def threads_now(given: int | None) -> Callable[[], int | None]:
    """A function that gives the threads of a call: those that an operator or module was given, else what
    `torch.get_num_threads()` says then. So a program that says `torch.set_num_threads(1)`, and a worker of a
    DataLoader, keep one core busy. None where `$DOJOIR_THREADS` says it."""
    if given is not None or os.environ.get("DOJOIR_THREADS", "").strip():
        return lambda: given
    return torch.get_num_threads


__all__ = ["threads_now"]
