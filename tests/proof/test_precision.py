"""Refused moves do harm, but for those that are explained in tests/helpers/PRECISION.md."""

from __future__ import annotations

from random import Random

import pytest
from precision import Table, exposed, kind_of, observe, telling_arguments
from walks import Run

import dojoir


@pytest.mark.parametrize("block", range(3))
def test_few_refusals_are_without_harm(block: int) -> None:
    table = Table(show=0)
    for number in range(8):
        table.kernel(Random(f"precision {block} {number}"), each=4)
    refused = table.refused.total()
    unexplained = table.harmless.total() - sum(
        n for (_, kind), n in table.kinds.items() if kind in {"coincidence", "dead"}
    )
    assert refused > 20
    assert unexplained <= refused / 10, str(table)


@pytest.mark.parametrize(
    ("body", "move", "kind"),
    [
        pytest.param("N\n| q = 3\nN\n| q = 3\n", "swap_siblings(0)", "coincidence", id="one value, written twice"),
        pytest.param("N\n| y[{0}] max= x[{0}]\nN - 1\n| y[{0}] max= x[{0}]\n", "set_extent(1, N)", "coincidence",
                     id="a maximum with the same element"),
        pytest.param("N\n| t[{0}] = 0\nN\n| t[{0}] = x[{0}]\nN\n| u[{0}] = t[{0}]\n", "swap_siblings(1)", "dead",
                     id="a read whose value goes nowhere"),
    ],
)  # fmt: skip
def test_kinds_of_refusals_without_harm(body: str, move: str, kind: str) -> None:
    kernel = dojoir.parse(
        "kernel f(N)\nin x: i32[N]\ninout y: i32[N]\ninout q: i32\ntmp t: i32[N]\ntmp u: i32[N]\n" + body
    )
    assert dojoir.check(kernel, move).status == "illegal"
    sizes = {"N": 4}
    inputs = telling_arguments(kernel, sizes, Random(0))
    run = Run(sizes, inputs, dojoir.interpret(kernel, inputs, **sizes))
    before = exposed(kernel)
    after = dojoir.apply(before, move, unsafe=True)
    old, new = observe(before, run), observe(after, run)
    assert (old.returned != new.returned) == (kind == "coincidence")
    assert old.computed != new.computed or kind == "coincidence"
    assert kind_of(kernel, dojoir.parse_move(move), [run]) == kind
