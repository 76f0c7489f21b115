"""Scopes marked for threads that have fewer iterations than their extents have bounds, and use what they sum up."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import dojoir
from dojoir.codegen.lower.threads import Threads

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
