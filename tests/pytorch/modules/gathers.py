"""Elements at places from data."""

from __future__ import annotations

import torch
from torch import nn

from modules.cases import Made, Make, Sizes, cases, rows


def index_put(s: Sizes) -> Made:
    def function(x: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.index_put((k,), v, accumulate=True)

    return function, (rows(s), torch.randint(0, s.n, (s.t,)), torch.randn(s.t, s.m))


def scatter_add(s: Sizes) -> Made:
    def function(x: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.scatter_add(1, k, v)

    return function, (rows(s), torch.randint(0, s.m, (s.n, s.t)), torch.randn(s.n, s.t))


def one_hot(s: Sizes) -> Made:
    def function(k: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (k.unsqueeze(-1) == torch.arange(s.classes, device=k.device)).to(w.dtype) @ w

    return function, (torch.randint(0, s.classes, (s.n,)), torch.randn(s.classes, s.d))


def written_slice(s: Sizes) -> Made:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        made = x.clone()
        made[:, 1:3] = y
        return made * 2

    return function, (rows(s), torch.randn(s.n, 2))


def embedding_bag_mean(s: Sizes) -> Made:
    def function(k: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return w[k].mean(1)

    return function, (torch.randint(0, s.classes, (s.b, s.t)), torch.randn(s.classes, s.d))


BY_FORMULA: dict[str, Make] = {
    "embedding": lambda s: (nn.Embedding(s.classes, s.d), (torch.randint(0, s.classes, (s.b, s.t)),)),
    "embedding_padded": lambda s: (
        nn.Embedding(s.classes, s.d, padding_idx=0),
        (torch.randint(0, s.classes, (s.b, s.t)),),
    ),
    "gathered": lambda s: (lambda x, k: torch.gather(x, 1, k).exp(), (rows(s), torch.randint(0, s.m, (s.n, 4)))),
    "index_select": lambda s: (
        lambda x, k: torch.index_select(x, 0, k) * 2,
        (rows(s), torch.randint(0, s.n, (s.t,))),
    ),
    "indexed": lambda s: (
        lambda x, i, j: x[i, j] + x[i - s.n, j],
        (rows(s), torch.randint(0, s.n, (s.t,)), torch.randint(0, s.m, (s.t,))),
    ),
}
CASES = cases(
    BY_FORMULA, index_put, scatter_add, one_hot, written_slice, embedding_bag_mean,
)  # fmt: skip
