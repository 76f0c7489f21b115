"""Softmax of rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=1)


batch_size = 16
dim = 384


def get_inputs() -> list[Any]:
    return [torch.randn(batch_size, dim)]


def get_init_inputs() -> list[Any]:
    return []
