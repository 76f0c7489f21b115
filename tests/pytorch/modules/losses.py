"""Losses."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from modules.cases import Made, Make, Of, Sizes, cases, rows


class Loss(nn.Module):
    """A loss of PyTorch."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        made = self.loss(x, y)
        assert isinstance(made, torch.Tensor)
        return made


def cross_entropy_smoothed(s: Sizes) -> Made:
    targets = torch.randint(0, s.classes, (s.n,))
    targets[0] = -100
    return Loss(nn.CrossEntropyLoss(label_smoothing=0.1)), (torch.randn(s.n, s.classes), targets)


def nll_weighted(s: Sizes) -> Made:
    weights = torch.rand(s.classes)
    return Loss(nn.NLLLoss(weight=weights)), (
        torch.randn(s.n, s.classes).log_softmax(1),
        torch.randint(0, s.classes, (s.n,)),
    )


def triplet(s: Sizes) -> Made:
    def function(a: torch.Tensor, p: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return F.triplet_margin_loss(a, p, n, margin=1.0)

    return function, (rows(s), rows(s), rows(s))


def contrastive(s: Sizes) -> Made:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scores = F.normalize(x, dim=1) @ F.normalize(y, dim=1).t() / 0.1
        return F.cross_entropy(scores, torch.arange(s.n, device=x.device))

    return function, (rows(s), rows(s))


BY_FORMULA: dict[str, Make] = {
    "mse": lambda s: (Loss(nn.MSELoss()), (rows(s), rows(s))),
    "smooth_l1": lambda s: (Loss(nn.SmoothL1Loss(beta=0.5)), (rows(s), rows(s))),
    "huber": lambda s: (Loss(nn.HuberLoss()), (rows(s), rows(s))),
    "cross_entropy": lambda s: (
        Loss(nn.CrossEntropyLoss()),
        (torch.randn(s.n, s.classes), torch.randint(0, s.classes, (s.n,))),
    ),
    "binary_cross_entropy": lambda s: (Loss(nn.BCEWithLogitsLoss()), (rows(s), torch.rand(s.n, s.m))),
    "kl_divergence": lambda s: (
        Loss(nn.KLDivLoss(reduction="batchmean")),
        (rows(s).log_softmax(1), rows(s).softmax(1)),
    ),
    "hinge": lambda s: (Of(lambda x, y: (1 - x * y.sign()).clamp(min=0).mean()), (rows(s), rows(s))),
}
CASES = cases(
    BY_FORMULA, cross_entropy_smoothed, nll_weighted, triplet, contrastive,
)  # fmt: skip
