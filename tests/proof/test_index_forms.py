"""What is seen of indices from their form: which take every value of a box, and which tell iterations apart.

Each answer is held against an enumeration; that they are not all `no` is asked besides.
"""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

import dojoir
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Scope
from dojoir.passes.engine.engine import moves
from dojoir.proof.core.independence import find_conflict
from dojoir.proof.core.written import comes_and_goes
from dojoir.proof.facts.aliasing import agreement
from dojoir.proof.facts.spanning import counts_to, digits_of, unblocked
from dojoir.proof.wellformed import are_independent


def number(value: int) -> Affine:
    return Affine.constant(value)


def iterator(depth: int) -> Affine:
    return Affine.iterator(depth)


def sums(random: Random) -> tuple[Affine, dict[int, int]]:
    """A sum of iterators, often one that counts in a mixed radix, and their extents."""
    extents = {depth: random.randint(0, 4) for depth in range(random.randint(1, 3))}
    order = random.sample(sorted(extents), len(extents))
    value, step = number(0), 1
    for depth in order:
        value += iterator(depth) * (step if random.random() < 0.8 else random.randint(-2, 5))
        step *= max(1, extents[depth])
    return value + random.choice([0, 0, 0, 1]), extents


def test_a_sum_that_counts_takes_every_value() -> None:
    random = Random(1)
    seen = 0
    for _ in range(3000):
        value, extents = sums(random)
        reached = counts_to(value, {d: number(n) for d, n in extents.items()}, ())
        if reached is None:
            continue
        seen += 1
        own = sorted(value.iterators)
        found = {
            value.evaluate({}, dict(zip(own, at, strict=True)))
            for at in product(*(range(extents[depth]) for depth in own))
        }
        assert found >= set(range(reached.evaluate({}))), (str(value), extents)
    assert seen > 300


