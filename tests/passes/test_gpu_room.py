"""What a rule makes for a GPU has room there: it can be emitted, for all types, with sizes open and fixed."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_rules import by_rules_alone

import dojoir
from dojoir.ir.dtypes import DTYPES

PRODUCT = """kernel product({sizes})
in  a: {dtype}[{batch}M, K]
in  b: {dtype}[{batch}K, N]
out c: {dtype}[{batch}M, N]

{body}"""
ROWS = "M\n| N\n| | c[{0}, {1}] = 0\n| | K\n| | | c[{0}, {1}] += a[{0}, {2}] * b[{2}, {1}]\n"
BATCHES = (
    "B\n| M\n| | N\n| | | c[{0}, {1}, {2}] = 0\n| | | K\n"
    "| | | | c[{0}, {1}, {2}] += a[{0}, {1}, {3}] * b[{0}, {3}, {2}]\n"
)
HEADS = """kernel heads(T, H, D, E)
in  x: f32[T, E]
in  w: f32[E, H, D]
out y: f32[H, T, D]

H
| T
| | D
| | | y[{0}, {1}, {2}] = 0
| | | E
| | | | y[{0}, {1}, {2}] += x[{1}, {3}] * w[{3}, {0}, {2}]
"""


def product(dtype: str, batched: bool) -> dojoir.Kernel:
    sizes, batch = ("B, M, N, K", "B, ") if batched else ("M, N, K", "")
    body = BATCHES if batched else ROWS
    kernel = dojoir.parse(PRODUCT.format(sizes=sizes, dtype=dtype, batch=batch, body=body))
    return kernel if dtype != "bool" else dojoir.parse(dojoir.to_text(kernel).replace("+=", "max="))


def tiles(trace: dojoir.Trace) -> list[str]:
    return [b.name for b in trace.kernel.buffers if b.storage == "shared"]


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("fixed", [0, 64, 1024])
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("dtype", [name for name, one in DTYPES.items() if name != "bool" and not one.is_nibble])
def test_a_product_of_any_type_has_room(dtype: str, batched: bool, fixed: int, target: str) -> None:
    kernel = product(dtype, batched)
    if fixed:
        kernel = kernel.specialize(**dict.fromkeys(kernel.runtime_sizes, fixed))
    rules = dojoir.PASSES["default_schedule"].given(target)
    trace = rules.on(kernel)
    dojoir.emit(trace.kernel, target)
    if fixed == 64:  # one tile would be all of it, in one block: the planner has other schedules
        trace = by_rules_alone(kernel, target)
    assert tiles(trace), "in tiles"


@pytest.mark.parametrize("name", ["f64", "u64"])
def test_products_of_8_bytes_in_tiles_are_right(name: str) -> None:
    kernel = dojoir.optimize(product(name, False), "cuda").kernel
    assert tiles(dojoir.Trace(kernel))
    for sizes in ({"M": 128, "N": 128, "K": 16}, {"M": 33, "N": 20, "K": 9}):
        inputs = dojoir.testing.random_inputs(kernel, {}, seed=1, **sizes)
        found = dojoir.compile(kernel, "cuda", emulated=True).run(inputs, **sizes)["c"]
        wide = {key: value.astype(object if name == "u64" else np.float64) for key, value in inputs.items()}
        expected = wide["a"] @ wide["b"]
        if name == "u64":
            expected = (expected % (1 << 64)).astype(np.uint64)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_product_of_heads_reads_ahead_by_all_threads() -> None:
    """Between the dimensions of a tile there is one of which a block has one element."""
    trace = dojoir.PASSES["default_schedule"].given("cuda").on(dojoir.parse(HEADS))
    assert "w_ahead: f32[(E + 7) // 8~, 8, 1, 16, 4] reg" in dojoir.to_text(trace.kernel)
    sizes = {"T": 64, "H": 2, "D": 64, "E": 16}
    inputs = dojoir.testing.random_inputs(trace.kernel, {}, seed=1, **sizes)
    found = dojoir.compile(trace.kernel, "cuda", emulated=True).run(inputs, **sizes)["y"]
    np.testing.assert_allclose(found, np.einsum("te,ehd->htd", inputs["x"], inputs["w"]), rtol=1e-4, atol=1e-5)


def test_the_room_of_a_machine_is_asked() -> None:
    """A rule for a machine with fewer registers takes smaller tiles; without shared memory there are none."""
    from dataclasses import replace

    rules = dojoir.PASSES["default_schedule"]
    few = replace(dojoir.machine_for("cuda"), thread_registers=72)
    text = dojoir.to_text(rules.for_machine(few).on(product("f32", False)).kernel)
    assert "c_tile: f32[1, 16, 4, 2, 8, 4] reg" in text and "c_tile: f32[4, 8" not in text
    none = replace(dojoir.machine_for("cuda"), shared_bytes=0)
    assert not tiles(rules.for_machine(none).on(product("f32", False)))


# -- temporaries ---------------------------------------------------------------------------------------------
HEAD = """kernel f(N, M)
in  x: f32[{x}]
out y: f32[{y}]
tmp p: f32[N, 8]

N
| 8
| | p[{{0}}, {{1}}] = exp(x[{at}])
"""
PRIVATE = {
    "sum of all": ("N, 8", "N, 8", "{0}, {1}",
                   "| 8\n| | y[{0}, {1}] = 0\n| | 8\n| | | y[{0}, {1}] += p[{0}, {2}]\n", "shared"),
    "turned": ("N, 8", "N, 8", "{0}, {1}", "| 8\n| | y[{0}, {1}] = p[{0}, 7 - {1}]\n", "shared"),
    "other rows": ("N, 8", "N, M", "{0}, {1}", "| M\n| | y[{0}, {1}] = p[{0}, {1} % 8]\n", "shared"),
    "columns": ("8, N", "8, N", "{1}, {0}", "| 8\n| | y[{1}, {0}] = p[{0}, 7 - {1}]\n", "reg"),
    "open columns": ("8, N", "M, N", "{1}, {0}", "| M\n| | y[{1}, {0}] = p[{0}, {1} % 8]\n", "stack"),
    "alike": ("N, 8", "N, 8", "{0}, {1}", "| 8\n| | y[{0}, {1}] = p[{0}, {1}]\n", "reg"),
}  # fmt: skip
"""What is read and written, where, the rest of the rows, and where a temporary of a row has to be."""


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("name", PRIVATE)
def test_a_temporary_of_few_elements_is_where_its_threads_find_it(name: str, target: str) -> None:
    reads, writes, at, rest, place = PRIVATE[name]
    kernel = dojoir.parse(HEAD.format(x=reads, y=writes, at=at) + rest)
    scheduled = by_rules_alone(kernel, target).kernel
    sizes = {"N": 5, "M": 11}
    inputs = dojoir.testing.random_inputs(kernel, {}, seed=1, **sizes)
    found = dojoir.compile(scheduled, target, emulated=True).run(inputs, **sizes)["y"]
    np.testing.assert_allclose(found, dojoir.interpret(kernel, inputs, **sizes)["y"], rtol=1e-4, atol=1e-5)
    assert [b.storage for b in scheduled.buffers if b.name == "p"] in ([place], [])
