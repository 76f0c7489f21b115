"""The largest of windows, with a dilation."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, size: int, stride: int, padding: int, dilation: int) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(size, stride=stride, padding=padding, dilation=dilation)

    def forward(self, x: torch.Tensor) -> Any:
        return self.pool(x)


batch_size, channels, size = 4, 6, 24


def get_inputs() -> list[Any]:
    return [torch.randn(batch_size, channels, size, size)]


def get_init_inputs() -> list[Any]:
    return [4, 2, 1, 1]
