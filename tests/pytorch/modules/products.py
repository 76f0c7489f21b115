"""Products of matrices in all layouts, linear layers, contractions."""

from __future__ import annotations

import torch
from torch import nn

from modules.cases import Make, cases, rows, words

BY_FORMULA: dict[str, Make] = {
    "matmul": lambda s: (torch.matmul, (rows(s), torch.randn(s.m, s.d))),
    "matmul_transposed_right": lambda s: (lambda x, y: x @ y.t(), (rows(s), torch.randn(s.d, s.m))),
    "matmul_transposed_left": lambda s: (lambda x, y: x.t() @ y, (rows(s), torch.randn(s.n, s.d))),
    "matmul_both_transposed": lambda s: (lambda x, y: x.t() @ y.t(), (rows(s), torch.randn(s.d, s.n))),
    "matrix_vector": lambda s: (torch.mv, (rows(s), torch.randn(s.m))),
    "batched": lambda s: (torch.bmm, (torch.randn(s.b, s.t, s.d), torch.randn(s.b, s.d, s.t))),
    "batched_broadcast": lambda s: (torch.matmul, (torch.randn(s.b, s.heads, s.t, s.d), torch.randn(s.d, s.t))),
    "linear": lambda s: (nn.Linear(s.m, s.d), (rows(s),)),
    "linear_of_words": lambda s: (nn.Linear(s.d, 3 * s.d, bias=False), (words(s),)),
    "linear_gelu": lambda s: (nn.Sequential(nn.Linear(s.d, 4 * s.d), nn.GELU()), (words(s),)),
    "addmm": lambda s: (
        lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=2.0),
        (torch.randn(s.d), rows(s), torch.randn(s.m, s.d)),
    ),
    "outer": lambda s: (torch.outer, (torch.randn(s.n), torch.randn(s.m))),
    "einsum_attention": lambda s: (
        lambda q, k: torch.einsum("bihd,bjhd->bhij", q, k),
        (torch.randn(s.b, s.t, s.heads, s.d // s.heads), torch.randn(s.b, s.t, s.heads, s.d // s.heads)),
    ),
    "einsum_bilinear": lambda s: (
        lambda x, w, y: torch.einsum("bi,oij,bj->bo", x, w, y),
        (torch.randn(s.b, s.t), torch.randn(s.heads, s.t, s.t), torch.randn(s.b, s.t)),
    ),
    "bilinear_layer": lambda s: (nn.Bilinear(s.t, s.t, s.heads), (torch.randn(s.b, s.t), torch.randn(s.b, s.t))),
    "cosine_similarity": lambda s: (nn.CosineSimilarity(1), (rows(s), rows(s))),
    "distances": lambda s: (
        lambda x, y: (x[:, None] - y[None]).pow(2).sum(-1),
        (torch.randn(s.t, s.d), torch.randn(s.t, s.d)),
    ),
}
CASES = cases(BY_FORMULA)
