"""Convolutions and pooling."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from modules.cases import Made, Sizes, cases, image


def conv1d(s: Sizes) -> Made:
    return nn.Conv1d(s.c, 2 * s.c, 5, stride=2, padding=2), (torch.randn(s.b, s.c, 3 * s.h),)


def conv2d(s: Sizes) -> Made:
    return nn.Conv2d(s.c, s.c, 3, padding=1), (image(s),)


def conv2d_strided(s: Sizes) -> Made:
    return nn.Conv2d(s.c, 2 * s.c, 3, stride=2, padding=1, bias=False), (image(s),)


def conv2d_dilated(s: Sizes) -> Made:
    return nn.Conv2d(s.c, s.c, 3, dilation=2, padding=2), (image(s),)


def conv2d_grouped(s: Sizes) -> Made:
    return nn.Conv2d(s.c, 2 * s.c, 3, groups=2), (image(s),)


def conv2d_depthwise(s: Sizes) -> Made:
    return nn.Conv2d(s.c, s.c, 3, padding=1, groups=s.c), (image(s),)


def conv2d_pointwise(s: Sizes) -> Made:
    return nn.Conv2d(s.c, 2 * s.c, 1), (image(s),)


def conv2d_patches(s: Sizes) -> Made:
    return nn.Conv2d(s.c, s.d, 4, stride=4), (image(s),)


def conv3d(s: Sizes) -> Made:
    return nn.Conv3d(s.c // 2, s.c, 3, padding=1), (torch.randn(1, s.c // 2, 5, s.h // 2, s.h // 2),)


def conv_transpose1d(s: Sizes) -> Made:
    return nn.ConvTranspose1d(s.c, s.c // 2, 4, stride=2, padding=1), (torch.randn(s.b, s.c, s.h),)


def conv_transpose2d(s: Sizes) -> Made:
    return nn.ConvTranspose2d(s.c, s.c // 2, 3, stride=2, padding=1, output_padding=1), (image(s),)


def causal_conv(s: Sizes) -> Made:
    module = nn.Conv1d(s.c, s.c, 4, groups=s.c)
    return nn.Sequential(nn.ConstantPad1d((3, 0), 0.0), module, nn.SiLU()), (torch.randn(s.b, s.c, s.t),)


def max_pool(s: Sizes) -> Made:
    return nn.MaxPool2d(2), (image(s),)


def max_pool_padded(s: Sizes) -> Made:
    return nn.MaxPool2d(3, stride=2, padding=1), (image(s),)


def max_pool1d(s: Sizes) -> Made:
    return nn.MaxPool1d(3, stride=2), (torch.randn(s.b, s.c, 3 * s.h),)


def average_pool(s: Sizes) -> Made:
    return nn.AvgPool2d(2), (image(s),)


def average_pool_padded(s: Sizes) -> Made:
    return nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False), (image(s),)


def adaptive_pool(s: Sizes) -> Made:
    return nn.AdaptiveAvgPool2d(1), (image(s),)


def adaptive_pool_four(s: Sizes) -> Made:
    return lambda x: F.adaptive_avg_pool2d(x, 4), (image(s),)


def unfolded(s: Sizes) -> Made:
    return nn.Unfold(3, padding=1), (image(s),)


CASES = cases(
    conv1d, conv2d, conv2d_strided, conv2d_dilated, conv2d_grouped, conv2d_depthwise, conv2d_pointwise,
    conv2d_patches, conv3d, conv_transpose1d, conv_transpose2d, causal_conv, max_pool, max_pool_padded,
    max_pool1d, average_pool, average_pool_padded, adaptive_pool, adaptive_pool_four, unfolded,
)  # fmt: skip
