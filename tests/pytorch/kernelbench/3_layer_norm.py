"""Layer norm over features, height and width."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, normalized_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape=normalized_shape)

    def forward(self, x: torch.Tensor) -> Any:
        return self.ln(x)


batch_size, features, dim = 4, 8, 16


def get_inputs() -> list[Any]:
    return [torch.randn(batch_size, features, dim, dim)]


def get_init_inputs() -> list[Any]:
    return [(features, dim, dim)]
