"""What a call costs: bound, checked, of new shapes, by the operator of PyTorch, beside NumPy and PyTorch.

    python benchmarks/calls.py [--json] [--rounds N]

Kernels of 1 to 6 arrays of 16 numbers, so that there is nothing to compute; all of a row in turn, the best of some
rounds, in microseconds. Beside them stand one addition of PyTorch and of NumPy into an array, and an operator of
PyTorch that does nothing but allocate its result, with a gradient registered as ours has.
"""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

import numpy as np

import dojoir

SIZE = 16
CALLS = 40
"""How many calls are timed at once: few, so that some are not interrupted where other processes run."""


def kernel(count: int) -> dojoir.Kernel:
    """A kernel of `count` arrays: the sum of all but the last into the last, or, of one, a sum into itself."""
    if count == 1:
        return dojoir.parse("kernel one(N)\ninout y: f32[N]\n\nN\n| y[{0}] += 1\n")
    names = [f"x{i}" for i in range(count - 1)]
    lines = [f"in {name}: f32[N]" for name in names]
    total = " + ".join(f"{name}[{{0}}]" for name in names)
    return dojoir.parse(
        f"kernel sum{count}(N)\n" + "\n".join(lines) + f"\nout y: f32[N]\n\nN\n| y[{{0}}] = {total}\n"
    )


def arrays(count: int, size: int = SIZE) -> list[np.ndarray]:
    return [np.ones(size, np.float32) for _ in range(count)]


def fresh(compiled: dojoir.Compiled, count: int) -> Callable[[], object]:
    """A call whose shapes are new each time."""
    sets = iter([arrays(count, 20 + i) for i in range(800)] * 1000)
    return lambda: compiled(*next(sets))


def subjects(count: int) -> dict[str, Callable[[], object]]:
    """What is timed for kernels of so many arrays, by name."""
    compiled, other = dojoir.compile(kernel(count)), dojoir.compile(kernel(count))
    given = arrays(count)
    for _ in range(8):
        compiled(*given)
        other(*given)
    a, b = given[0], given[-1]
    found: dict[str, Callable[[], object]] = {
        "bound": compiled.bind(*given),
        "checked": lambda: compiled(*given),
        "new shapes": fresh(other, count),
    }
    with suppress(ImportError):
        torch: Any = importlib.import_module("torch")
        tensors = [torch.from_numpy(array) for array in arrays(count)]
        for _ in range(8):
            compiled(*tensors)
        inputs = tensors[:-1] or tensors
        name = f"dojoir_calls::sum{count}"
        operator = dojoir.torch.op(kernel(count), name)
        empty = nothing(torch, count, len(inputs))
        x, y = tensors[0], tensors[-1]
        found["tensors"] = lambda: compiled(*tensors)
        found["operator"] = lambda: operator(*inputs)
        found["empty operator"] = lambda: empty(*inputs)
        found["torch"] = lambda: torch.add(x, 1.0, out=y)
    found["numpy"] = lambda: np.add(a, 1, out=b)
    return found


def nothing(torch: Any, count: int, inputs: int) -> Callable[..., object]:
    """An operator that allocates its result."""
    library = torch.library.Library("dojoir_calls", "FRAGMENT")
    takes = ", ".join(f"Tensor x{i}" for i in range(inputs))
    library.define(f"empty{count}({takes}) -> Tensor")
    library.impl(f"empty{count}", lambda *given: torch.empty_like(given[0]), "CPU")
    name = f"dojoir_calls::empty{count}"
    torch.library.register_fake(name, lambda *given: torch.empty_like(given[0]), lib=library)
    torch.library.register_autograd(name, lambda ctx, grad: (grad,) * inputs, lib=library)
    operator = getattr(torch.ops.dojoir_calls, f"empty{count}").default
    return lambda *given, keep=library: operator(*given)


def measured(count: int, rounds: int) -> dict[str, float]:
    """Microseconds of each, the best of `rounds` times `CALLS` calls, in turn."""
    found = subjects(count)
    best = dict.fromkeys(found, float("inf"))
    for _ in range(rounds):
        for name, call in found.items():
            start = perf_counter()
            for _ in range(CALLS):
                call()
            best[name] = min(best[name], (perf_counter() - start) * 1e6 / CALLS)
    return best


def main() -> None:
    options = argparse.ArgumentParser(description="what a call costs")
    options.add_argument("--json", action="store_true", help="print the result as JSON")
    options.add_argument("--rounds", type=int, default=200)
    given = options.parse_args()
    rows = {count: measured(count, given.rounds) for count in range(1, 7)}
    if given.json:
        print(json.dumps(rows))
        return
    print("arrays" + "".join(f"{name:>16}" for name in rows[1]))
    for count, row in rows.items():
        print(f"{count:6}" + "".join(f"{taken:16.2f}" for taken in row.values()))


if __name__ == "__main__":
    main()
