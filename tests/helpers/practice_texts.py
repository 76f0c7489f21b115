"""Arguments of the texts of benchmarks/practice, benchmarks/unseen and benchmarks/fresh, of which some are made as
their comments say: lengths that lie within other arrays, places that all differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from random import Random
from runpy import run_path
from typing import Any

import numpy as np
import numpy.typing as npt
from agreement import random_arguments
from folders import ROOT

import dojoir

BENCHMARKS = ROOT / "benchmarks"


@cache
def practice() -> Mapping[str, Any]:
    """What benchmarks/suites.py defines, by name."""
    return run_path(str(BENCHMARKS / "suites.py"))


class Texts(Mapping[str, Any]):
    """The texts of folders of benchmarks by their names. Each is read when it is first asked for."""

    def __init__(self, *folders: str) -> None:
        paths = (path for folder in folders for path in sorted((BENCHMARKS / folder).glob("*.dojo")))
        self._paths = {path.stem: path for path in paths}
        self._texts: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._texts:
            self._texts[name] = practice()["read"](self._paths[name])
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


TEXTS = Texts("practice", "unseen", "fresh")


def arguments_of(
    kernel: dojoir.Kernel, sizes: Mapping[str, int], random: Random
) -> dict[str, npt.NDArray[np.generic]]:
    """Random arguments of a kernel, made as the comments of a text say if it is one of that name."""
    text = TEXTS.get(kernel.name)
    if text is not None and text.made:
        fixed = {size.name: size.value for size in kernel.sizes if size.value is not None}
        made: dict[str, npt.NDArray[np.generic]] = text.inputs({**fixed, **sizes})
        return made
    return random_arguments(kernel, sizes, random)
