"""Why rows of `modules.py` are slower than 0.7 of eager PyTorch, as far as it is known.

Those of a GPU are from figures of `module_work.py` on an H200: microseconds of the GPU's work alone, which is less
than a call takes where the CPU does not keep up.
"""

from __future__ import annotations

REASONS: dict[str, str] = {
    "gathered": "8 us of PyTorch: what a call costs here (about 10 us) is more than the work",
    "nll_weighted": "6 us of PyTorch: what a call costs here (about 10 us) is more than the work",
    "bilinear_layer": "one sum over products of three tensors, which the planner makes no product of matrices of",
}
"""Why a row is under 0.7, as far as it is known."""


def _convolution(here: int, exact: int, tf32: int, why: str) -> str:
    cudnn = f"of cuDNN {tf32} in TF32 (PyTorch's default) and {exact} in f32, which this is in"
    return f"work of {here} us, {cudnn}: {why}"


_CALL = "a call: some microseconds of Python and of the driver, where the kernel takes 2 to 5"
REASONS_ON_GPUS: dict[str, str] = {
    "conv_transpose2d": _convolution(577, 109, 50, "a thread has one result at a time, and nothing is shared"),
    "conv3d": _convolution(
        210, 100, 22, "140 blocks, of a row of 28 results each, load a tile for each of 27 taps"
    ),
    "conv2d_patches": _convolution(
        257, 118, 35, "a block has a row of 14 results in a tile of 32, and loads one for each of 16 taps"
    ),
    "conv2d_strided": _convolution(
        199, 47, 18, "a block has a row of 28 results, and loads a tile for each of 9 taps"
    ),
    "vision_patches": _convolution(265, 130, 48, "the convolution of conv2d_patches"),
    "conv2d_dilated": _convolution(83, 73, 33, "0.9 of it in f32"),
    "conv2d": _convolution(78, 73, 33, "0.9 of it in f32"),
    "upsampled": "work of 36 us, of PyTorch 15: 57344 blocks of 256 threads, of which 112 write an element each",
    "attention_cached": "a call: 15 launches where PyTorch has 5; the work is 34 us, that of PyTorch 43",
    "batch_norm_training": "a call: 9 launches, 3 of which copied statistics back (written in place since), "
    "where PyTorch has 2; the work was 20 us, that of cuDNN 12",
    "argmin_of_all": "a call: 3 launches where PyTorch has 2; the work is 6 us, that of PyTorch 9",
    "matmul": "work of 49 us, of cuBLAS 33, which parts the sum (split k): 128 blocks of 128 threads here, one for "
    "each multiprocessor",
    **dict.fromkeys(
        ("reflected", "sigmoid", "gelu", "nll_weighted", "gelu_tanh", "tanh", "silu", "mish", "max_pool1d",
         "softplus", "average_pool", "replicated", "relu", "average_pool_padded"), _CALL,
    ),
}  # fmt: skip
"""The same on a GPU."""
