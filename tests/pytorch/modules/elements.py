"""Elementwise operators, alone and in chains, with broadcasts and casts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from modules.cases import Made, Make, Sizes, cases, image, rows


def integers(s: Sizes) -> Made:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * 3 - y) // 4 + (x % 5) * (y & 7)

    return function, (torch.randint(-9, 9, (s.n, s.m)), torch.randint(0, 9, (s.n, s.m)))


BY_FORMULA: dict[str, Make] = {
    "relu": lambda s: (nn.ReLU(), (rows(s),)),
    "gelu": lambda s: (nn.GELU(), (rows(s),)),
    "gelu_tanh": lambda s: (nn.GELU(approximate="tanh"), (rows(s),)),
    "silu": lambda s: (nn.SiLU(), (rows(s),)),
    "sigmoid": lambda s: (nn.Sigmoid(), (rows(s),)),
    "tanh": lambda s: (nn.Tanh(), (rows(s),)),
    "elu": lambda s: (nn.ELU(0.7), (rows(s),)),
    "leaky_relu": lambda s: (nn.LeakyReLU(0.1), (rows(s),)),
    "hardswish": lambda s: (nn.Hardswish(), (3 * rows(s),)),
    "softplus": lambda s: (nn.Softplus(), (rows(s),)),
    "mish": lambda s: (nn.Mish(), (rows(s),)),
    "prelu": lambda s: (nn.PReLU(s.c), (image(s),)),
    "softsign": lambda s: (nn.Softsign(), (rows(s),)),
    "logsigmoid": lambda s: (nn.LogSigmoid(), (rows(s),)),
    "add_broadcast": lambda s: (lambda x, y, z: x + y * z, (rows(s), torch.randn(s.m), torch.randn(s.n, 1))),
    "chain": lambda s: (
        lambda x, y: torch.tanh(x * y + 1.5).abs().sqrt() * torch.exp(-x) / (1 + y * y),
        (rows(s), rows(s)),
    ),
    "powers": lambda s: (lambda x: x**2 - 0.5 * x**3 + (x.abs() + 1) ** 1.7 + (x.abs() + 0.5).rsqrt(), (rows(s),)),
    "clamped": lambda s: (
        lambda x, y: torch.clamp(x, -0.5, 0.8) * torch.maximum(x, y) - torch.minimum(x, y),
        (rows(s), rows(s)),
    ),
    "where": lambda s: (lambda x, y: torch.where(x > y, x * 2, y.exp()), (rows(s), rows(s))),
    "masked": lambda s: (lambda x, m: x.masked_fill(m, -2.0).sin(), (rows(s), torch.rand(s.n, s.m) > 0.5)),
    "trigonometry": lambda s: (
        lambda x: x.sin() * x.cos() + torch.atan(x) - torch.atan2(x, x.abs() + 1),
        (rows(s),),
    ),
    "logarithms": lambda s: (
        lambda x: torch.log(x) + torch.log2(x) * torch.log1p(x) - torch.log10(x),
        (torch.rand(s.n, s.m) + 0.1,),
    ),
    "lerped": lambda s: (
        lambda x, y, w: torch.lerp(x, y, w) + torch.addcmul(x, y, w, value=0.3),
        (rows(s), rows(s), rows(s)),
    ),
    "casts": lambda s: (
        lambda x, k: (x.double() * k).float() + (x > 0).float() * k.to(torch.float32),
        (rows(s), torch.randint(-9, 9, (s.n, s.m))),
    ),
    "glu": lambda s: (lambda x: F.glu(x, -1), (rows(s),)),
}
CASES = cases(
    BY_FORMULA, integers,
    without=("integers",),
)  # fmt: skip
