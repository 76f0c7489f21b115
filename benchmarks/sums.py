"""Errors of sums over the sum of magnitudes, beside NumPy and PyTorch: `python benchmarks/sums.py`.

Sums and dot products of f32 numbers as a newcomer writes them, compiled as they stand (`text`) and by the default
schedule (`dojoir.optimize`): equal
numbers, which is the worst for a chain of additions, uniform ones in [0, 1), normal ones. The exact value is that
in f64 by NumPy's pairwise sum (equal numbers: a product). Each row is kept in a file as soon as it is known
(`--kept`), so that a run that was ended goes on; the page is printed at the end (`RESULTS_sums.md`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dojoir

TEXTS = {
    "sum": "kernel total(N)\nin  x: f32[N]\nout s: f32\n\ns = 0\nN\n| s += x[{0}]\n",
    "dot": "kernel inner(N)\nin  x: f32[N]\nin  y: f32[N]\nout s: f32\n\ns = 0\nN\n| s += x[{0}] * y[{0}]\n",
}
SIZES = (10**6, 10**8, 10**9)
KINDS = ("equal", "uniform", "normal")
BLOCK = 10**7
Array = np.ndarray[Any, np.dtype[np.float32]]


def numbers(kind: str, n: int) -> Array:
    """So many f32 numbers, the same at each run; of the random ones, 10^7 repeat."""
    if kind == "equal":
        return np.full(n, 0.7, np.float32)
    random = np.random.default_rng(n)
    drawn = random.random(min(n, BLOCK), np.float32) if kind == "uniform" else random.standard_normal(
        min(n, BLOCK), np.float32
    )  # fmt: skip
    return np.resize(drawn, n)


def in_f64(x: Array, what: Callable[[Array], Any]) -> float:
    """The sum in f64 of what is made of blocks of the numbers."""
    return float(sum(float(what(x[at : at + BLOCK].astype(np.float64)).sum()) for at in range(0, len(x), BLOCK)))


def row(text: str, kind: str, n: int) -> dict[str, float]:
    """The errors over the sum of magnitudes, by who summed."""
    x = numbers(kind, n)
    square = text == "dot"
    exact = in_f64(x, np.square) if square else float(x[0]) * n if kind == "equal" else in_f64(x, np.positive)
    size = in_f64(x, np.square if square else np.abs)
    plain = dojoir.parse(TEXTS[text])
    kernel = dojoir.optimize(plain).kernel
    given = {"x": x, "y": x} if square else {"x": x}
    tensor = torch.from_numpy(x)
    found = {
        "text": float(dojoir.compile(plain).run(given)["s"]),
        "dojoir": float(dojoir.compile(kernel).run(given)["s"]),
        "NumPy": float(np.dot(x, x) if square else x.sum()),
        "PyTorch": float(torch.dot(tensor, tensor) if square else tensor.sum()),
    }
    return {who: abs(value - exact) / size for who, value in found.items()}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kept", type=Path, default=Path("sums.json"), help="where rows are kept")
    arguments.add_argument("--most", type=int, default=SIZES[-1], help="the largest number of elements")
    given = arguments.parse_args()
    rows: dict[str, dict[str, float]] = json.loads(given.kept.read_text()) if given.kept.exists() else {}
    for n in (size for size in SIZES if size <= given.most):
        for text in TEXTS:
            for kind in KINDS:
                name = f"{text} | {kind} | 10^{len(str(n)) - 1}"
                if name not in rows:
                    rows[name] = row(text, kind, n)
                    given.kept.write_text(json.dumps(rows))
    print("| kernel | numbers | elements | text | dojoir | NumPy | PyTorch |\n|---|---|---|---|---|---|---|")
    for name, errors in rows.items():
        print(
            f"| {name} | "
            + " | ".join(f"{errors[who]:.1e}" for who in ("text", "dojoir", "NumPy", "PyTorch"))
            + " |"
        )


if __name__ == "__main__":
    main()
