"""Values computed again where they are used, and that taken back."""

from __future__ import annotations

import pytest

import dojoir
from dojoir.ir import Kernel

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
    return str(after).partition("\n\n")[2].splitlines()


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
