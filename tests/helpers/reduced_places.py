"""Reductions that give places, on drawn rows of special values and ties, against PyTorch itself:
`python tests/helpers/reduced_places.py --seeds 3` prints how many of each reduction and type are wrong."""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import torch

import dojoir

TYPES = {
    "f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64,
    "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
}  # fmt: skip

REDUCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "argmax": lambda x: (x.argmax(-1),),
    "argmin": lambda x: (x.argmin(-1),),
    "argmax of all": lambda x: (x.argmax(),),
    "argmin of all": lambda x: (x.argmin(),),
    "max": lambda x: x.max(-1),
    "min": lambda x: x.min(-1),
    "max of columns": lambda x: x.max(0),
    "min of columns": lambda x: x.min(0),
    "cummax": lambda x: x.cummax(-1),
    "cummin": lambda x: x.cummin(-1),
    "cummax of columns": lambda x: x.cummax(0),
    "largest 3": lambda x: x.topk(3),
    "smallest 3": lambda x: x.topk(3, largest=False),
    "largest of all": lambda x: x.topk(x.shape[-1]),
    "smallest of all": lambda x: x.topk(x.shape[-1], largest=False),
    "smallest of columns": lambda x: x.topk(2, dim=0, largest=False),
    "sort": lambda x: torch.sort(x, stable=True),
    "sort down": lambda x: torch.sort(x, descending=True, stable=True),
    "argsort": lambda x: (torch.argsort(x, stable=True),),
    "max_pool2d": lambda x: torch.nn.functional.max_pool2d(x[None, None], 2, 1, 1, return_indices=True),
    "max_pool1d": lambda x: torch.nn.functional.max_pool1d(x[None], 3, 2, return_indices=True),
    "max_pool3d": lambda x: torch.nn.functional.max_pool3d(x[None, None], (1, 2, 2), 1, return_indices=True),
    "adaptive_max_pool2d": lambda x: torch.nn.functional.adaptive_max_pool2d(x[None], (2, 3), return_indices=True),
}
"""Values and places, or places alone, of a tensor of rows."""


class Reduced(torch.nn.Module):
    """A reduction as a module."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(REDUCTIONS[self.name](x))


def drawn(random: Random, kind: str) -> torch.Tensor:
    """Rows of a few special values, so of many ties."""
    dtype = TYPES[kind]
    if kind == "bool":
        values: list[Any] = [False, True]
    elif dtype.is_floating_point:
        values = [
            math.nan,
            math.inf,
            -math.inf,
            0.0,
            -0.0,
            1.0,
            -1.0,
            torch.finfo(dtype).max,
            torch.finfo(dtype).min,
        ]
    else:
        values = [torch.iinfo(dtype).min, torch.iinfo(dtype).max, 0, 1]
    rows = []
    for _ in range(5):
        few = random.sample(values, random.randint(1, min(3, len(values))))
        rows.append([random.choice(few) for _ in range(7)])
    return torch.tensor(rows, dtype=dtype)


def wrong(name: str, kind: str, seeds: range) -> str | None:
    """How the importer's results differ from PyTorch's, on the rows of some seeds; None where they do not, and
    where PyTorch or the importer does not take the type. Which of equal elements `topk` takes is PyTorch's own
    affair: places are held to the values, and to be of different elements. Of zeros, the sign is that of any."""
    module = Reduced(name)
    given = [drawn(Random(f"{name} {kind} {n}"), kind) for n in seeds]
    try:
        rights = [module(x) for x in given]
    except (RuntimeError, TypeError):
        return None
    try:
        imported = dojoir.torch.from_module(module, (given[0],), optimize=False)
    except dojoir.ArgumentError as error:
        return None if "no-operator" in str(error) else str(error)
    for x, right in zip(given, rights, strict=True):
        try:
            found = imported(x)
        except dojoir.DojoError as error:
            return f"{x.tolist()}: {error}"
        pairs = list(zip(found, right, strict=True))
        same = all(torch.equal(_plain(a), _plain(b)) for a, b in pairs)
        if name.startswith(("largest", "smallest")):
            dim = 0 if name.endswith("columns") else -1
            taken = found[1].sort(dim).values
            apart = bool((taken.diff(dim=dim) > 0).all()) and int(taken.min()) >= 0
            same = apart and torch.equal(_plain(x.gather(dim, found[1])), _plain(right[0]))
            same = same and torch.equal(_plain(found[0]), _plain(right[0]))
        if not same:
            return f"{x.tolist()} gives {[one.tolist() for one in found]}, for {[one.tolist() for one in right]}"
    return None


def _plain(x: torch.Tensor) -> torch.Tensor:
    """With numbers in the place of NaN."""
    return x if not x.dtype.is_floating_point else torch.stack([x.isnan(), x.nan_to_num(7, math.inf, -math.inf)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="how many tensors of each")
    count = parser.parse_args().seeds
    failed = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in REDUCTIONS:
            for kind in TYPES:
                found = wrong(name, kind, range(count))
                failed += found is not None
                if found is not None:
                    print(f"{name}, {kind}: {found}", flush=True)
    print(f"{len(REDUCTIONS) * len(TYPES)} reductions and types, {count} tensors of each: {failed} wrong")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