def test_digits_take_every_combination() -> None:
    random = Random(2)
    seen = 0
    for _ in range(3000):
        extents = {0: random.choice([6, 8, 12, 16, 24, 36]), 1: random.choice([4, 9])}
        indices: list[Affine] = []
        boxes: list[int] = []
        for _ in range(random.randint(1, 4)):
            place, radix = random.choice([1, 2, 3, 4, 6, 12]), random.choice([2, 3, 4, 6])
            index = iterator(random.choice([0, 0, 0, 1])) // place
            indices.append(index % radix if random.random() < 0.6 else index)
            boxes.append(random.choice([radix, max(1, extents[0] // place)]))
        bounds = {d: number(n) for d, n in extents.items()}
        used = digits_of([(i, number(n)) for i, n in zip(indices, boxes, strict=True)], bounds)
        if used is None:
            continue
        seen += 1
        found = {tuple(i.evaluate({}, at) for i in indices) for at in product(*map(range, extents.values()))}
        assert found >= set(product(*map(range, boxes))), (list(map(str, indices)), boxes)
        assert used == frozenset().union(*(i.iterators for i in indices))
    assert seen > 20


COPY = """kernel f(N)
in  x: f32[N, 24]
out y: f32[N, 24]
tmp b: f32[{box}]

N
| {extent}
| | b[{index}] = x[{{0}}, {{1}}]
| 24
| | y[{{0}}, {{1}}] = b[{read}]
"""


@pytest.mark.parametrize(
    ("box", "index", "read"),
    [
        ("4, 6", "{1} // 6, {1} % 6", "{1} // 6, {1} % 6"),
        ("2, 3, 4", "{1} // 12, {1} // 4 % 3, {1} % 4", "{1} // 12, {1} // 4 % 3, {1} % 4"),
        ("6, 4", "{1} % 6, {1} // 6", "{1} // 4, {1} % 4"),
    ],
)
def test_what_is_written_by_digits_comes_and_goes(box: str, index: str, read: str) -> None:
    kernel = dojoir.parse(COPY.format(box=box, extent=24, index=index, read=read))
    assert comes_and_goes(kernel, kernel.buffer("b"))


@pytest.mark.parametrize(
    ("extent", "index"), [(23, "{1} // 6, {1} % 6"), (24, "{1} // 6, {1} % 5"), (24, "{1} // 8, {1} % 6")]
)
def test_what_is_not_wholly_written_is_not_said_to_be(extent: int, index: str) -> None:
    kernel = dojoir.parse(COPY.format(box="4, 6", extent=extent, index=index, read="{1} // 6, {1} % 6"))
    assert not comes_and_goes(kernel, kernel.buffer("b"))


AGREE = """kernel f(N)
in  x: f32[N, {n}, {m}]
inout y: f32[200, 200]

N
| {n}
| | {m}
| | | y[{left}] = x[{{0}}, {{1}}, {{2}}]
"""


def test_iterations_that_are_said_to_agree_do() -> None:
    """Two instances that touch one element have the same iterators where that is said."""
    random = Random(3)
    terms = ("{1}", "{2}", "{1} // 2", "{1} % 2", "{2} // 3", "{2} % 3", "({1} + {2}) // 2", "({1} + {2}) % 4")
    seen = divided = 0
    for _ in range(400):
        n, m = random.choice([2, 4, 6]), random.choice([3, 6, 7])
        parts = [
            " + ".join(
                f"{random.choice([1, 2, 3, 4, 7])}*({t})" for t in random.sample(terms, random.randint(1, 3))
            )
            for _ in range(2)
        ]
        kernel = dojoir.parse(AGREE.format(n=n, m=m, left=", ".join(parts)))
        (site,) = kernel.sites
        target = site.statement.target
        agreed = agreement(kernel, (site, target), (site, target), 1)
        places: dict[tuple[int, ...], list[tuple[int, int, int]]] = {}
        for at in product(range(1), range(n), range(m)):
            key = tuple(i.evaluate({}, at) for i in target.indices if not isinstance(i, Access))
            places.setdefault(key, []).append(at)
        for depth in agreed - {0}:
            seen += 1
            divided += iterator(depth) not in target.indices
            assert all(len({at[depth] for at in same}) == 1 for same in places.values()), (parts, n, m, depth)
    assert seen > 100
    assert divided > 50


DIGITS = """kernel f(N)
in  x: f32[N, 4, 6]
out y: f32[N, 4, 6]
tmp b: f32[4, 6]

N
| 24
| | b[{1} // 6, {1} % 6] = x[{0}, {1} // 6, {1} % 6]
| 4
| | 6
| | | y[{0}, {1}, {2}] = b[{1}, {2}]
"""


def test_a_dimension_written_by_digits_is_not_shared() -> None:
    """And the scope around, whose iterations keep their values to themselves, is free."""
    kernel = dojoir.parse(DIGITS)
    listed = {str(move) for move in moves(kernel)}
    assert "parallelize(0)" in listed
    assert not {"reuse_dims(b, 0)", "reuse_dims(b, 1)"} & listed
    for text in ("reuse_dims(b, 0)", "reuse_dims(b, 1)"):
        assert dojoir.check(kernel, text).diagnostic is not None


def test_blocks_that_are_joined_run_the_same_iterations() -> None:
    """Whatever scopes are strip-mined again, the joined ones give the same indices in all their iterations."""
    random = Random(4)
    joined = 0
    for _ in range(400):
        whole, factor, again = random.randint(1, 20), random.randint(1, 6), random.randint(1, 4)
        blocks = number((whole + factor - 1) // factor)
        bounds: dict[int, tuple[Affine, ...]] = {
            1: (blocks,),
            2: (number(factor), number(whole) - iterator(1) * factor),
        }
        index = iterator(1) * factor + iterator(2)
        if random.random() < 0.5:  # the blocks in blocks
            outer = number((blocks.offset + again - 1) // again)
            wide = iterator(0) * again + iterator(1)
            bounds = {
                0: (outer,),
                1: (number(again), blocks - iterator(0) * again),
                2: (number(factor), number(whole) - wide * factor),
            }
            index = wide * factor + iterator(2)
        if random.random() < 0.3:  # something else
            index = index + iterator(random.choice(sorted(bounds)))
        if random.random() < 0.2:
            bounds[max(bounds)] = (bounds[max(bounds)][0],)
        found, (value,) = unblocked(bounds, [index])
        joined += len(found) < len(bounds)
        assert sorted(values_of(found, value)) == sorted(values_of(bounds, index)), (bounds, str(index))
    assert joined > 100


def values_of(bounds: dict[int, tuple[Affine, ...]], index: Affine) -> list[int]:
    def visit(depths: list[int], at: dict[int, int]) -> list[int]:
        if not depths:
            return [index.evaluate({}, at)]
        depth, *rest = depths
        count = min(bound.evaluate({}, at) for bound in bounds[depth])
        return [value for i in range(count) for value in visit(rest, {**at, depth: i})]

    return visit(sorted(bounds), {})


def test_blocks_cover_what_the_whole_does() -> None:
    kernel = dojoir.parse("""kernel f(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N]

(N + 7) // 8
| min(8, N - 8*{0})
| | t[8*{0} + {1}] = x[8*{0} + {1}]
N
| y[{0}] = t[{0}]
""")
    assert comes_and_goes(kernel, kernel.buffer("t"))
    short = dojoir.parse(
        dojoir.to_text(kernel).replace("(N + 7) // 8\n", "N // 8\n").replace("N\n| y", "8*(N // 8)\n| y")
    )
    assert not comes_and_goes(short, short.buffer("t"))


@pytest.mark.parametrize("name", sorted(dojoir.kernels.names()))
def test_a_mark_is_promised_as_it_is_explained(name: str) -> None:
    """The quick answer about every scope of a kernel is the one that comes with a reason."""
    kernel = dojoir.kernels.load(name)
    for path, node in kernel.walk():
        if isinstance(node, Scope):
            for mark in "pv":
                assert are_independent(kernel, path, mark) == (find_conflict(kernel, path, mark) is None), (
                    path,
                    mark,
                )
