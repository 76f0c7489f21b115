"""The kernels of the library in NumPy, in f64, and the sizes at which each is tested.

A reference takes the arguments of the kernel as arrays and its sizes as integers, by name, and gives its
outputs. It is written from the formula in the header of the `.dojo` file, not from its loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dojoir import Kernel, kernels

Array = NDArray[np.generic]
Float = NDArray[np.float64]
Arrays = dict[str, Array]
Reference = Callable[[Mapping[str, Float], Mapping[str, int]], dict[str, Float]]


@dataclass(frozen=True)
class Case:
    """A kernel of the library at concrete sizes; `fixed` are changes to the sizes that its header fixes."""

    kernel: str
    sizes: Mapping[str, int]
    fixed: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join([self.kernel, *(f"{k}{v}" for k, v in {**self.sizes, **self.fixed}.items())])

    def load(self) -> Kernel:
        return kernels.load(self.kernel, **self.fixed)


# -- inputs ------------------------------------------------------------------------------------------------
NUMPY = {"f64": np.float64, "f32": np.float32, "i64": np.int64, "i32": np.int32, "i8": np.int8}


def inputs(kernel: Kernel, sizes: Mapping[str, int], seed: int = 0) -> Arrays:
    """Arrays for all in and inout arguments: normal floats, integers over the range of what they index."""
    rng = np.random.default_rng(seed)
    made: Arrays = {}
    for buffer in kernel.arguments:
        if buffer.role == "out":
            continue
        shape = tuple(dim.extent.evaluate(sizes) for dim in buffer.dims)
        match kernel.name, buffer.name:
            case _, "eps":
                value: Array = np.array(1e-3)
            case "attention", "scale":
                value = np.array(1 / math.sqrt(sizes["D"]))
            case "batchnorm_inference", "var":
                value = rng.uniform(0.1, 2, shape)
            case "csr" | "bsr", "rows":
                most = min(sizes["M"], sizes["Z"] // sizes["N"])
                value = np.append(0, np.cumsum(rng.integers(0, most + 1, sizes["N"])))
            case "csr" | "ell" | "bsr", "cols":
                value = rng.integers(0, sizes["K"], shape)
            case "embedding", "ids":
                value = rng.integers(0, sizes["V"], shape)
            case "cross_entropy", "t":
                value = rng.integers(0, sizes["C"], shape)
            case "matmul_int8", "a" | "b":
                value = rng.integers(-128, 128, shape)
            case _:
                value = rng.standard_normal(shape)
        made[buffer.name] = np.asarray(value, NUMPY[buffer.dtype.name])
    return made


def expected(case: Case, given: Arrays) -> dict[str, Float]:
    """What the kernel must give, from its reference in f64."""
    kernel = case.load()
    sizes = {size.name: size.value for size in kernel.sizes if size.value is not None} | dict(case.sizes)
    return REFERENCES[case.kernel]({name: np.asarray(a, np.float64) for name, a in given.items()}, sizes)


# -- references --------------------------------------------------------------------------------------------
REFERENCES: dict[str, Reference] = {}


def reference(function: Reference) -> Reference:
    REFERENCES[function.__name__] = function
    return function


@reference
def softmax(a: Mapping[str, Float], _: Mapping[str, int]) -> dict[str, Float]:
    e = np.exp(a["x"] - a["x"].max(axis=1, keepdims=True))
    return {"y": e / e.sum(axis=1, keepdims=True)}


@reference
def layernorm(a: Mapping[str, Float], _: Mapping[str, int]) -> dict[str, Float]:
    mean, var = a["x"].mean(axis=1, keepdims=True), a["x"].var(axis=1, keepdims=True)
    return {"y": (a["x"] - mean) / np.sqrt(var + a["eps"]) * a["g"] + a["b"]}


@reference
def residual_rmsnorm(a: Mapping[str, Float], sizes: Mapping[str, int]) -> dict[str, Float]:
    h = a["x"] + a["r"]
    return {"h": h, "y": FORMULAS["rmsnorm"]({**a, "x": h}, sizes)}


@reference
def batchnorm_inference(a: Mapping[str, Float], _: Mapping[str, int]) -> dict[str, Float]:
    mean, var, g, b = (a[name][:, None, None] for name in ("mean", "var", "g", "b"))
    return {"y": (a["x"] - mean) / np.sqrt(var + a["eps"]) * g + b}


@reference
def batchnorm_training(a: Mapping[str, Float], sizes: Mapping[str, int]) -> dict[str, Float]:
    statistics = {"mean": a["x"].mean(axis=(0, 2, 3)), "var": a["x"].var(axis=(0, 2, 3))}
    return {**statistics, **batchnorm_inference({**a, **statistics}, sizes)}


@reference
def groupnorm(a: Mapping[str, Float], _: Mapping[str, int]) -> dict[str, Float]:
    mean, var = (f(a["x"], axis=(2, 3), keepdims=True) for f in (np.mean, np.var))
    return {"y": (a["x"] - mean) / np.sqrt(var + a["eps"]) * a["w"][:, :, None] + a["b"][:, :, None]}


def windows(x: Float, kh: int, kw: int, sizes: Mapping[str, int], padding: float) -> Float:
    """All windows of the last two dimensions, padded, strided and dilated: shape [..., h, w, kh, kw]."""
    stride, pad, dilation = sizes["stride"], sizes["pad"], sizes.get("dilation", 1)
    edges = [(0, 0)] * (x.ndim - 2) + [(pad, pad)] * 2
    padded = np.pad(x, edges, constant_values=padding)
    reach = (dilation * (kh - 1) + 1, dilation * (kw - 1) + 1)
    seen = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(-2, -1))
    return np.asarray(seen[..., ::stride, ::stride, ::dilation, ::dilation])


@reference
def attention(a: Mapping[str, Float], sizes: Mapping[str, int]) -> dict[str, Float]:
    scores = a["scale"] * np.einsum("hid,hjd->hij", a["q"], a["k"])
    scores = np.where(np.tri(sizes["T"], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return {"y": weights / weights.sum(axis=-1, keepdims=True) @ a["v"]}


@reference
def cross_entropy(a: Mapping[str, Float], _: Mapping[str, int]) -> dict[str, Float]:
    right = a["x"][np.arange(len(a["t"])), a["t"].astype(int)]
    nll = np.logaddexp.reduce(a["x"], axis=1) - right
    return {"nll": nll, "loss": np.asarray(nll.mean())}


@reference
def csr(a: Mapping[str, Float], _: Mapping[str, int]) -> dict[str, Float]:
    rows, cols = a["rows"].astype(int), a["cols"].astype(int)
    held = [slice(*pair) for pair in pairwise(rows)]
    return {"y": np.array([a["v"][one] @ a["x"][cols[one]] for one in held])}


@reference
def bsr(a: Mapping[str, Float], _: Mapping[str, int]) -> dict[str, Float]:
    rows, cols = a["rows"].astype(int), a["cols"].astype(int)
    held = [slice(*pair) for pair in pairwise(rows)]
    return {"y": np.array([np.einsum("jrc,jc->r", a["v"][one], a["x"][cols[one]]) for one in held])}


@reference
def jacobi2d(given: Mapping[str, Float], sizes: Mapping[str, int]) -> dict[str, Float]:
    def sweep(source: Float, target: Float) -> None:
        c = source[1:-1, 1:-1]
        target[1:-1, 1:-1] = (c + source[1:-1, :-2] + source[1:-1, 2:] + source[2:, 1:-1] + source[:-2, 1:-1]) / 5

    a, b = given["a"].copy(), given["b"].copy()
    for _ in range(sizes["T"] if sizes["N"] > 2 else 0):
        sweep(a, b)
        sweep(b, a)
    return {"a": a, "b": b}


@reference
def heat3d(given: Mapping[str, Float], sizes: Mapping[str, int]) -> dict[str, Float]:
    inner = (slice(1, -1),) * 3

    def step(source: Float, target: Float) -> None:
        target[inner] = source[inner]
        for axis in range(3):
            second = np.diff(source, 2, axis=axis)
            target[inner] += second[tuple(slice(None) if d == axis else inner[d] for d in range(3))] / 8

    a, b = given["a"].copy(), given["b"].copy()
    for _ in range(sizes["T"] if sizes["N"] > 2 else 0):
        step(a, b)
        step(b, a)
    return {"a": a, "b": b}


FORMULAS: dict[str, Callable[[Mapping[str, Float], Mapping[str, int]], Float]] = {
    "log_softmax": lambda a, sizes: a["x"] - np.logaddexp.reduce(a["x"], axis=1, keepdims=True),
    "rmsnorm": lambda a, sizes: a["x"] / np.sqrt((a["x"] ** 2).mean(axis=1, keepdims=True) + a["eps"]) * a["g"],
    "relu": lambda a, sizes: np.maximum(a["x"], 0),
    "gelu": lambda a, sizes: a["x"] / 2 * (1 + np.vectorize(math.erf)(a["x"] / math.sqrt(2))),
    "silu": lambda a, sizes: a["x"] / (1 + np.exp(-a["x"])),
    "add": lambda a, sizes: a["a"] + a["b"],
    "mul": lambda a, sizes: a["a"] * a["b"],
    "bias_relu": lambda a, sizes: np.maximum(a["x"] + a["b"], 0),
    "swiglu": lambda a, sizes: (a["x"] @ a["w"]) / (1 + np.exp(-(a["x"] @ a["w"]))) * (a["x"] @ a["v"]),
    "reduce_mean_0": lambda a, sizes: a["x"].mean(axis=0),
    "reduce_mean_1": lambda a, sizes: a["x"].mean(axis=1),
    "reduce_max": lambda a, sizes: a["x"].max(axis=1),
    "argmax": lambda a, sizes: np.asarray(a["x"].argmax(axis=1), np.float64),
    "cumsum": lambda a, sizes: a["x"].cumsum(axis=1),
    "transpose": lambda a, sizes: a["x"].T,
    "dot": lambda a, sizes: np.asarray(a["a"] @ a["b"]),
    "saxpy": lambda a, sizes: a["y"] + a["alpha"] * a["x"],
    "gemv": lambda a, sizes: a["a"] @ a["x"],
    "matmul": lambda a, sizes: a["a"] @ a["b"],
    "matmul_nt": lambda a, sizes: a["a"] @ a["b"].T,
    "matmul_tn": lambda a, sizes: a["a"].T @ a["b"],
    "bmm": lambda a, sizes: a["a"] @ a["b"],
    "matmul_int8": lambda a, sizes: a["sa"][:, None] * a["sb"] * (a["a"] @ a["b"]),
    "conv2d": lambda a, sizes: np.einsum(
        "nchwpq,ocpq->nohw", windows(a["x"], *a["f"].shape[-2:], sizes, 0), a["f"]
    ),
    "grouped_conv2d": lambda a, sizes: np.einsum(
        "ngchwpq,gocpq->ngohw", windows(a["x"], *a["f"].shape[-2:], sizes, 0), a["f"]
    ),
    "depthwise_conv2d": lambda a, sizes: np.einsum(
        "nchwpq,cpq->nchw", windows(a["x"], *a["f"].shape[-2:], sizes, 0), a["f"]
    ),
    "maxpool2d": lambda a, sizes: windows(a["x"], sizes["KH"], sizes["KW"], sizes, -math.inf).max(axis=(-2, -1)),
    "avgpool2d": lambda a, sizes: windows(a["x"], sizes["KH"], sizes["KW"], sizes, 0).mean(axis=(-2, -1)),
    "embedding": lambda a, sizes: a["w"][a["ids"].astype(int)],
    "ell": lambda a, sizes: (a["v"] * a["x"][a["cols"].astype(int)]).sum(axis=1),
}
"""Those of one result, which is `y` or, of a product, `c`."""


def _of_one(formula: Callable[[Mapping[str, Float], Mapping[str, int]], Float], result: str) -> Reference:
    return lambda a, sizes: {result: np.asarray(formula(a, sizes))}


for _name, _formula in FORMULAS.items():
    REFERENCES[_name] = _of_one(_formula, "c" if _name in ("matmul", "matmul_nt", "matmul_tn", "bmm") else "y")


# -- sizes -------------------------------------------------------------------------------------------------
def _cases() -> list[Case]:
    """Every kernel at size 1, at primes, and at sizes that no power of two divides; stencils also so small that
    nothing is inside; convolutions and pools with every stride, padding and dilation that differs in kind."""
    cases: list[Case] = []

    def vector(*kernels: str) -> None:
        cases.extend(Case(kernel, {"N": n}) for kernel in kernels for n in (1, 7, 16, 37))

    def matrix(*kernels: str, second: str = "M") -> None:
        shapes = ((1, 1), (1, 19), (5, 1), (3, 17), (7, 32), (2, 67))
        cases.extend(Case(kernel, {"N": n, second: m}) for kernel in kernels for n, m in shapes)

    def named(kernel: str, names: str, *shapes: tuple[int, ...], **fixed: int) -> None:
        cases.extend(Case(kernel, dict(zip(names.split(), shape, strict=True)), fixed) for shape in shapes)

    vector("relu", "gelu", "silu", "add", "mul", "dot", "saxpy")
    matrix("softmax", "log_softmax", "layernorm", "rmsnorm", "residual_rmsnorm", "bias_relu", "gemv")
    matrix("reduce_mean_0", "reduce_mean_1", "reduce_max", "argmax", "cumsum", "transpose")
    matrix("cross_entropy", second="C")
    for kernel in ("matmul", "matmul_nt", "matmul_tn", "matmul_int8", "swiglu"):
        named(kernel, "N M K", (1, 1, 1), (1, 17, 3), (5, 1, 7), (4, 9, 1), (6, 19, 11))
    named("bmm", "B N M K", (1, 1, 1, 1), (3, 2, 17, 5), (2, 5, 3, 7))
    for kernel in ("batchnorm_inference", "batchnorm_training"):
        named(kernel, "N C H W", (1, 1, 1, 1), (2, 3, 5, 7), (3, 1, 2, 19))
    named("groupnorm", "N G C L", (1, 1, 1, 1), (2, 3, 2, 7), (1, 2, 3, 19))
    for stride, pad, dilation in ((1, 0, 1), (2, 1, 1), (1, 2, 2), (3, 0, 2)):
        fixed = {"stride": stride, "pad": pad, "dilation": dilation}
        named("conv2d", "N C O H W KH KW", (1, 1, 1, 1, 1, 1, 1), (1, 2, 3, 7, 9, 3, 2), **fixed)
        named("grouped_conv2d", "N G C O H W KH KW", (1, 1, 1, 1, 1, 1, 1, 1), (1, 2, 1, 2, 5, 9, 2, 3), **fixed)
        named("depthwise_conv2d", "N C H W KH KW", (1, 1, 1, 1, 1, 1), (2, 3, 7, 9, 3, 3), **fixed)
    for stride, pad in ((2, 0), (1, 1), (3, 1)):
        for kernel in ("maxpool2d", "avgpool2d"):
            named(
                kernel, "N C H W KH KW", (1, 1, 2, 2, 2, 2), (2, 3, 7, 9, 3, 2), (1, 1, 5, 17, 2, 3),
                stride=stride, pad=pad,
            )  # fmt: skip
    named("attention", "H T D", (1, 1, 1), (2, 5, 3), (1, 11, 8), (1, 7, 17))
    named("embedding", "N V D", (1, 1, 1), (5, 3, 7), (7, 11, 17))
    named("csr", "N M Z K", (1, 1, 1, 1), (5, 3, 15, 7), (7, 9, 70, 4))
    named("ell", "N M K", (1, 1, 1), (5, 3, 7), (7, 17, 4))
    named("bsr", "N M Z K R C", (1, 1, 1, 1, 1, 1), (3, 2, 7, 5, 4, 4), (5, 3, 20, 4, 2, 17))
    named("jacobi2d", "T N", (1, 1), (2, 2), (1, 3), (2, 7), (1, 19))
    named("heat3d", "T N", (1, 1), (2, 2), (1, 3), (2, 5))
    return cases


CASES = _cases()
