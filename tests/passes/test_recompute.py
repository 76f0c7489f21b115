"""Values computed again where they are used, and that taken back."""

from __future__ import annotations

import pytest

import dojoir
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel
from dojoir.proof.certificate import InstanceMap, Origin
from dojoir.proof.patterns.recomputed import computes_again

BLUR = """kernel blur(N)
in  x: f32[N + 4]
out y: f32[N]
tmp t: f32[N + 2]

N + 2
| t[{0}] = x[{0}] + x[{0} + 1] + x[{0} + 2]
(N + 15) // 16 @b
| min(16, N - 16*{0}) @i
| | y[16*{0} + {1}] = t[16*{0} + {1}] + t[16*{0} + {1} + 1] + t[16*{0} + {1} + 2]
"""

PRODUCT = """kernel activated(N, M, K)
where N % 8 == 0
in  a: f32[N, K]
in  b: f32[K, M]
out y: f32[N, M]
tmp c: f32[N, M]

N
| M
| | c[{0}, {1}] = 0
N
| M
| | K
| | | c[{0}, {1}] += a[{0}, {2}] * b[{2}, {1}]
N // 8 @rows
| M
| | 8
| | | y[8*{0} + {2}, {1}] = exp(c[8*{0} + {2}, {1}])
"""


def recomputed(k: Kernel, text: str) -> list[str]:
    """The body after a move, which is made, meets the reference, and is taken back."""
    move = dojoir.parse_move(text)
    after = dojoir.apply(k, move)
    back = move.inverse(k)
    assert dojoir.parse_move(str(back)) == back
    assert dojoir.apply(after, back) == k
    assert dojoir.apply(k, back.inverse(after)) == after
    assert dojoir.verify(after, k, seeds=(0,), distributions=("normal",)).ok
    return dojoir.to_text(after).partition("\n\n")[2].splitlines()


def test_the_part_that_a_block_reads_with_its_border() -> None:
    body = recomputed(dojoir.parse(BLUR), "recompute(@i, t, u)")
    assert body[2:] == [
        "(N + 15) // 16 @b",
        "| min(18, N - 16*{0} + 2)",
        "| | u[{1}] = x[16*{0} + {1}] + x[16*{0} + {1} + 1] + x[16*{0} + {1} + 2]",
        "| min(16, N - 16*{0}) @i",
        "| | y[16*{0} + {1}] = u[{1}] + u[{1} + 1] + u[{1} + 2]",
    ]


def test_a_sum_is_computed_again_with_its_loop() -> None:
    body = recomputed(dojoir.parse(PRODUCT), "recompute(2.0, c, d)")
    assert body[7:] == [
        "N // 8 @rows",
        "| 8",
        "| | M",
        "| | | d[{1}, {2}] = 0",
        "| | | K",
        "| | | | d[{1}, {2}] += a[8*{0} + {1}, {3}] * b[{3}, {2}]",
        "| M",
        "| | 8",
        "| | | y[8*{0} + {2}, {1}] = exp(d[{2}, {1}])",
    ]


def test_only_nodes_away_from_where_the_value_is_made_are_listed() -> None:
    listed = [str(m) for m in dojoir.candidates(dojoir.parse(PRODUCT)) if m.name == "recompute"]
    assert listed == ["recompute(2.0, c, c_again)", "recompute(2.0.0, c, c_again)"]


