"""A convolution, ReLU, a bias."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels: int, out: int, size: int, bias_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, size)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x)) + self.bias


batch_size, in_channels, out_channels, size = 4, 3, 16, 20


def get_inputs() -> list[Any]:
    return [torch.randn(batch_size, in_channels, size, size)]


def get_init_inputs() -> list[Any]:
    return [in_channels, out_channels, 3, (out_channels, 1, 1)]
