"""The triplet loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, margin: float) -> None:
        super().__init__()
        self.loss = nn.TripletMarginLoss(margin=margin)

    def forward(self, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor) -> Any:
        return self.loss(anchor, positive, negative)


batch_size, dim = 16, 64


def get_inputs() -> list[Any]:
    return [torch.randn(batch_size, dim), torch.randn(batch_size, dim), torch.randn(batch_size, dim)]


def get_init_inputs() -> list[Any]:
    return [1.0]
