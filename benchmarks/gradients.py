"""Operators with `backward="auto"`: forward and backward pass on the CPU, beside eager PyTorch.

    python benchmarks/gradients.py                       # one thread
    python benchmarks/gradients.py --threads 2 swiglu    # some rows

The operator is made of the kernel as `dojoir.optimize` schedules it. Rows are timed in turn, in rounds, and the
median of each is given; `forward` is the pass alone, without gradients. A ratio above 1 says that dojoir is faster.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import dojoir

Row = tuple[Callable[..., Any], Callable[..., Any]]
"""The arguments of a row by PyTorch's random numbers, and the function in PyTorch."""


def rows() -> dict[str, Row]:
    """The rows: kernels of the library at sizes of practice."""
    import torch
    import torch.nn.functional as F

    def causal(q: Any, k: Any, v: Any, scale: float) -> Any:
        return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, scale=scale)[0]

    randn = torch.randn
    return {
        "swiglu": (
            lambda: (randn(256, 512), randn(512, 1408) / 22, randn(512, 1408) / 22),
            lambda x, w, v: F.silu(x @ w) * (x @ v),
        ),
        "softmax": (lambda: (randn(1024, 1024),), lambda x: F.softmax(x, -1)),
        "layernorm": (
            lambda: (randn(1024, 1024), randn(1024), randn(1024), 1e-5),
            lambda x, g, b, eps: F.layer_norm(x, (1024,), g, b, eps),
        ),
        "rmsnorm": (
            lambda: (randn(1024, 1024), randn(1024), 1e-5),
            lambda x, g, eps: F.rms_norm(x, (1024,), g, eps),
        ),
        "attention": (lambda: (randn(8, 256, 64), randn(8, 256, 64), randn(8, 256, 64), 0.125), causal),
        "cross_entropy": (
            lambda: (randn(512, 8192), torch.randint(0, 8192, (512,))),
            lambda x, t: (F.cross_entropy(x, t, reduction="none"), F.cross_entropy(x, t)),
        ),
        "log_softmax": (lambda: (randn(1024, 1024),), lambda x: F.log_softmax(x, -1)),
        "gelu": (lambda: (randn(1 << 20),), F.gelu),
    }


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", metavar="NAME", help="the rows (all)")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--seconds", type=float, default=1.0, help="of the rounds of a row (1)")
    given = options.parse_args()
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(given.threads)
    print(f"{dojoir.processor()}, {given.threads} thread(s); milliseconds")
    print(f"{'':16}{'both':>9}{'eager':>9}{'ratio':>7}{'forward':>9}{'eager':>9}{'ratio':>7}   apart")
    known = rows()
    for name in given.names or known:
        print(row(name, known[name], given.threads, given.seconds), flush=True)
    return 0


def row(name: str, of: Row, threads: int, seconds: float) -> str:
    """A line: the times of both passes and of the first alone, and how far the gradients are from PyTorch's."""
    import torch

    torch.manual_seed(0)
    make, eager = of
    arguments = make()
    own = dojoir.torch.op(
        dojoir.optimize(dojoir.kernels.load(name), threads=threads), f"timed::{name}", "auto", threads=threads
    )
    leaves = [isinstance(a, torch.Tensor) and a.is_floating_point() for a in arguments]

    def both(call: Callable[..., Any]) -> Callable[[], list[Any]]:
        taken = [a.clone().requires_grad_() if leaf else a for a, leaf in zip(arguments, leaves, strict=True)]
        wanted = [t for t, leaf in zip(taken, leaves, strict=True) if leaf]
        seed = torch.ones(()) if isinstance(first := _last(call(*arguments)), float) else torch.randn_like(first)

        def run() -> list[Any]:
            return list(torch.autograd.grad(_last(call(*taken)), wanted, seed))

        return run

    torch.manual_seed(1)
    ours = both(own)
    torch.manual_seed(1)
    its = both(eager)
    apart = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(ours(), its(), strict=True))
    with torch.no_grad():
        calls = {"ours": ours, "its": its, "own": lambda: own(*arguments), "eager": lambda: eager(*arguments)}
        took = _rounds(calls, seconds)
    cells = [
        f"{name:16}",
        *(
            f"{took[a] * 1e3:9.3f}{took[b] * 1e3:9.3f}{took[b] / took[a]:7.2f}"
            for a, b in (("ours", "its"), ("own", "eager"))
        ),
    ]
    return "".join(cells) + f"   {apart:.0e}"


def _last(found: Any) -> Any:
    return found[-1] if isinstance(found, tuple | list) else found


def _rounds(calls: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    import torch

    found: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end or len(found["ours"]) < 5:
        for name, call in calls.items():
            with torch.set_grad_enabled(name in ("ours", "its")):
                start = time.perf_counter()
                call()
                found[name].append(time.perf_counter() - start)
    return {name: statistics.median(samples) for name, samples in found.items()}


if __name__ == "__main__":
    sys.exit(main())
