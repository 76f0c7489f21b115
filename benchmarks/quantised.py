"""The quantised kernels at the shapes of inference, beside PyTorch and a plain copy of as many bytes.

    python benchmarks/quantised.py                  # this CPU
    python benchmarks/quantised.py --cuda           # a GPU
    python benchmarks/quantised.py --compiled       # torch.compile as well

A row is a kernel of the library, as its text and as `optimize` makes it, in milliseconds: the median of rounds in
which all take turns. `copy` is how long copying takes that reads and writes as many bytes as the kernel must,
`empty` a call that does next to nothing. Ratios above 1 say that dojoir is faster. Below the table are the
geometric means.

PyTorch's results are compared with ours before anything is timed: all codes but those at ties must be equal."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import torch

import dojoir

Call = Callable[[], Any]

EMPTY = "kernel empty(N)\nin x: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = x[{0}]\n"

BOUNDS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
"""Where one code of f4e2m1 goes over into the next."""


@dataclass(frozen=True)
class Row:
    """A kernel with its options at sizes. `shape` is what people call it by."""

    kernel: str
    shape: str
    sizes: Mapping[str, int]
    options: Mapping[str, str]
    eager: Callable[..., Any]

    def load(self) -> dojoir.Kernel:
        return dojoir.kernels.load(self.kernel, **self.options)


# -- PyTorch -----------------------------------------------------------------------------------------------
@cache
def bounds_on(device: torch.device) -> torch.Tensor:
    """BOUNDS on a device: a graph that is captured may not copy them there."""
    return torch.tensor(BOUNDS, device=device)


def quantised(y: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes, two a byte, and scales of blocks of 16: the definition `hw`."""
    blocks = y.float().unflatten(-1, (-1, 16))
    scale = (g * (blocks.abs().amax(-1) / 6)).clamp(max=448).to(torch.float8_e4m3fn)
    wide = scale.float()
    scaled = blocks * torch.where(wide == 0, 0, g / wide)[..., None]
    bounds = bounds_on(y.device)
    up, down = (torch.bucketize(scaled.abs(), bounds, right=right) for right in (True, False))
    codes = torch.where(up % 2 == 0, up, down).to(torch.uint8) | scaled.signbit().to(torch.uint8) << 3
    codes = codes.flatten(-2)
    return codes[..., 0::2] | codes[..., 1::2] << 4, scale.view(torch.uint8)


