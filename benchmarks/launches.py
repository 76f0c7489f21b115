"""What a call of an imported module costs on a GPU beside its work, and whether it is part of PyTorch's streams.

    python benchmarks/launches.py             # without a GPU: the launcher does nothing, memory is the CPU's
    python benchmarks/launches.py --cuda      # on a GPU: microseconds of the CPU, beside eager PyTorch
    python benchmarks/launches.py --cuda --check   # graphs, streams, threads, indices out of range

Without a GPU it is the time of Python alone: a launch of the driver adds 2 to 3 microseconds.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dojoir

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cuda", action="store_true", help="on a GPU")
    options.add_argument("--check", action="store_true", help="whether calls are as PyTorch's are")
    given = options.parse_args()
    warnings.simplefilter("ignore")
    if given.check:
        return check()
    if not given.cuda:
        from no_gpu import without_a_gpu

        without_a_gpu()
    print(f"{'module':24}{'launches':>9}{'call, us':>10}{'eager, us':>10}")
    for name, (module, inputs) in modules("cuda" if given.cuda else "cpu").items():
        print(_row(name, module, inputs, given.cuda), flush=True)
    return 0


def modules(device: str) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Small modules, which cost little but their calls."""
    import torch
    from torch import nn

    class Looked(nn.Module):
        def forward(self, table: Any, at: Any) -> Any:
            return table[at]

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
    made: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "relu": (nn.ReLU(), (torch.randn(64, 64),)),
        "layer norm": (nn.LayerNorm(64), (torch.randn(64, 64),)),
        "lookup": (Looked(), (torch.randn(64, 64), torch.randint(0, 64, (16,)))),
        "perceptron": (nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), (torch.randn(64, 64),)),
        "transformer layer": (layer, (torch.randn(2, 16, 64),)),
    }
    return {
        name: (module.to(device), tuple(x.to(device) for x in inputs)) for name, (module, inputs) in made.items()
    }


def _row(name: str, module: Any, inputs: tuple[Any, ...], on_gpu: bool) -> str:
    import torch

    with torch.no_grad():
        imported = dojoir.torch.from_module(module, inputs)
        imported(*inputs)
        calls = {"imported": imported} | ({"eager": module} if on_gpu else {})
        best = dict.fromkeys(calls, float("inf"))
        for _ in range(40):
            for which, call in calls.items():
                start = time.perf_counter()
                for _ in range(50):
                    call(*inputs)
                best[which] = min(best[which], (time.perf_counter() - start) * 1e6 / 50)
                if on_gpu:
                    torch.cuda.synchronize()
    kernels = imported.kernels_for("cuda")
    launches = sum(len(kernel.body) for kernel in kernels)
    eager = f"{best['eager']:10.1f}" if on_gpu else ""
    return f"{name:24}{launches:9}{best['imported']:10.1f}{eager}"


def check() -> int:
    """Status 1 where a call is not as PyTorch's are."""
    import torch

    wrong = 0
    rows: list[tuple[str, Callable[[], bool]]] = [
        ("a graph of CUDA records calls", recorded),
        ("another stream", in_a_stream),
        ("another thread", in_a_thread),
        ("an index out of range is told by a later call", out_of_range),
        ("an address that wide accesses do not take", misaligned),
        ("temporaries are not held", not_held),
    ]
    for what, test in rows:
        with torch.no_grad():
            is_right = test()
        torch.cuda.synchronize()
        wrong += not is_right
        print(f"{'right' if is_right else 'WRONG':6} {what}", flush=True)
    return 1 if wrong else 0


def _made(name: str) -> tuple[Any, Any, tuple[Any, ...]]:
    module, inputs = modules("cuda")[name]
    return dojoir.torch.from_module(module, inputs), module, inputs


def _near(a: Any, b: Any) -> bool:
    import torch

    return torch.allclose(a, b, rtol=1e-4, atol=1e-4)


def recorded() -> bool:
    import torch

    imported, module, (x,) = _made("perceptron")
    imported(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = imported(x)
    found = []
    for _ in range(3):
        x.copy_(torch.randn_like(x))
        graph.replay()
        found.append(_near(y, module(x)))
    return all(found)


def in_a_stream() -> bool:
    import torch

    imported, module, (x,) = _made("perceptron")
    stream = torch.cuda.Stream()
    y = None
    for _ in range(20):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            z = x
            for _ in range(8):
                z = imported(z)
        torch.cuda.current_stream().wait_stream(stream)
        y = z
    want = x
    for _ in range(8):
        want = module(want)
    return _near(y, want)


def in_a_thread() -> bool:
    import torch

    imported, module, (x,) = _made("perceptron")
    found: list[bool] = []

    def work() -> None:
        with torch.no_grad():
            found.append(all(_near(imported(x), module(x)) for _ in range(50)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found == [True] * 4


def out_of_range() -> bool:
    import torch

    imported, module, (table, at) = _made("lookup")
    right = torch.equal(imported(table, at), module(table, at))
    imported(table, torch.full_like(at, 1000))
    torch.cuda.synchronize()
    try:
        imported(table, at)
    except dojoir.RunError as error:
        told = "index" in str(error)
    else:
        told = False
    return right and told and torch.equal(imported(table, at), module(table, at))


def misaligned() -> bool:
    import torch

    imported, module, (x,) = _made("relu")
    shifted = torch.randn(x.numel() + 1, device="cuda")[1:].view(x.shape)
    return torch.equal(imported(shifted), module(shifted))


def not_held() -> bool:
    import torch

    imported, _, (x,) = _made("transformer layer")
    imported(x)
    before = torch.cuda.memory_allocated()
    imported(x)
    return torch.cuda.memory_allocated() == before


if __name__ == "__main__":
    sys.exit(main())
