"""Why rows of `modules.py` are slower than 0.7 of eager PyTorch, as far as it is known.

Those of a GPU are from figures of `module_work.py`."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "extremes": "the planner joins the loops of both extremes over rows; the one over columns then strides",
    "transposed": "a transpose of a text that no stored schedule is for gets tiles of scalars, not of vectors",
    "gathered": "8 us of PyTorch: what a call costs here (about 10 us) is more than the work",
    "nll_weighted": "6 us of PyTorch: what a call costs here (about 10 us) is more than the work",
    "bilinear": "four gathers by index arrays for each pixel; it was 0.92 in a run of few rows alone",
    "bilinear_layer": "one sum over products of three tensors, which the planner makes no product of matrices of",
}
"""Why a row is under 0.7, as far as it is known."""

_CONVOLUTION = "in part: cuDNN computes in TF32 by PyTorch's default, and this is f32 (--exact was not measured)"
_CALL = "a call: some microseconds of Python and of the driver, where the kernel takes 2 to 5"
_NOT_KNOWN = "not looked into"
REASONS_ON_GPUS: dict[str, str] = {
    **dict.fromkeys(
        ("conv_transpose2d", "conv3d", "conv2d_patches", "conv2d_strided", "conv2d_dilated", "conv2d",
         "vision_patches"), _CONVOLUTION,
    ),
    **dict.fromkeys(
        ("reflected", "sigmoid", "gelu", "nll_weighted", "gelu_tanh", "tanh", "silu", "mish", "max_pool1d",
         "softplus", "average_pool", "replicated", "relu", "average_pool_padded"), _CALL,
    ),
    **dict.fromkeys(
        ("upsampled", "attention_cached", "batch_norm_training", "argmin_of_all", "matmul"), _NOT_KNOWN
    ),
}  # fmt: skip
"""The same on a GPU."""
