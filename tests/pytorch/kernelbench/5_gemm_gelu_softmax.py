"""A linear layer, GELU, softmax."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.softmax(F.gelu(self.linear(x)), dim=1)


batch_size, in_features, out_features = 32, 64, 48


def get_inputs() -> list[Any]:
    return [torch.randn(batch_size, in_features)]


def get_init_inputs() -> list[Any]:
    return [in_features, out_features]
