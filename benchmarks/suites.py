"""The suites: texts with the sizes that they are timed at, what their inputs are, and the same mathematics
elsewhere.

A text of `practice/`, `unseen/`, `spellings/`, `fresh/` and `polybench/` has no schedule of its own. Comments
above it say its group, the sizes that it is timed at (`gpu`: those on a GPU), the same mathematics in PyTorch
(`eager`, an expression of the names of its inputs and sizes, with what is `inout` as it is afterwards) or NumPy
(`numpy`: an expression, or statements on the arrays), and what its inputs are: `indices` gives the bound of
integers, which are else any of their type, `scale` a factor of normal numbers, `positive` what is made so,
`scalars` values, and `made` an expression of NumPy, of the sizes and of `draw`, its generator. What is `written`
after the rules of some time was not known to them, and is reported apart. `library.toml` says the same of kernels
of the library, `examples/` of texts with moves.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import dojoir

HERE = Path(__file__).resolve().parent
TOLERANCE = 2e-3
"""How far results may be apart, as a share of the largest: float sums in other orders."""


@dataclass(frozen=True)
class Text:
    """A kernel to be timed, and what stands beside it."""

    name: str
    kernel: dojoir.Kernel
    group: str
    sizes: dict[str, int]
    gpu: dict[str, int] = field(default_factory=dict)
    """The sizes that it is timed at on a GPU."""
    eager: str = ""
    bounds: dict[str, str] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)
    positive: frozenset[str] = frozenset()
    made: dict[str, str] = field(default_factory=dict)
    numpy: str = ""
    written: str = ""
    """When it was written, where that was after the rules of some time."""
    codes: frozenset[str] = frozenset()
    """Results that are codes of rounded numbers: PyTorch may round a tie, or its scale, to the next one."""
    eager_gpu: str = ""
    """PyTorch's expression on a GPU, where it has not what `eager` says."""
    moves: Path | None = None
    """Its schedule, where it has one of its own."""

    @staticmethod
    def torch_type(buffer: Any) -> str:
        """PyTorch's name for the type of a buffer's elements; the codes of what is narrow are those of uint8."""
        return "bfloat16" if str(buffer.dtype) == "bf16" else numpy_type(buffer)

    def inputs(self, sizes: Mapping[str, int] | None = None) -> dict[str, np.ndarray]:
        """Its inputs, the same ones for the same name; at the sizes of a CPU if none are given."""
        draw, sizes = np.random.default_rng(len(self.name)), sizes or self.sizes
        return {b.name: self.input(b, sizes, draw) for b in self.kernel.arguments if b.role != "out"}

    def input(self, buffer: Any, sizes: Mapping[str, int], draw: np.random.Generator) -> np.ndarray:
        """One of its inputs at sizes."""
        shape, dtype = shape_of(buffer, sizes), np.dtype(numpy_type(buffer))
        if buffer.name in self.made:
            space = {"np": np, "draw": draw, "shape": shape, **sizes}
            return np.asarray(eval(self.made[buffer.name], space)).astype(dtype)
        if buffer.name in self.bounds:
            high = sizes.get(self.bounds[buffer.name]) or int(self.bounds[buffer.name])
            return draw.integers(0, high, shape).astype(dtype)
        if dtype.kind == "b":
            return draw.integers(0, 2, shape).astype(dtype)
        if str(buffer.dtype) == "bf16":
            return (draw.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(dtype)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return draw.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        values = draw.standard_normal(shape) * self.scales.get(buffer.name, 1.0)
        values = np.abs(values) + 1e-3 if buffer.name in self.positive else values
        return np.asarray(values.astype(dtype))


def shape_of(buffer: Any, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of an array as a call knows it."""
    extents = [dim.extent.evaluate(sizes) for dim in buffer.dims]
    if buffer.packed:
        extents[-1] //= 2
    left = iter(extents)
    return tuple(math.prod(next(left) for _ in range(count)) for count in buffer.flat or [1] * len(buffer.dims))


def numpy_type(buffer: Any) -> str:
    """NumPy's name for the type of a buffer's elements; the bits of bf16 are those of uint16."""
    if str(buffer.dtype).startswith("f8") or str(buffer.dtype) in ("f4e2m1", "i4", "u4"):
        return "uint8"
    if str(buffer.dtype) == "bf16":
        return "uint16"
    kinds = {"f": "float", "i": "int", "u": "uint"}
    return re.sub(r"^[fiu]", lambda kind: kinds[kind[0]], str(buffer.dtype))


# -- folders of texts ------------------------------------------------------------------------------------------
def names(folder: str = "practice") -> list[str]:
    """The names of all texts of a folder, in order. Raises ValueError where it has none."""
    found = sorted(path.stem for path in (HERE / folder).glob("*.dojo"))
    if not found:
        raise ValueError(f"no texts are in {HERE / folder}")
    return found


def texts(folder: str = "practice") -> dict[str, Text]:
    """All texts of a folder, in the order of their names. Raises ValueError where it has none."""
    return {name: read(HERE / folder / f"{name}.dojo") for name in names(folder)}


def read(path: Path) -> Text:
    """A text with what its comments say."""
    written = path.read_text(encoding="utf-8")
    said = dict(re.findall(r"^# (\w+): (.+)$", written.partition("\nkernel ")[0], re.MULTILINE))
    return Text(
        path.stem,
        dojoir.parse(written, path.name),
        said.get("group", ""),
        _sizes(said["sizes"]),
        _sizes(said.get("gpu", "")),
        said.get("eager", ""),
        dict(re.findall(r"(\w+) < (\w+)", said.get("indices", ""))),
        {name: float(value) for name, value in re.findall(r"(\w+) ([\d.]+)", said.get("scale", ""))},
        frozenset(re.findall(r"\w+", said.get("positive", ""))),
        dict(re.findall(r"^# made: (\w+) = (.+)$", written, re.MULTILINE)),
        said.get("numpy", ""),
        said.get("written", ""),
        frozenset(re.findall(r"\w+", said.get("codes", ""))),
        said.get("eager_gpu", ""),
    )


def _sizes(written: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", written)}


# -- the other suites ------------------------------------------------------------------------------------------
def polybench() -> dict[str, Text]:
    """PolyBench/C 4.2 at the sizes of the LARGE data set, f64 throughout, written here from the definitions of
    L.-N. Pouchet and T. Yuki (2016)."""
    return {name: _of_polybench(read(HERE / "polybench" / f"{name}.dojo")) for name in names("polybench")}


def _of_polybench(text: Text) -> Text:
    path = HERE / "polybench" / f"{text.name}.dojo"
    said = dict(re.findall(r"^# (\w+): (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE))
    special, made = said.get("scale", ""), dict(re.findall(r"(\w+)=(\S+)", said.get("scalars", "")))
    for buffer in text.kernel.arguments:
        if str(buffer.dtype) == "i32":
            made[buffer.name] = "draw.integers(0, 4, shape)"
        elif not buffer.dims and buffer.role == "in":
            made.setdefault(buffer.name, "draw.uniform(0.1, 0.5)")
        elif special == f"{buffer.name} positive definite":
            made[buffer.name] = "draw.uniform(0.1, 1.0, shape) / shape[0] + np.eye(shape[0]) * 2"
        else:
            share = " / shape[0]" if special == f"{buffer.name} small" else ""
            made[buffer.name] = f"draw.uniform(0.1, 1.0, shape){share}"
    return replace(text, made=made)


def _rows(name: str, said: Mapping[str, Any]) -> dict[str, Text]:
    """The rows of a kernel of `library.toml`."""
    kernel = (
        dojoir.parse(said["text"]) if "text" in said else dojoir.kernels.load(name, **_sizes(said.get("fixed", "")))
    )
    kernel = kernel.with_fp(said["fp"]) if "fp" in said else kernel
    own, gpu = said.get("sizes", []), said.get("gpu", [])
    rows = {}
    for sizes in dict.fromkeys((*own, *gpu)):
        title = f"{name} {'×'.join(map(str, _sizes(sizes).values()))}"
        at, on_gpu = (_sizes(sizes if sizes in which else "") for which in (own, gpu))
        made, positive = dict(said.get("made", {})), frozenset(said.get("positive", ()))
        rows[title] = Text(title, kernel, "", at, on_gpu, said["eager"], positive=positive, made=made)
    return rows


def _library() -> dict[str, Any]:
    return tomllib.loads((HERE / "library.toml").read_text(encoding="utf-8"))


def library() -> dict[str, Text]:
    """Kernels of the library at the shapes that people run."""
    return {title: row for name, said in _library().items() for title, row in _rows(name, said).items()}


DRAWN = (
    "matmul", "matmul_nt", "matmul_tn", "gemv", "transpose", "softmax", "log_softmax", "layernorm", "rmsnorm",
    "relu", "gelu", "add", "bias_relu", "reduce_mean_0", "reduce_mean_1",
)  # fmt: skip
LARGEST, ELEMENTS, INSTANCES = 5000, 1 << 22, 1 << 28
"""The largest size, the most elements of an array, and the most statements of a row."""


def drawn(count: int = 300, seed: int = 22) -> dict[str, Text]:
    """Kernels of the library at sizes that nobody tuned: any number from 1 to 5,000 half of the time, else a
    power of two or a neighbour of one; shapes whose arrays or operations would be too many are drawn again."""
    random, found, said = Random(seed), dict[str, Text](), _library()
    while len(found) < count:
        for name in DRAWN:
            sizes = _drawn(random, dojoir.kernels.load(name))
            one = said[name] | {"sizes": [", ".join(f"{size}={value}" for size, value in sizes.items())]}
            found |= _rows(name, {key: value for key, value in one.items() if key not in ("fp", "gpu")})
    return dict([*found.items()][:count])


def _drawn(random: Random, kernel: dojoir.Kernel) -> dict[str, int]:
    while True:
        sizes = {name: _size(random) for name in kernel.runtime_sizes}
        shapes = [[dim.extent.evaluate(sizes) for dim in buffer.dims] for buffer in kernel.arguments]
        small = all(math.prod(shape) <= ELEMENTS for shape in shapes)
        if small and dojoir.cost(kernel).instances(sizes) <= INSTANCES:
            return sizes


def _size(random: Random) -> int:
    if random.random() < 0.5:
        return random.randint(1, LARGEST)
    return min(max((1 << random.randint(0, 12)) + random.randint(-1, 1), 1), LARGEST)


def examples() -> dict[str, Text]:
    """The examples that are texts and their moves, at the sizes of their comments `time`."""
    found = {}
    for moves in sorted((HERE.parent / "examples").glob("*.moves")):
        path = moves.with_suffix(".dojo")
        written = path.read_text(encoding="utf-8")
        (sizes,) = re.findall(r"^# time: (.+)$", written, re.MULTILINE)
        numpy = "\n".join(re.findall(r"^# numpy: (.+)$", written, re.MULTILINE))
        found[path.stem] = Text(path.stem, dojoir.load(path), "", _sizes(sizes), numpy=numpy, moves=moves)
    return found


@dataclass(frozen=True)
class Suite:
    """Rows by name, the peers that they stand beside where none are asked for, and how far results may be apart."""

    rows: Callable[[], dict[str, Text]]
    peers: tuple[str, ...] = ("eager",)
    tolerance: float = TOLERANCE


SUITES: Mapping[str, Suite] = {
    "practice": Suite(texts),
    "unseen": Suite(lambda: texts("unseen")),
    "spellings": Suite(lambda: texts("spellings")),
    "fresh": Suite(lambda: texts("fresh")),
    "narrow": Suite(lambda: texts("narrow"), ("eager", "compiled"), 2e-2),
    "library": Suite(library),
    "drawn": Suite(drawn),
    "polybench": Suite(polybench, ("gcc", "clang"), 1e-6),
    "examples": Suite(examples, ("text", "numpy")),
}
