"""Reductions and running values."""

from __future__ import annotations

import torch

from modules.cases import Made, Make, Sizes, cases, image, rows, words


def pooled_words(s: Sizes) -> Made:
    def function(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        kept = mask.unsqueeze(-1).float()
        return (x * kept).sum(1) / kept.sum(1).clamp(min=1)

    return function, (words(s), torch.rand(s.b, s.t) > 0.3)


BY_FORMULA: dict[str, Make] = {
    "sum_rows": lambda s: (lambda x: x.sum(1), (rows(s),)),
    "sum_columns": lambda s: (lambda x: x.sum(0), (rows(s),)),
    "total": lambda s: (lambda x: (x * x).sum(), (rows(s),)),
    "mean_spatial": lambda s: (lambda x: x.mean((2, 3)), (image(s),)),
    "largest": lambda s: (lambda x: x.max(1).values * 2, (rows(s),)),
    "extremes": lambda s: (lambda x: x.amax(1, keepdim=True) - x.amin(0), (rows(s),)),
    "argmax": lambda s: (lambda x: x.argmax(1), (rows(s),)),
    "argmin_of_all": lambda s: (lambda x: x.argmin(), (rows(s),)),
    "variance": lambda s: (lambda x: x.var(1) + x.std(1, unbiased=False), (rows(s),)),
    "norms": lambda s: (lambda x: x.norm(dim=1) + x.abs().sum(1), (rows(s),)),
    "products": lambda s: (lambda x: (1 + 0.01 * x).prod(1), (rows(s),)),
    "logsumexp": lambda s: (lambda x: torch.logsumexp(x, 1), (rows(s),)),
    "cumulative_sum": lambda s: (lambda x: torch.cumsum(x, 1), (rows(s),)),
    "cumulative_product": lambda s: (lambda x: torch.cumprod(1 + 0.01 * x, 1), (rows(s),)),
    "questions": lambda s: (lambda x: (x > 1).any(1) & (x < 2).all(1), (rows(s),)),
}
CASES = cases(
    BY_FORMULA, pooled_words,
    without=("argmax", "argmin_of_all", "questions"),
)  # fmt: skip
