"""Convolutions and pooling."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from modules.cases import Made, Make, Sizes, cases, image


def causal_conv(s: Sizes) -> Made:
    module = nn.Conv1d(s.c, s.c, 4, groups=s.c)
    return nn.Sequential(nn.ConstantPad1d((3, 0), 0.0), module, nn.SiLU()), (torch.randn(s.b, s.c, s.t),)


BY_FORMULA: dict[str, Make] = {
    "conv1d": lambda s: (nn.Conv1d(s.c, 2 * s.c, 5, stride=2, padding=2), (torch.randn(s.b, s.c, 3 * s.h),)),
    "conv2d": lambda s: (nn.Conv2d(s.c, s.c, 3, padding=1), (image(s),)),
    "conv2d_strided": lambda s: (nn.Conv2d(s.c, 2 * s.c, 3, stride=2, padding=1, bias=False), (image(s),)),
    "conv2d_dilated": lambda s: (nn.Conv2d(s.c, s.c, 3, dilation=2, padding=2), (image(s),)),
    "conv2d_grouped": lambda s: (nn.Conv2d(s.c, 2 * s.c, 3, groups=2), (image(s),)),
    "conv2d_depthwise": lambda s: (nn.Conv2d(s.c, s.c, 3, padding=1, groups=s.c), (image(s),)),
    "conv2d_pointwise": lambda s: (nn.Conv2d(s.c, 2 * s.c, 1), (image(s),)),
    "conv2d_patches": lambda s: (nn.Conv2d(s.c, s.d, 4, stride=4), (image(s),)),
    "conv3d": lambda s: (
        nn.Conv3d(s.c // 2, s.c, 3, padding=1),
        (torch.randn(1, s.c // 2, 5, s.h // 2, s.h // 2),),
    ),
    "conv_transpose1d": lambda s: (
        nn.ConvTranspose1d(s.c, s.c // 2, 4, stride=2, padding=1),
        (torch.randn(s.b, s.c, s.h),),
    ),
    "conv_transpose2d": lambda s: (
        nn.ConvTranspose2d(s.c, s.c // 2, 3, stride=2, padding=1, output_padding=1),
        (image(s),),
    ),
    "conv_transpose2d_apart": lambda s: (
        nn.Sequential(nn.SiLU(), nn.ConvTranspose2d(s.c, 6, 2, stride=2), nn.Conv2d(6, s.c, 3, padding=1)),
        (image(s),),
    ),
    "conv_transpose1d_apart": lambda s: (
        nn.ConvTranspose1d(s.c, s.c // 2, 3, stride=3, bias=False),
        (torch.randn(s.b, s.c, s.h),),
    ),
    "conv2d_stem": lambda s: (
        nn.Sequential(nn.Conv2d(3, 16, 7, stride=2, padding=3), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)),
        (torch.randn(s.b, 3, s.h, s.h),),
    ),
    "max_pool": lambda s: (nn.MaxPool2d(2), (image(s),)),
    "max_pool_padded": lambda s: (nn.MaxPool2d(3, stride=2, padding=1), (image(s),)),
    "max_pool1d": lambda s: (nn.MaxPool1d(3, stride=2), (torch.randn(s.b, s.c, 3 * s.h),)),
    "average_pool": lambda s: (nn.AvgPool2d(2), (image(s),)),
    "average_pool_padded": lambda s: (nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False), (image(s),)),
    "adaptive_pool": lambda s: (nn.AdaptiveAvgPool2d(1), (image(s),)),
    "adaptive_pool_four": lambda s: (lambda x: F.adaptive_avg_pool2d(x, 4), (image(s),)),
    "unfolded": lambda s: (nn.Unfold(3, padding=1), (image(s),)),
}
CASES = cases(
    BY_FORMULA, causal_conv,
)  # fmt: skip
