"""Softmax and normalisations."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from modules.cases import Made, Make, Sizes, cases, image, rows, words


def batch_norm_inference(s: Sizes) -> Made:
    module = nn.BatchNorm2d(s.c)
    module.running_mean.normal_()
    module.running_var.uniform_(0.5, 2)
    return module.eval(), (image(s),)


def temperature(s: Sizes) -> Made:
    def function(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax((x / 0.7).masked_fill(mask, float("-inf")), -1)

    mask = torch.rand(s.n, s.m) > 0.5
    mask[:, 0] = False
    return function, (rows(s), mask)


BY_FORMULA: dict[str, Make] = {
    "softmax": lambda s: (nn.Softmax(-1), (rows(s),)),
    "softmax_columns": lambda s: (nn.Softmax(0), (rows(s),)),
    "log_softmax": lambda s: (nn.LogSoftmax(-1), (rows(s),)),
    "layer_norm": lambda s: (nn.LayerNorm(s.d), (words(s),)),
    "rms_norm": lambda s: (nn.RMSNorm(s.d, eps=1e-6), (words(s),)),
    "batch_norm_training": lambda s: (nn.BatchNorm2d(s.c), (image(s),)),
    "group_norm": lambda s: (nn.GroupNorm(2, s.c), (image(s),)),
    "instance_norm": lambda s: (nn.InstanceNorm2d(s.c, affine=True), (image(s),)),
    "normalized": lambda s: (lambda x: F.normalize(x, dim=1), (rows(s),)),
}
CASES = cases(
    BY_FORMULA, batch_norm_inference, temperature,
)  # fmt: skip