@pytest.mark.parametrize(
    ("body", "move", "code"),
    [
        pytest.param(
            "N\n| t[{0}] = x[{0}]\nN\n| x[{0}] = 0\nN\n| y[{0}] = t[{0}]\n",
            "recompute(2.0, t, u)",
            "wrong-value",
            id="what it was computed from is overwritten",
        ),
        pytest.param(
            "N\n| t[{0}] = 1\n| t[{0}] = x[{0}]\nN\n| y[{0}] = t[{0}]\n", "recompute(1, t, u)", "legal",
            id="several assignments, in their order",
        ),
        pytest.param(
            "N\n| t[{0}] = x[{0}]\nN\n| y[{0}] = t[{0}]\nN\n| t[{0}] = 2\n", "recompute(1, t, u)", "wrong-value",
            id="a later assignment is no part of the value",
        ),
        pytest.param(
            "N\n| t[{0}] = x[{0}]\nN\n| t[{0}] += 1\n| y[{0}] = t[{0}]\n",
            "recompute(1, t, u)",
            "written-there",
            id="the node writes it too",
        ),
        pytest.param(
            "t[0] = x[0]\nN - 1\n| t[{0} + 1] = x[{0}]\nN\n| y[{0}] = t[{0}]\n",
            "recompute(2, t, u)",
            "no-instance",
            id="an element that no iterator chooses",
        ),
        pytest.param(
            "N\n| t[{0}] = x[{0}]\nN\n| y[{0}] = x[{0}]\n", "recompute(1, t, u)", "not-read", id="not read there"
        ),
        pytest.param(
            "N\n| t[{0}] = x[{0}]\nN\n| y[{0}] = t[{0}]\n", "recompute(1, t, x)", "name-taken", id="a name taken"
        ),
        pytest.param(
            "N\n| t[{0}] = x[{0}]\nN\n| y[{0}] = t[N - 1 - {0}]\n",
            "recompute(1, t, u)",
            "not-linear",
            id="a part that is read in reverse",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(body: str, move: str, code: str) -> None:
    k = dojoir.parse(f"kernel f(N)\nwhere N >= 2\ninout x: f32[N]\nout y: f32[N]\ntmp t: f32[N]\n{body}")
    assert dojoir.check(k, move).code == code, str(dojoir.check(k, move))


def test_what_was_not_recomputed_is_not_taken_back() -> None:
    k = dojoir.parse(BLUR)
    assert dojoir.check(k, "unrecompute(0, t, t[{0}])").code == "not-recomputed"
    after = dojoir.apply(k, "recompute(@i, t, u)")
    assert dojoir.check(after, "unrecompute(@i, u, t[16*{0} + {1} + 1])").code == "another-form"
    assert dojoir.check(after, "unrecompute(@i, u, y[{0}])").code == "not-a-temporary"


SUMS = """kernel sums(N, M)
where N >= 2, M >= 2
in  x: f32[N, M]
out y: f32[N]
tmp t: f32[N]

N
| t[{0}] = 0
| M
| | t[{0}] += x[{0}, {1}]
N
| y[{0}] = t[{0}]
"""

AGAIN = """N
| u[{0}] = 0
| M
| | u[{0}] += x[{0}, {1}]
"""

ROW, COLUMN, N = Affine.iterator(0), Affine.iterator(1), Affine.size("N")
ZEROED, ADDED = Origin(0, (ROW,)), Origin(1, (ROW, COLUMN))


def seen_again(new: str, *origins: Origin, before: str = SUMS, copy: str = "f32[N]") -> bool:
    """Whether it is seen from the text that the last node of a kernel may read `u`, as `new` computes it."""
    k = dojoir.parse(before)
    head, _, body = before.partition("\n\n")
    *others, _, last = body.splitlines()
    text = f"{head}\ntmp u: {copy}\n\n" + "\n".join(others) + f"\n{new}N\n{last.replace('= t', '= u')}\n"
    stay = [Origin(n, tuple(map(Affine.iterator, range(len(s.scopes))))) for n, s in enumerate(k.sites)]
    return computes_again(k, dojoir.parse(text), InstanceMap((*stay[:-1], *origins, stay[-1])))


def test_a_sum_that_is_computed_again_is_seen_from_the_text() -> None:
    assert seen_again(AGAIN, ZEROED, ADDED)
    for k, move in ((dojoir.parse(SUMS), "recompute(1, t, u)"), (dojoir.parse(PRODUCT), "recompute(2.0, c, d)")):
        made = dojoir.parse_move(move).rewrite(k)
        assert computes_again(k, made.kernel, made.instances)


@pytest.mark.parametrize(
    ("new", "origins"),
    [
        pytest.param("N\n| M\n| | u[{0}] += x[{0}, {1}]\n| u[{0}] = 0\n", (ADDED, ZEROED), id="another order"),
        pytest.param("N\n| u[{0}] = 0\n", (ZEROED,), id="a writer is missing"),
        pytest.param(AGAIN.replace("| M", "| M - 1"), (ZEROED, ADDED), id="a term is missing"),
        pytest.param(AGAIN.replace("+=", "max="), (ZEROED, ADDED), id="another operator"),
        pytest.param(AGAIN.replace("x[{0}, {1}]", "x[{0}, 0]"), (ZEROED, ADDED), id="another value"),
        pytest.param(
            AGAIN.replace("x[{0}, {1}]", "x[{0}, M - {1} - 1]"),
            (ZEROED, Origin(1, (ROW, Affine.size("M") - COLUMN - 1))),
            id="the terms in another order",
        ),
        pytest.param(
            AGAIN.replace("x[{0}, {1}]", "x[N - {0} - 1, {1}]"),
            (ZEROED, Origin(1, (N - ROW - 1, COLUMN))),
            id="the terms of another element",
        ),
        pytest.param(
            AGAIN.replace("x[{0}, {1}]", "x[N - {0} - 1, {1}]"),
            (Origin(0, (N - ROW - 1,)), Origin(1, (N - ROW - 1, COLUMN))),
            id="another element",
        ),
        pytest.param(
            "N\n| 2\n| | u[{0}] = 0\n| M\n| | u[{0}] += x[{0}, {1}]\n", (ZEROED, ADDED), id="an instance twice"
        ),
        pytest.param(
            "N\n| u[{0}] = 0\n| M\n| | 2\n| | | u[{0}] += x[{0}, {1}]\n", (ZEROED, ADDED), id="a term twice"
        ),
        pytest.param(
            "N\n| M\n| | u[{0}] = 0\n| | u[{0}] += x[{0}, {1}]\n", (ZEROED, ADDED), id="begun in each iteration"
        ),
        pytest.param(
            "N\n| u[{0}] = 0\n| M\n| | if {1} >= 1\n| | | u[{0}] += x[{0}, {1}]\n", (ZEROED, ADDED), id="a guard"
        ),
        pytest.param("N - 1\n| u[{0}] = 0\n| M\n| | u[{0}] += x[{0}, {1}]\n", (ZEROED, ADDED), id="not all"),
    ],
)
def test_what_is_not_computed_again(new: str, origins: tuple[Origin, ...]) -> None:
    assert not seen_again(new, *origins)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(SUMS.replace("N\n| y", "N\n| t[{0}] = 7\nN\n| y"), id="a writer that the new ones leave out"),
        pytest.param(
            SUMS.replace("in  x", "inout x").replace("N\n| y", "N\n| x[{0}, 0] = 7\nN\n| y"),
            id="what was added is overwritten",
        ),
        pytest.param(SUMS.replace("+= x[{0}, {1}]", "+= t[{0}] * x[{0}, {1}]"), id="it reads what it gives"),
        pytest.param(SUMS.replace("| M\n", "N - 1\n| M\n"), id="nothing is added to the last element"),
    ],
)
def test_what_may_not_be_computed_again(before: str) -> None:
    new = AGAIN.replace("+= x", "+= t[{0}] * x") if "* x" in before else AGAIN
    assert not seen_again(new, ZEROED, ADDED, before=before)


def test_a_write_in_the_same_loop_begins_again_in_each_iteration() -> None:
    before = SUMS.replace("| t[{0}] = 0\n| M\n", "| M\n| | t[{0}] = 0\n")
    both = Origin(0, (ROW, COLUMN)), ADDED
    assert seen_again("N\n| M\n| | u[{0}] = 0\n| | u[{0}] += x[{0}, {1}]\n", *both, before=before)
    apart = "N\n| M\n| | u[{0}] = 0\n| M\n| | u[{0}] += x[{0}, {1}]\n"
    assert not seen_again(apart, *both, before=before)


@pytest.mark.parametrize("copy", ["f16[N]", "f32[N - 1]", "f32[N~]"])
def test_a_copy_that_cannot_hold_it(copy: str) -> None:
    assert not seen_again(AGAIN, ZEROED, ADDED, copy=copy)


def test_a_condition_that_is_around_both_is_not_asked_again() -> None:
    """Nor does the copy have a guard; of one that is around the writer alone it has."""
    text = """kernel f(N, D)
in  x: f32[N, D]
out y: f32[N, D]
tmp t: f32[N, D]

if D == 64
| N @a
| | D
| | | t[{0}, {1}] = exp(x[{0}, {1}])
| N @i
| | D
| | | y[{0}, {1}] = t[{0}, {1}]
if D >= 65
| N
| | D
| | | y[{0}, {1}] = x[{0}, {1}]
if D <= 63
| N
| | D
| | | y[{0}, {1}] = x[{0}, {1}]
"""
    assert "\n".join(recomputed(dojoir.parse(text), "recompute(@i, t, u)")).count("if D == 64") == 1
    apart = text.replace("| N @i\n", "if D == 64\n| N @i\n")
    assert "\n".join(recomputed(dojoir.parse(apart), "recompute(@i, t, u)")).count("if D == 64") == 3
