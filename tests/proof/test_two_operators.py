"""Accumulations into one buffer by two operators: those of one commute with each other, and with nothing else."""

from __future__ import annotations

from random import Random

import pytest
from able import can_run
from walks import Walk

import dojoir
from dojoir.proof.checker_mode import check_with
from dojoir.sets.kernel_sets import sets_of

SCALED = """kernel scaled(N, M)
in  x: f32[N, M]
in  b: f32
inout c: f32[N]
N @i
| c[{i}] *= b
N @j
| M @k
| | c[{j}] += x[{j}, {k}]
"""

APART = SCALED.replace("N @j\n| M @k\n| | c[{j}] += x[{j}, {k}]", "M @k\n| N @j\n| | c[{j}] += x[{j}, {k}]")

TWICE = (
    SCALED
    + """N @l
| c[{l}] += 1
"""
)
"""With a sum that stays where a node before it works on a copy. The last one is not taken away: the checker
compares accumulations that are all by one operator with none but such."""

LEGAL = [
    (TWICE, "stage(@k, c, t, inout)"), (TWICE, "stage(@j, c, t, inout)"), (SCALED, "vectorize(@k)"),
    (SCALED, "split_reduction(@k, c, t, 4)"), (SCALED, "swap_scopes(@j)"), (SCALED, "reverse_scope(@k)"),
    (SCALED, "join_scopes(@i, @j)"), (APART, "vectorize(@k)"), (APART, "swap_scopes(@k)"),
]  # fmt: skip

BETWEEN = """kernel between(N, M)
in  x: f32[N, M]
in  b: f32
inout c: f32[N]
N @j
| M @k
| | c[{j}] += x[{j}, {k}]
| | c[{j}] *= b
"""

AROUND = BETWEEN.replace("| | c[{j}] *= b", "| | c[N - 1 - {j}] *= b")

ILLEGAL = [
    (SCALED, "swap_siblings(0)"),
    (TWICE, "swap_siblings(0)"),
    (APART, "join_scopes(@i, @k)"),  # the extents differ
    (APART.replace("M @k", "N @k").replace("[N, M]", "[N, N]").replace("(N, M)", "(N)"), "join_scopes(@i, @k)"),
    (BETWEEN, "swap_siblings(0.0.0)"),
    (BETWEEN, "split_scopes(@k, 1)"),
    (BETWEEN, "vectorize(@k)"),
    (BETWEEN, "reverse_scope(@k)"),
    (BETWEEN, "split_reduction(@k, c, t, 4)"),
    (AROUND, "vectorize(@k)"),
    (AROUND, "swap_scopes(@j)"),
    (AROUND, "parallelize(@j)"),
    (AROUND, "reverse_scope(@j)"),
]


@pytest.mark.parametrize("way", ["shortcuts", "core"])
@pytest.mark.parametrize(("text", "move"), LEGAL)
def test_those_of_one_operator_commute(text: str, move: str, way: str) -> None:
    with check_with(way):
        verdict = dojoir.check(dojoir.parse(text), move)
    assert verdict, str(verdict)


@pytest.mark.parametrize("way", ["shortcuts", "core"])
@pytest.mark.parametrize(("text", "move"), ILLEGAL)
def test_those_of_two_do_not(text: str, move: str, way: str) -> None:
    with check_with(way):
        assert dojoir.check(dojoir.parse(text), move).status == "illegal"


def test_the_order_is_free_among_those_of_each_operator() -> None:
    sets = sets_of(dojoir.parse(SCALED))
    assert [sets.commute(a, b) for a in (0, 1) for b in (0, 1)] == [True, False, False, True]
    sets = sets_of(dojoir.parse(SCALED.replace("scaled(N, M)", "scaled(N, M)\nfp strict")))
    assert not any(sets.commute(a, b) for a in (0, 1) for b in (0, 1))


RUNS = """kernel runs(N, M)
in  x: f32[N, M]
inout c: f32[N]
N @i
| M @j
| | c[{i}] max= x[{i}, {j}]
| M @k
| | c[{i}] += x[{i}, {k}]
"""


@pytest.mark.parametrize("way", ["shortcuts", "core"])
@pytest.mark.parametrize("scope", ["@j", "@k"])
@pytest.mark.parametrize("move", ["reverse_scope({})", "vectorize({})", "split_reduction({}, c, t, 4)"])
def test_each_of_two_runs_may_go_in_any_order(way: str, scope: str, move: str) -> None:
    with check_with(way):
        verdict = dojoir.check(dojoir.parse(RUNS), move.format(scope))
    assert verdict, str(verdict)


def two_operators(random: Random) -> dojoir.Kernel:
    """Nests that accumulate into two arrays, and into a temporary, by several operators, in integers: any other
    order would be seen. The temporary is often assigned in some iterations alone, so that its value goes on."""

    def value(depth: int) -> str:
        at = [f"{{{d}}}" for d in range(depth)] + ["0"]
        return random.choice((f"x[{random.choice(at)}]", f"x[{random.choice(at)}] + 1", "3", f"{other}[{at[0]}]"))

    lines = ["kernel two(N)", "in  x: i64[N]", "inout c: i64[N]", "inout d: i64[N]", "tmp s: i64", "s = 1"]
    for _ in range(random.randint(1, 3)):
        depth = random.randint(1, 2)
        lines += ["| " * level + random.choice(("N", "N", "{0} + 1" if level else "N")) for level in range(depth)]
        for _ in range(random.randint(1, 3)):
            name, other = random.choice((("c", "d"), ("d", "c")))
            index = random.choice([f"{{{d}}}" for d in range(depth)] * 3 + ["0", "N - 1 - {0}"])
            op = random.choice(("+=", "+=", "*=", "*=", "max=", "="))
            lines.append("| " * depth + f"{name}[{index}] {op} {value(depth)}")
        if random.random() < 0.5:
            bars = "| " * depth
            begin = random.choice(([f"{bars}s = 2"], [f"{bars}if {{{depth - 1}}} <= 0", f"{bars}| s = 2"], []))
            ops = random.choices(("+=", "*=", "max="), k=random.randint(1, 2))
            adds = [f"{bars}s {op} {value(depth)}" for op in ops]
            lines += [*begin, *adds, f"{bars}{name}[{{{depth - 1}}}] {random.choice(('=', '+='))} s"]
    return dojoir.parse("\n".join(lines) + "\n")


@pytest.mark.parametrize("block", range(4))
def test_walks_keep_the_meaning(block: int) -> None:
    made = 0
    targets = tuple(target for target in ("llvm", "avx512") if can_run(target))
    for number in range(8):
        random = Random(f"two operators {block} {number}")
        result = Walk(random, two_operators(random), True, 0.3, targets if not number else ())
        result.go(1 + number % 5)
        assert not result.failures, "\n\n".join(f.what + "\n" + f.text() for f in result.failures)
        made += result.counts["moves"]
    assert made > 8
