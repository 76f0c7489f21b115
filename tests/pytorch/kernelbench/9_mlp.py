"""Layers with ReLU between them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for n in range(len(sizes) - 2):
            layers += [nn.Linear(sizes[n], sizes[n + 1]), nn.ReLU()]
        self.network = nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))

    def forward(self, x: torch.Tensor) -> Any:
        return self.network(x)


batch_size = 16


def get_inputs() -> list[Any]:
    return [torch.randn(batch_size, 64)]


def get_init_inputs() -> list[Any]:
    return [[64, 48, 32, 10]]
