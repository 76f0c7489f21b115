"""Softmax and normalisations."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from modules.cases import Made, Sizes, cases, image, rows, words


def softmax(s: Sizes) -> Made:
    return nn.Softmax(-1), (rows(s),)


def softmax_columns(s: Sizes) -> Made:
    return nn.Softmax(0), (rows(s),)


def log_softmax(s: Sizes) -> Made:
    return nn.LogSoftmax(-1), (rows(s),)


def layer_norm(s: Sizes) -> Made:
    return nn.LayerNorm(s.d), (words(s),)


def rms_norm(s: Sizes) -> Made:
    return nn.RMSNorm(s.d, eps=1e-6), (words(s),)


def batch_norm_training(s: Sizes) -> Made:
    return nn.BatchNorm2d(s.c), (image(s),)


def batch_norm_inference(s: Sizes) -> Made:
    module = nn.BatchNorm2d(s.c)
    module.running_mean.normal_()
    module.running_var.uniform_(0.5, 2)
    return module.eval(), (image(s),)


def group_norm(s: Sizes) -> Made:
    return nn.GroupNorm(2, s.c), (image(s),)


def instance_norm(s: Sizes) -> Made:
    return nn.InstanceNorm2d(s.c, affine=True), (image(s),)


def normalized(s: Sizes) -> Made:
    return lambda x: F.normalize(x, dim=1), (rows(s),)


def temperature(s: Sizes) -> Made:
    def function(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax((x / 0.7).masked_fill(mask, float("-inf")), -1)

    mask = torch.rand(s.n, s.m) > 0.5
    mask[:, 0] = False
    return function, (rows(s), mask)


CASES = cases(
    softmax, softmax_columns, log_softmax, layer_norm, rms_norm, batch_norm_training, batch_norm_inference,
    group_norm, instance_norm, normalized, temperature,
)  # fmt: skip
