"""Elementwise operators, alone and in chains, with broadcasts and casts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from modules.cases import Made, Sizes, cases, image, rows


def relu(s: Sizes) -> Made:
    return nn.ReLU(), (rows(s),)


def gelu(s: Sizes) -> Made:
    return nn.GELU(), (rows(s),)


def gelu_tanh(s: Sizes) -> Made:
    return nn.GELU(approximate="tanh"), (rows(s),)


def silu(s: Sizes) -> Made:
    return nn.SiLU(), (rows(s),)


def sigmoid(s: Sizes) -> Made:
    return nn.Sigmoid(), (rows(s),)


def tanh(s: Sizes) -> Made:
    return nn.Tanh(), (rows(s),)


def elu(s: Sizes) -> Made:
    return nn.ELU(0.7), (rows(s),)


def leaky_relu(s: Sizes) -> Made:
    return nn.LeakyReLU(0.1), (rows(s),)


def hardswish(s: Sizes) -> Made:
    return nn.Hardswish(), (3 * rows(s),)


def softplus(s: Sizes) -> Made:
    return nn.Softplus(), (rows(s),)


def mish(s: Sizes) -> Made:
    return nn.Mish(), (rows(s),)


def prelu(s: Sizes) -> Made:
    return nn.PReLU(s.c), (image(s),)


def softsign(s: Sizes) -> Made:
    return nn.Softsign(), (rows(s),)


def logsigmoid(s: Sizes) -> Made:
    return nn.LogSigmoid(), (rows(s),)


def add_broadcast(s: Sizes) -> Made:
    return lambda x, y, z: x + y * z, (rows(s), torch.randn(s.m), torch.randn(s.n, 1))


def chain(s: Sizes) -> Made:
    return lambda x, y: torch.tanh(x * y + 1.5).abs().sqrt() * torch.exp(-x) / (1 + y * y), (rows(s), rows(s))


def powers(s: Sizes) -> Made:
    return lambda x: x**2 - 0.5 * x**3 + (x.abs() + 1) ** 1.7 + (x.abs() + 0.5).rsqrt(), (rows(s),)


def clamped(s: Sizes) -> Made:
    return lambda x, y: torch.clamp(x, -0.5, 0.8) * torch.maximum(x, y) - torch.minimum(x, y), (rows(s), rows(s))


def where(s: Sizes) -> Made:
    return lambda x, y: torch.where(x > y, x * 2, y.exp()), (rows(s), rows(s))


def masked(s: Sizes) -> Made:
    return lambda x, m: x.masked_fill(m, -2.0).sin(), (rows(s), torch.rand(s.n, s.m) > 0.5)


def trigonometry(s: Sizes) -> Made:
    return lambda x: x.sin() * x.cos() + torch.atan(x) - torch.atan2(x, x.abs() + 1), (rows(s),)


def logarithms(s: Sizes) -> Made:
    return lambda x: torch.log(x) + torch.log2(x) * torch.log1p(x) - torch.log10(x), (torch.rand(s.n, s.m) + 0.1,)


def lerped(s: Sizes) -> Made:
    return lambda x, y, w: torch.lerp(x, y, w) + torch.addcmul(x, y, w, value=0.3), (rows(s), rows(s), rows(s))


def integers(s: Sizes) -> Made:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * 3 - y) // 4 + (x % 5) * (y & 7)

    return function, (torch.randint(-9, 9, (s.n, s.m)), torch.randint(0, 9, (s.n, s.m)))


def casts(s: Sizes) -> Made:
    return lambda x, k: (x.double() * k).float() + (x > 0).float() * k.to(torch.float32), (
        rows(s),
        torch.randint(-9, 9, (s.n, s.m)),
    )


def glu(s: Sizes) -> Made:
    return lambda x: F.glu(x, -1), (rows(s),)


CASES = cases(
    relu, gelu, gelu_tanh, silu, sigmoid, tanh, elu, leaky_relu, hardswish, softplus, mish, prelu, softsign,
    logsigmoid, add_broadcast, chain, powers, clamped, where, masked, trigonometry, logarithms, lerped,
    integers, casts, glu,
    without=("integers",),
)  # fmt: skip