def of_array(x: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return quantised(x, g)


def of_norm(
    x: torch.Tensor, z: torch.Tensor, w: torch.Tensor, eps: torch.Tensor, g: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    t = x.float() + z.float()
    h = t.bfloat16()
    y = h.float() * torch.rsqrt((t * t).mean(-1, keepdim=True) + eps) * w.float()
    return h, *quantised(y, g)


def of_gate(x: torch.Tensor, rows: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, ...]:
    gate, up = x.float().chunk(2, -1)
    return quantised(torch.nn.functional.silu(gate) * up, g[:, None, None])


def rows() -> list[Row]:
    norm = [
        Row("add_rmsnorm_fp4quant", f"128x{k}", {"M": 128, "B": k // 16}, {}, of_norm) for k in (2048, 4096, 8192)
    ]
    gate = [
        Row("silu_mul_fp4quant", f"8x256x{k}", {"N": 8, "M": 256, "B": k // 16}, {"inputs": "packed"}, of_gate)
        for k in (7168, 14336)
    ]
    return [*norm, Row("nvfp4_quantize", "128x14336", {"M": 128, "B": 14336 // 16}, {}, of_array), *gate]


# -- a row -------------------------------------------------------------------------------------------------
KINDS = {"bf16": torch.bfloat16, "f32": torch.float32, "i32": torch.int32}


def arguments(kernel: dojoir.Kernel, sizes: Mapping[str, int], device: str) -> dict[str, Any]:
    """Normal numbers; all rows of a batch are there; outputs of zeros, a byte for two codes."""
    made: dict[str, Any] = {}
    torch.manual_seed(0)
    for buffer in kernel.arguments:
        shape = [dim.extent.evaluate(sizes) for dim in buffer.dims]
        if buffer.packed:
            shape[-1] //= 2
        if buffer.role != "in" or buffer.dtype.name not in KINDS:
            kind = KINDS.get(buffer.dtype.name, torch.uint8)
            made[buffer.name] = torch.zeros(shape, dtype=kind, device=device)
        elif buffer.name == "rows":
            made[buffer.name] = torch.full(shape, sizes["M"], dtype=torch.int32, device=device)
        elif buffer.name in ("g", "eps"):
            made[buffer.name] = torch.full(shape, {"g": 448.0, "eps": 1e-5}[buffer.name], device=device)
        else:
            made[buffer.name] = torch.randn(shape, device=device).to(KINDS[buffer.dtype.name])
    return made


def called(kernel: dojoir.Kernel, given: Mapping[str, Any], target: str, threads: int) -> Call:
    """A call of the kernel on tensors that it shares."""
    compiled = dojoir.compile(kernel, target, threads=threads)
    values = [float(given[b.name]) if not b.dims else shared(given[b.name], target) for b in kernel.arguments]
    return lambda: compiled(*values)


def shared(tensor: Any, target: str) -> Any:
    """As an array of NumPy, the bits of bf16 as integers; on a GPU the tensor itself."""
    if target == "cuda":
        return tensor
    return tensor.view(torch.int16).numpy().view("uint16") if tensor.dtype == torch.bfloat16 else tensor.numpy()


def copied(given: Mapping[str, Any]) -> Call:
    """A copy that moves as many bytes as all arguments have."""
    count = sum(tensor.numel() * tensor.element_size() for tensor in given.values()) // 2
    one = next(iter(given.values()))
    source, target = (torch.zeros(count, dtype=torch.uint8, device=one.device) for _ in range(2))
    return lambda: target.copy_(source)


def check(kernel: dojoir.Kernel, given: Mapping[str, Any], found: Any) -> None:
    """Raises RunError where more than one code of 10,000 is another one than PyTorch's."""
    for buffer, other in zip([b for b in kernel.arguments if b.role != "in"], found, strict=True):
        own = given[buffer.name].view(torch.uint8)
        different = int((own != other.view(torch.uint8)).sum())
        if different > max(1, 1e-4 * own.numel()):
            text = f"{different} of {own.numel()} bytes of {buffer.name} of {kernel.name} are not those of PyTorch"
            raise dojoir.RunError(text, "verification-failed")


# -- time --------------------------------------------------------------------------------------------------
def seconds_on_cpu(calls: Mapping[str, Call], budget: float) -> dict[str, float]:
    """Medians of rounds in which all take turns."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    end = time.perf_counter() + budget * len(calls)
    while time.perf_counter() < end or len(next(iter(samples.values()))) < 5:
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            samples[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in samples.items()}


def seconds_on_gpu(calls: Mapping[str, Call], budget: float, repeats: int = 20) -> dict[str, float]:
    """The same of CUDA graphs with some calls each: what a launch costs the host is not in it."""
    graphs: dict[str, Any] = {}
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for name, call in calls.items():
            for _ in range(3):
                call()
            torch.cuda.synchronize()
            graphs[name] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[name], stream=stream):
                for _ in range(repeats):
                    call()

    def once(graph: Any) -> float:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        graph.replay()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) * 1e-3 / repeats

    samples: dict[str, list[float]] = {name: [] for name in graphs}
    end = time.perf_counter() + budget * len(calls)
    while time.perf_counter() < end or len(next(iter(samples.values()))) < 5:
        for name, graph in graphs.items():
            samples[name].append(once(graph))
    return {name: statistics.median(found) for name, found in samples.items()}


def timed(row: Row, options: argparse.Namespace) -> dict[str, float]:
    """The seconds of each contestant of a row. Raises DojoError."""
    target, device = ("cuda", "cuda") if options.cuda else ("llvm", "cpu")
    kernel = row.load()
    given = arguments(kernel, row.sizes, device)
    best = dojoir.optimize(kernel, target=target, sizes=row.sizes, threads=options.threads).kernel
    inputs = [given[b.name] for b in kernel.arguments if b.role == "in"]
    calls: dict[str, Call] = {"dojoir": called(best, given, target, options.threads)}
    if not options.cuda:  # a text without marks is one thread of a GPU
        calls["text"] = called(kernel, given, target, options.threads)
    calls["eager"] = lambda: row.eager(*inputs)
    if options.compiled:
        fast = torch.compile(row.eager)
        calls["compiled"] = lambda: fast(*inputs)
    small = {name: torch.zeros(1, device=device) for name in ("x", "y")}
    nothing = dojoir.optimize(dojoir.parse(EMPTY), target=target).kernel
    calls |= {"copy": copied(given), "empty": called(nothing, small, target, 1)}
    with torch.no_grad():
        calls["dojoir"]()
        check(kernel, given, row.eager(*inputs))
        return (seconds_on_gpu if options.cuda else seconds_on_cpu)(calls, options.seconds)


def mean(ratios: list[float]) -> float:
    return float(prod(ratios)) ** (1 / len(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuda", action="store_true", help="on a GPU")
    parser.add_argument("--compiled", action="store_true", help="beside torch.compile as well")
    parser.add_argument("--threads", type=int, default=1, help="of a CPU")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each contestant of a row")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    peers = ["text"] * (not options.cuda) + ["eager"] + ["compiled"] * options.compiled
    where = torch.cuda.get_device_name() if options.cuda else f"llvm, {options.threads} threads"
    print(f"{where}, milliseconds\n")
    heads = ["kernel", "shape", "dojoir", *peers, "copy", "empty", *(f"x {p}" for p in peers), "of copy"]
    print("| " + " | ".join(heads) + " |\n|---|---|" + "---:|" * (len(heads) - 2))
    ratios: dict[str, list[float]] = {peer: [] for peer in peers}
    shares: list[float] = []
    for row in rows():
        found = timed(row, options)
        for peer in peers:
            ratios[peer].append(found[peer] / found["dojoir"])
        shares.append(found["copy"] / found["dojoir"])
        cells = [f"{found[name] * 1e3:.4g}" for name in ("dojoir", *peers, "copy", "empty")]
        cells += [f"{ratios[peer][-1]:.2f}" for peer in peers] + [f"{shares[-1]:.2f}"]
        print("| " + " | ".join([row.kernel, row.shape, *cells]) + " |", flush=True)
    means = ", ".join(f"{mean(found):.2f} x {peer}" for peer, found in ratios.items())
    print(f"\ngeometric means: {means}, {mean(shares):.2f} of copy")


if __name__ == "__main__":
    main()
