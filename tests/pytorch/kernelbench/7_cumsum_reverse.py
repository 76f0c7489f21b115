"""A running sum from the end."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x.flip(self.dim), dim=self.dim).flip(self.dim)


batch_size, length = 16, 256


def get_inputs() -> list[Any]:
    return [torch.randn(batch_size, length)]


def get_init_inputs() -> list[Any]:
    return [1]
