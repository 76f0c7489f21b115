"""Reductions and running values."""

from __future__ import annotations

import torch

from modules.cases import Made, Sizes, cases, image, rows, words


def sum_rows(s: Sizes) -> Made:
    return lambda x: x.sum(1), (rows(s),)


def sum_columns(s: Sizes) -> Made:
    return lambda x: x.sum(0), (rows(s),)


def total(s: Sizes) -> Made:
    return lambda x: (x * x).sum(), (rows(s),)


def mean_spatial(s: Sizes) -> Made:
    return lambda x: x.mean((2, 3)), (image(s),)


def largest(s: Sizes) -> Made:
    return lambda x: x.max(1).values * 2, (rows(s),)


def extremes(s: Sizes) -> Made:
    return lambda x: x.amax(1, keepdim=True) - x.amin(0), (rows(s),)


def argmax(s: Sizes) -> Made:
    return lambda x: x.argmax(1), (rows(s),)


def argmin_of_all(s: Sizes) -> Made:
    return lambda x: x.argmin(), (rows(s),)


def variance(s: Sizes) -> Made:
    return lambda x: x.var(1) + x.std(1, unbiased=False), (rows(s),)


def norms(s: Sizes) -> Made:
    return lambda x: x.norm(dim=1) + x.abs().sum(1), (rows(s),)


def products(s: Sizes) -> Made:
    return lambda x: (1 + 0.01 * x).prod(1), (rows(s),)


def logsumexp(s: Sizes) -> Made:
    return lambda x: torch.logsumexp(x, 1), (rows(s),)


def cumulative_sum(s: Sizes) -> Made:
    return lambda x: torch.cumsum(x, 1), (rows(s),)


def cumulative_product(s: Sizes) -> Made:
    return lambda x: torch.cumprod(1 + 0.01 * x, 1), (rows(s),)


def questions(s: Sizes) -> Made:
    return lambda x: (x > 1).any(1) & (x < 2).all(1), (rows(s),)


def pooled_words(s: Sizes) -> Made:
    def function(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        kept = mask.unsqueeze(-1).float()
        return (x * kept).sum(1) / kept.sum(1).clamp(min=1)

    return function, (words(s), torch.rand(s.b, s.t) > 0.3)


CASES = cases(
    sum_rows, sum_columns, total, mean_spatial, largest, extremes, argmax, argmin_of_all, variance, norms,
    products, logsumexp, cumulative_sum, cumulative_product, questions, pooled_words,
    without=("argmax", "argmin_of_all", "questions"),
)  # fmt: skip
