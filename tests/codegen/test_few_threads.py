"""Values that few threads of a block put together and all of them read: drawn numbers of threads for each nest of a
softmax, on the harness."""

from __future__ import annotations

import random
from typing import Literal

import numpy as np
import pytest
from on_harness import run

import dojoir

TEXT = """kernel rows(N = 3, M = COLUMNS)
fp FP
in  x: f32[N, M]
out y: f32[N, M]
tmp m: f32[NSTORED] STORAGE
tmp l: f32[NSTORED] STORAGE

3 : gx @i
| m[{i}] = -inf
| FIRST : MARKFIRST @j
| | M // FIRST @j2
| | | m[{i}] max= x[{i}, {j} * (M // FIRST) + {j2}]
| l[{i}] = 0
| SECOND : MARKSECOND @k
| | M // SECOND @k2
| | | l[{i}] += exp(x[{i}, {k} * (M // SECOND) + {k2}] - m[{i}])
| THIRD : MARKTHIRD @n
| | M // THIRD @n2
| | | y[{i}, {n} * (M // THIRD) + {n2}] = exp(x[{i}, {n} * (M // THIRD) + {n2}] - m[{i}]) / l[{i}]
"""


def text_of(draw: random.Random, mark: str) -> str:
    columns = 1 << (5 if mark == "lane" else 7)
    text = TEXT.replace("COLUMNS", str(columns))
    for word in ("FIRST", "SECOND", "THIRD"):
        own = draw.choice(("bx", "lane")) if mark == "either" else mark
        text = text.replace(f"MARK{word}", own).replace(word, str(1 << draw.randint(1, 5 if own == "lane" else 7)))
    storage = draw.choice(("reg", "reg", "shared", "heap"))
    text = text.replace("STORAGE", "" if storage == "heap" else storage)
    text = text.replace("NSTORED", "N" if storage == "heap" else "N~").replace(
        "FP", draw.choice(("reassoc", "fast"))
    )
    return text.replace("M //", f"{columns} //")


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("mark", ["bx", "lane", "either"])
@pytest.mark.parametrize("seed", range(12))
def test_all_threads_have_what_few_put_together(seed: int, mark: str, target: str) -> None:
    kernel = dojoir.parse(text_of(random.Random(seed), mark))
    x = (
        np.random.default_rng(seed)
        .standard_normal((3, int(str(kernel.buffer("x").dims[1].extent))))
        .astype(np.float32)
    )
    order: Literal["forward", "backward"] = "forward" if seed % 2 else "backward"
    found = run(kernel, {"x": x}, {}, target, order)["y"].reshape(x.shape)
    wanted = np.exp(x - x.max(1, keepdims=True))
    assert np.allclose(found, wanted / wanted.sum(1, keepdims=True), rtol=1e-4, atol=1e-7)


ALONE = """kernel rows(N = 3, M = 256)
in  x: f32[N, M]
out y: f32[N, M]
out z: f32[N]
tmp m: f32[N~] reg
tmp l: f32[N~] reg

3 : gx @i
| 1 : bx @w
| | m[{i}] = -inf
| | 32 : lane @j
| | | 8 @j2
| | | | m[{i}] max= x[{i}, 8*{j} + {j2}]
| | l[{i}] = 0
| | 32 : lane @k
| | | 8 @k2
| | | | l[{i}] += exp(x[{i}, 8*{k} + {k2}] - m[{i}])
| | z[{i}] = l[{i}]
| 256 : bx @n
| | y[{i}, {n}] = 2 * x[{i}, {n}]
"""

ONE_ROW = """kernel rows(N = 3, M = 256)
in  x: f32[N, M]
out y: f32[N, M]
tmp m: f32[N~, 1] reg

3 : gx @i
| m[{i}, 0] = -inf
| 1 : by @r
| | 16 : bx @j
| | | 16 @j2
| | | | m[{i}, {r}] max= x[{i}, 16*{j} + {j2}]
| 256 : bx @n
| | y[{i}, {n}] = x[{i}, {n}] - m[{i}, 0]
"""


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("text", [ALONE, ONE_ROW])
def test_scopes_of_one_iteration_around_those_threads(text: str, target: str) -> None:
    """A warp by itself waits for no other; an index of such a scope is the same for all threads."""
    kernel = dojoir.parse(text)
    x = np.random.default_rng(0).standard_normal((3, 256)).astype(np.float32)
    found = run(kernel, {"x": x}, {}, target)
    for name, wanted in dojoir.interpret(kernel, {"x": x}).items():
        assert np.allclose(found[name].reshape(wanted.shape), wanted, rtol=1e-4)
