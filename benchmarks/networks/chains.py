"""Thirty problems of the kind of KernelBench's level 2: a product or convolution, and operators behind it.

The sizes are for a CPU: a hundredth of a second or so of one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    """Layers by name, and a function of them and the inputs."""

    def __init__(self, forward: Callable[..., Any], **layers: nn.Module | Tensor) -> None:
        super().__init__()
        for name, layer in layers.items():
            setattr(self, name, nn.Parameter(layer) if isinstance(layer, Tensor) else layer)
        self.function = forward

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape)


def _conv2d(c_in: int, c_out: int, k: int = 3, **given: Any) -> nn.Conv2d:
    return nn.Conv2d(c_in, c_out, k, **given)


def _min_tanh(m: Any, x: Tensor) -> Tensor:
    return torch.tanh(torch.tanh(torch.min(m.conv(x), dim=1, keepdim=True)[0]))


def _softmax_pools(m: Any, x: Tensor) -> Any:
    return m.pool(m.pool(torch.softmax(m.conv(x), dim=1)))


def _norm_scale_pool(m: Any, x: Tensor) -> Any:
    return torch.clamp(m.pool(m.norm(m.conv(x)) * m.scale), 0.0, 1.0)


def _global_logsumexp(m: Any, x: Tensor) -> Tensor:
    x = torch.mean(m.conv(x), dim=(2, 3), keepdim=True) + m.bias
    return torch.sum(torch.logsumexp(x, dim=1, keepdim=True), dim=(2, 3)) * 10.0


def _mish_mish(m: Any, x: Tensor) -> Tensor:
    return F.mish(F.mish(m.conv(x)))


def _sum_norm_gelu(m: Any, x: Tensor) -> Any:
    return F.gelu(m.pool(m.norm(m.conv(x) + m.weight)))


def _residuals(m: Any, x: Tensor) -> Tensor:
    x = m.conv(x)
    kept = x.clone().detach()
    return ((x + m.bias) + kept) * kept + kept


def _hardswish_norm(m: Any, x: Tensor) -> Tensor:
    x = F.hardswish(m.conv(x))
    return torch.mean(torch.softmax(F.relu(m.norm(x)), dim=1), dim=(2, 3, 4))


def _leaky_clamp(m: Any, x: Tensor) -> Tensor:
    x = F.leaky_relu(m.conv(x), 0.2) + m.weight
    return F.gelu(torch.clamp(x, -1.0, 1.0))


def _scale_min(m: Any, x: Tensor) -> Tensor:
    return torch.min(m.conv(x) * 2.0, dim=1, keepdim=True)[0]


def _tanh_scale_pool(m: Any, x: Tensor) -> Any:
    return m.pool(torch.tanh(m.conv(x)) * 0.5 + m.bias)


def _sub_hardswish_pool(m: Any, x: Tensor) -> Any:
    return F.mish(m.pool(F.hardswish(m.conv(x) - 0.5)))


def _sub_mish(m: Any, x: Tensor) -> Tensor:
    return F.mish(m.conv(x) - 0.5 - 0.2)


def _avg_sigmoid_sum(m: Any, x: Tensor) -> Tensor:
    return torch.sum(torch.sigmoid(m.pool(m.conv(x))), dim=(1, 2, 3))


def _min_bias_scale(m: Any, x: Tensor) -> Tensor:
    return (torch.min(m.conv(x), torch.tensor(0.5)) + m.bias) * 2.0


def _logsumexp_relu(m: Any, x: Tensor) -> Tensor:
    return F.relu(torch.logsumexp(m.pool(m.conv(x)), dim=1, keepdim=True))


def _instance_divide(m: Any, x: Tensor) -> Tensor:
    return m.norm(m.conv(x)) / 2.0


def _activation_norm(m: Any, x: Tensor) -> Any:
    x = m.conv(x)
    return m.norm(torch.multiply(torch.tanh(F.softplus(x)), x))


def _groups_min(m: Any, x: Tensor) -> Tensor:
    x = m.norm(m.linear(x))
    return torch.min(x, dim=1, keepdim=True)[0] + m.bias


def _swish_divide(m: Any, x: Tensor) -> Tensor:
    x = m.linear(x)
    x = torch.clamp(x * torch.sigmoid(x) / 2.0, -1.0, 1.0)
    return torch.clamp(torch.tanh(x), -1.0, 1.0)


def _max_sum_scale(m: Any, x: Tensor) -> Tensor:
    x = m.pool(m.linear(x).unsqueeze(1)).squeeze(1)
    return torch.sum(x, dim=1) * 0.5


def _sub_avg_lse(m: Any, x: Tensor) -> Tensor:
    kept = x.clone().detach()
    x = torch.mean(m.linear(x) - m.less, dim=1, keepdim=True)
    return F.gelu(torch.logsumexp(x, dim=1, keepdim=True)) + kept


def _sum_max_mean(m: Any, x: Tensor) -> Tensor:
    x = torch.sum(m.linear(x), dim=1, keepdim=True)
    x = torch.mean(torch.max(x, dim=1, keepdim=True)[0], dim=1, keepdim=True)
    return torch.logsumexp(torch.logsumexp(x, dim=1, keepdim=True), dim=1, keepdim=True)


def _residual_instance(m: Any, x: Tensor, y: Tensor) -> Tensor:
    x = m.norm(m.linear(x).unsqueeze(1).unsqueeze(1)).squeeze(1).squeeze(1)
    return (x + y) * y


def _scale_residual(m: Any, x: Tensor) -> Tensor:
    x = m.linear(x)
    return x * 0.5 + x.clone().detach()


def _norm_hardtanh(m: Any, x: Tensor) -> Tensor:
    return F.hardtanh(m.norm(F.silu(m.linear(x)) + m.bias), -0.8, 0.8)


def _batch_norm_softmax(m: Any, x: Tensor) -> Tensor:
    return torch.softmax(m.scale * m.norm(m.linear(x)), dim=1)


def _sigmoid_sum_lse(m: Any, x: Tensor) -> Tensor:
    return torch.logsumexp(torch.sum(torch.sigmoid(m.first(x)), dim=1, keepdim=True) + m.second(x), dim=1)


def _dropout_softmax(m: Any, x: Tensor) -> Any:
    return F.softmax(m.drop(m.linear(x)), dim=1)


def _mish_norm_1d(m: Any, x: Tensor) -> Any:
    return m.norm(F.mish(m.conv(x)) * m.scale)


_IMAGE = (4, 16, 48, 48)
_VOLUME = (2, 8, 12, 20, 20)

PROBLEMS: dict[str, Any] = {
    "conv_min_tanh": lambda: (Net(_min_tanh, conv=_conv2d(16, 32)), (randn(*_IMAGE),)),
    "conv3d_softmax_pools": lambda: (
        Net(_softmax_pools, conv=nn.Conv3d(8, 16, 3), pool=nn.MaxPool3d(2)), (randn(*_VOLUME),)),
    "conv_group_norm_scale_pool": lambda: (
        Net(_norm_scale_pool, conv=_conv2d(16, 32), norm=nn.GroupNorm(8, 32), scale=torch.ones(32, 1, 1),
            pool=nn.MaxPool2d(4)), (randn(*_IMAGE),)),
    "transposed_global_logsumexp": lambda: (
        Net(_global_logsumexp, conv=nn.ConvTranspose2d(16, 32, 3), bias=randn(32, 1, 1)), (randn(*_IMAGE),)),
    "conv_mish_mish": lambda: (Net(_mish_mish, conv=_conv2d(16, 32)), (randn(*_IMAGE),)),
    "transposed3d_sum_norm_pool_gelu": lambda: (
        Net(_sum_norm_gelu, conv=nn.ConvTranspose3d(8, 16, 3, 2, 1, 1), weight=torch.tensor(1.0),
            norm=nn.LayerNorm(40), pool=nn.AvgPool3d(2)), (randn(*_VOLUME),)),
    "transposed3d_residuals": lambda: (
        Net(_residuals, conv=nn.ConvTranspose3d(8, 16, 3, 2, 1, 1), bias=randn(16, 1, 1, 1)), (randn(*_VOLUME),)),
    "conv3d_hardswish_norm_softmax": lambda: (
        Net(_hardswish_norm, conv=nn.Conv3d(8, 16, 3), norm=nn.GroupNorm(4, 16)), (randn(*_VOLUME),)),
    "conv3d_leaky_clamp": lambda: (
        Net(_leaky_clamp, conv=nn.Conv3d(8, 16, 3), weight=randn(16, 1, 1, 1)), (randn(*_VOLUME),)),
    "conv_scale_min": lambda: (Net(_scale_min, conv=_conv2d(16, 32)), (randn(*_IMAGE),)),
    "conv_tanh_scale_pool": lambda: (
        Net(_tanh_scale_pool, conv=_conv2d(16, 32), bias=randn(32, 1, 1), pool=nn.MaxPool2d(2)), (randn(*_IMAGE),)),
    "conv_sub_hardswish_pool": lambda: (
        Net(_sub_hardswish_pool, conv=_conv2d(16, 32), pool=nn.MaxPool2d(2)), (randn(*_IMAGE),)),
    "conv_sub_mish": lambda: (Net(_sub_mish, conv=_conv2d(16, 32, 5)), (randn(*_IMAGE),)),
    "conv_avg_sigmoid_sum": lambda: (
        Net(_avg_sigmoid_sum, conv=_conv2d(16, 32), pool=nn.AvgPool2d(4)), (randn(*_IMAGE),)),
    "conv_min_bias_scale": lambda: (
        Net(_min_bias_scale, conv=_conv2d(16, 32), bias=randn(32, 1, 1)), (randn(*_IMAGE),)),
    "conv3d_pool_logsumexp": lambda: (
        Net(_logsumexp_relu, conv=nn.Conv3d(8, 16, 3, padding=1), pool=nn.MaxPool3d(2, 2)), (randn(*_VOLUME),)),
    "conv_instance_norm_divide": lambda: (
        Net(_instance_divide, conv=_conv2d(16, 32), norm=nn.InstanceNorm2d(32)), (randn(*_IMAGE),)),
    "conv_activation_batch_norm": lambda: (
        Net(_activation_norm, conv=_conv2d(16, 32), norm=nn.BatchNorm2d(32)), (randn(*_IMAGE),)),
    "linear_group_norm_min": lambda: (
        Net(_groups_min, linear=nn.Linear(512, 1024), norm=nn.GroupNorm(32, 1024), bias=randn(1, 1024)),
        (randn(64, 512),)),
    "linear_swish_divide_clamp": lambda: (Net(_swish_divide, linear=nn.Linear(512, 1024)), (randn(64, 512),)),
    "linear_max_sum_scale": lambda: (
        Net(_max_sum_scale, linear=nn.Linear(1024, 512), pool=nn.MaxPool1d(2)), (randn(64, 1024),)),
    "linear_sub_mean_residual": lambda: (
        Net(_sub_avg_lse, linear=nn.Linear(512, 512), less=randn(512)), (randn(128, 512),)),
    "linear_sum_max_mean": lambda: (Net(_sum_max_mean, linear=nn.Linear(1024, 1024)), (randn(64, 1024),)),
    "bmm_instance_norm_residual": lambda: (
        Net(_residual_instance, linear=nn.Linear(512, 512), norm=nn.InstanceNorm2d(512)),
        (randn(128, 512), randn(128, 512))),
    "linear_scale_residual": lambda: (Net(_scale_residual, linear=nn.Linear(1000, 500)), (randn(100, 1000),)),
    "linear_norm_hardtanh": lambda: (
        Net(_norm_hardtanh, linear=nn.Linear(512, 1024), bias=randn(1024), norm=nn.GroupNorm(16, 1024)),
        (randn(64, 512),)),
    "linear_batch_norm_softmax": lambda: (
        Net(_batch_norm_softmax, linear=nn.Linear(512, 1024), norm=nn.BatchNorm1d(1024), scale=torch.ones(1)),
        (randn(128, 512),)),
    "two_linears_logsumexp": lambda: (
        Net(_sigmoid_sum_lse, first=nn.Linear(512, 256), second=nn.Linear(512, 777)), (randn(128, 512),)),
    "linear_dropout_softmax": lambda: (
        Net(_dropout_softmax, linear=nn.Linear(512, 512), drop=nn.Dropout(0.2)).eval(), (randn(128, 512),)),
    "conv1d_mish_norm": lambda: (
        Net(_mish_norm_1d, conv=nn.Conv1d(32, 64, 5, padding=2), norm=nn.BatchNorm1d(64), scale=randn(64, 1)),
        (randn(8, 32, 512),)),
}  # fmt: skip
