"""Products of matrices in all layouts, linear layers, contractions."""

from __future__ import annotations

import torch
from torch import nn

from modules.cases import Made, Sizes, cases, rows, words


def matmul(s: Sizes) -> Made:
    return torch.matmul, (rows(s), torch.randn(s.m, s.d))


def matmul_transposed_right(s: Sizes) -> Made:
    return lambda x, y: x @ y.t(), (rows(s), torch.randn(s.d, s.m))


def matmul_transposed_left(s: Sizes) -> Made:
    return lambda x, y: x.t() @ y, (rows(s), torch.randn(s.n, s.d))


def matmul_both_transposed(s: Sizes) -> Made:
    return lambda x, y: x.t() @ y.t(), (rows(s), torch.randn(s.d, s.n))


def matrix_vector(s: Sizes) -> Made:
    return torch.mv, (rows(s), torch.randn(s.m))


def batched(s: Sizes) -> Made:
    return torch.bmm, (torch.randn(s.b, s.t, s.d), torch.randn(s.b, s.d, s.t))


def batched_broadcast(s: Sizes) -> Made:
    return torch.matmul, (torch.randn(s.b, s.heads, s.t, s.d), torch.randn(s.d, s.t))


def linear(s: Sizes) -> Made:
    return nn.Linear(s.m, s.d), (rows(s),)


def linear_of_words(s: Sizes) -> Made:
    return nn.Linear(s.d, 3 * s.d, bias=False), (words(s),)


def linear_gelu(s: Sizes) -> Made:
    return nn.Sequential(nn.Linear(s.d, 4 * s.d), nn.GELU()), (words(s),)


def addmm(s: Sizes) -> Made:
    return lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=2.0), (
        torch.randn(s.d),
        rows(s),
        torch.randn(s.m, s.d),
    )


def outer(s: Sizes) -> Made:
    return torch.outer, (torch.randn(s.n), torch.randn(s.m))


def einsum_attention(s: Sizes) -> Made:
    return lambda q, k: torch.einsum("bihd,bjhd->bhij", q, k), (
        torch.randn(s.b, s.t, s.heads, s.d // s.heads),
        torch.randn(s.b, s.t, s.heads, s.d // s.heads),
    )


def einsum_bilinear(s: Sizes) -> Made:
    return lambda x, w, y: torch.einsum("bi,oij,bj->bo", x, w, y), (
        torch.randn(s.b, s.t),
        torch.randn(s.heads, s.t, s.t),
        torch.randn(s.b, s.t),
    )


def bilinear_layer(s: Sizes) -> Made:
    return nn.Bilinear(s.t, s.t, s.heads), (torch.randn(s.b, s.t), torch.randn(s.b, s.t))


def cosine_similarity(s: Sizes) -> Made:
    return nn.CosineSimilarity(1), (rows(s), rows(s))


def distances(s: Sizes) -> Made:
    return lambda x, y: (x[:, None] - y[None]).pow(2).sum(-1), (torch.randn(s.t, s.d), torch.randn(s.t, s.d))


CASES = cases(
    matmul, matmul_transposed_right, matmul_transposed_left, matmul_both_transposed, matrix_vector, batched,
    batched_broadcast, linear, linear_of_words, linear_gelu, addmm, outer, einsum_attention, einsum_bilinear,
    bilinear_layer, cosine_similarity, distances,
)  # fmt: skip
