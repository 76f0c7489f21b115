"""Scopes marked for threads that have fewer iterations than their extents have bounds, and use what they sum up."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import dojoir
from dojoir.codegen.lower.gpu.thread_plan import Threads

BODIES = {
    "running sum": ["n = 0", "5", "| c[{2}] = n", "| n += b[{2}]"],
    "the sum afterwards": ["n = 1", "5", "| n += b[{2}]", "5", "| c[{2}] = n"],
    "two operators": ["n = 3", "5", "| n += b[{2}]", "| n max= 7", "5", "| c[{2}] = 2"],
    "of itself": ["n = 1", "5", "| n += n + b[{2}]", "5", "| c[{2}] = n"],
    "an element among others": ["c[0] = 0", "4", "| c[{2} + 1] = c[0]", "| c[0] += b[{2}]", "n = c[0]"],
}
SCOPES = {
    "bound by another scope": ("1 : gx", "min(256, -256*{{0}} + 1) : {mark}"),
    "of less than a warp": ("1 : gx", "min(8, -8*{{0}} + 1) : {mark}"),
}


def written(body: list[str], scopes: tuple[str, str], mark: str) -> str:
    lines = [scopes[0], f"| {scopes[1].format(mark=mark)}", *(f"| | {line}" for line in body)]
    head = "kernel t(N = 1)\nin  b: i64[5]\nout n: i64\nout c: i64[5]\n\n"
    return head + "\n".join(lines) + "\n"


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize(("body", "scopes", "mark"), [*product(BODIES, SCOPES, ["bx", "lane"])])
def test_one_thread_does_all_in_the_order_of_the_text(body: str, scopes: str, mark: str, target: str) -> None:
    """The running sum of a scan in two steps was read from memory, while a variable had it."""
    text = written(BODIES[body], SCOPES[scopes], mark)
    kernel = dojoir.parse(text.replace("256", "32") if mark == "lane" else text)
    given = {"b": np.array([5, 1, 4, 2, 3])}
    found = dojoir.compile(kernel, target, emulated=True).run(given)
    expected = dojoir.interpret(kernel, given)
    for name in ("n", "c"):
        np.testing.assert_array_equal(found[name], expected[name])


def test_what_is_elsewhere_in_the_array_leaves_the_sum_to_all_threads() -> None:
    kernel = dojoir.parse("""kernel t(N = 1)
in    b: i64[256]
inout c: i64[300]
1 : gx
| 256 : bx
| | c[{1} + 1] = b[{1}]
| | c[0] += b[{1}]
""")
    assert Threads(kernel, 32).collectives
    given = {"b": np.arange(256), "c": np.zeros(300, np.int64)}
    found = dojoir.compile(kernel, "cuda", emulated=True).run(given)
    np.testing.assert_array_equal(found["c"], dojoir.interpret(kernel, given)["c"])


def test_sums_at_elements_that_may_be_one_are_of_all_threads() -> None:
    """They commute, whichever of them a thread makes first."""
    kernel = dojoir.parse("""kernel t(N = 1)
in    b: i64[64]
inout c: i64[2]
1 : gx
| 64 : bx
| | c[0] += b[{1}]
| | c[{0}] += 2 * b[{1}]
""")
    given = {"b": np.arange(64), "c": np.ones(2, np.int64)}
    found = dojoir.compile(kernel, "cuda", emulated=True).run(given)
    np.testing.assert_array_equal(found["c"], dojoir.interpret(kernel, given)["c"])


def test_a_sum_at_an_index_that_a_loop_inside_reads_is_refused() -> None:
    """Where the threads put it together, that index is not known."""
    kernel = dojoir.parse("""kernel t(N)
in    ids: i64[N]
in    x: f32[N]
inout y: f32[N]

1 : gx
| min(32, -32*{0} + 1) : bx
| | N
| | | y[ids[{2}]] max= x[{2}]
""")
    with pytest.raises(dojoir.KernelError, match="which element it is depends on a loop inside") as caught:
        dojoir.emit(kernel, "cuda")
    assert caught.value.diagnostic.code == "collective-loop"


def test_a_loop_of_the_host_does_not_ask_data_where_it_ends() -> None:
    kernel = dojoir.parse("""kernel t(N)
in    lengths: i64[N]
in    x: i64[N, 16]
inout y: i64[N]

N
| 16
| | 1 : gx
| | | min(32, -32*{2} + 1) : bx
| | | | y[{0}] += x[{0}, {1}] if {1} < lengths[{0}]
""")
    given = {
        "lengths": np.array([3, 0, 20]),
        "x": np.arange(48).reshape(3, 16),
        "y": np.zeros(3, np.int64),
    }
    found = dojoir.compile(kernel, "cuda", emulated=True).run(given, N=3)
    np.testing.assert_array_equal(found["y"], dojoir.interpret(kernel, given, N=3)["y"])
