"""A product of two square matrices."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


N = 96


def get_inputs() -> list[Any]:
    return [torch.randn(N, N), torch.randn(N, N)]


def get_init_inputs() -> list[Any]:
    return []
