"""The C of a few kernels, as a person reads it. After a change that is meant, write them anew and read them:
`DOJOIR_UPDATE_GOLDENS=1 pytest tests/codegen/test_c_goldens.py`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from c_machine import Machine
from folders import TESTS

import dojoir
from dojoir import Kernel, ToolchainError, kernels
from dojoir.runtime.build.c_toolchain import find

GOLDENS = TESTS / "goldens" / "c"

TEXTS = {
    "softmax_rows": """\
kernel softmax(N, M)
in  x: f32[N, M]
out y: f32[N, M]
tmp m: f32[N~]
tmp e: f32[N~, M]
tmp s: f32[N~]

N : p
| m[{0}] = -inf
| M : v
| | m[{0}] max= x[{0}, {1}]
| s[{0}] = 0
| M : v
| | e[{0}, {1}] = exp(x[{0}, {1}] - m[{0}])
| | s[{0}] += e[{0}, {1}]
| M : v
| | y[{0}, {1}] = e[{0}, {1}] / s[{0}]
""",
    "matmul_tiles": """\
kernel matmul(N, M, K)
where N % 4 == 0, M % 16 == 0
in  a: f32[N, K]
in  b: f32[K, M]
out c: f32[N, M]
tmp t: f32[N~, M~, 4, 16] reg

N // 4 : p @io
| M // 16 @jo
| | 4 : u @i
| | | 16 : v @j
| | | | t[4*{io} + {i}, 16*{jo} + {j}, {i}, {j}] = 0
| | K @k
| | | 4 : u @i
| | | | 16 : v @j
| | | | | t[4*{io} + {i}, 16*{jo} + {j}, {i}, {j}] += a[4*{io} + {i}, {k}] * b[{k}, 16*{jo} + {j}]
| | 4 : u @i
| | | 16 : v @j
| | | | c[4*{io} + {i}, 16*{jo} + {j}] = t[4*{io} + {i}, 16*{jo} + {j}, {i}, {j}]
""",
}
LIBRARY = ("conv2d", "embedding", "matmul_int8", "relu", "softmax")


@pytest.mark.parametrize("name", [*LIBRARY, *TEXTS])
def test_golden(name: str) -> None:
    path = GOLDENS / f"{name}.c"
    text = dojoir.emit(kernel(name), "c")
    if os.environ.get("DOJOIR_UPDATE_GOLDENS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*LIBRARY, *TEXTS])
def test_goldens_compile_without_a_warning(name: str, tmp_path: Path) -> None:
    try:
        machine = Machine(find(), tmp_path)
    except ToolchainError as error:
        pytest.skip(error.diagnostic.message)
    machine.check_warnings((GOLDENS / f"{name}.c").read_text(encoding="utf-8"))


def kernel(name: str) -> Kernel:
    return dojoir.parse(TEXTS[name]) if name in TEXTS else kernels.load(name)
