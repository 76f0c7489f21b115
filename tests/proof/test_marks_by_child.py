"""The marks of a kernel, asked child by child with answers taken over, beside what the core says of the whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import claims
import pytest
from checked import checked_kernel

import dojoir
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import F64
from dojoir.ir.nodes import (
    MARKS,
    Extent,
    Guard,
    Kernel,
    Node,
    Path,
    Scope,
    Statement,
    substitute,
    substitute_iterators,
)
from dojoir.proof import wellformed
from dojoir.proof.core import independence
from dojoir.proof.core.check import marks
from dojoir.proof.core.data_writes import without_data_writes
from dojoir.proof.core.marks import mark_error
from dojoir.proof.patterns import independent
from dojoir.proof.wellformed import are_right, keeps_marks


def with_marks(kernel: Kernel, random: Random, often: float) -> Kernel:
    """The kernel with other marks on some of its scopes, most of which may not stand there."""

    def marked(node: Node) -> Node:
        match node:
            case Statement():
                return node
            case Guard():
                return replace(node, body=tuple(map(marked, node.body)))
        chosen = (
            tuple(random.sample(MARKS, random.choice((0, 1, 1, 1, 2)))) if random.random() < often else node.marks
        )
        return replace(node, body=tuple(map(marked, node.body)), marks=chosen)

    return kernel.evolve(body=tuple(map(marked, kernel.body)))


def said_by_core(after: Kernel, before: Kernel | None = None) -> bool:
    return marks(after, before) is None


@pytest.mark.parametrize("seed", range(4))
def test_they_are_right_where_the_core_finds_nothing(seed: int) -> None:
    """On kernels that follow one another, so that answers are taken over: some children get other marks, others
    stay, and a buffer that only one child used is used by another."""
    random, said = Random(f"marks {seed}"), {True: 0, False: 0}
    for _ in range(12):
        kernel = dojoir.parse(dojoir.to_text(checked_kernel(random, 0.5)))
        for often in (0.1, 0.3, 0.3):
            marked = with_marks(kernel, random, often)
            for asked in (marked, marked.evolve(body=(*marked.body, *marked.body[:1]))):
                assert are_right(asked) == (mark_error(asked) is None), dojoir.to_text(asked)
                expected = said_by_core(asked)
                assert keeps_marks(asked) == expected, dojoir.to_text(asked)
                said[expected] += 1
            if said_by_core(kernel):
                assert keeps_marks(marked, kernel) == said_by_core(marked, kernel), dojoir.to_text(marked)
                kernel = marked if said_by_core(marked) else kernel
    assert min(said.values()) > 10, said


PARTS = """kernel f(N, M)
in  x: f32[N, M]
out y: f32[N, M]
out z: f32[M]
tmp t: f32[M]

N : p
| M
| | t[{1}] = x[{0}, {1}]
| M
| | y[{0}, {1}] = t[{1}]
M
| z[{0}] = x[0, {0}]
"""


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("z[{0}] = x[0, {0}]", "z[{0}] = t[{0}]"),  # no iteration has its own t where another child uses it
        ("tmp t: f32[M]", "out t: f32[M]"),
        ("tmp t: f32[M]", "inout t: f32[M]"),
    ],
)
def test_what_is_outside_of_a_child_tells(was: str, becomes: str) -> None:
    """The same tree, first here and then there, in either order: the answers differ, and none is taken over."""
    one, other = dojoir.parse(PARTS), dojoir.parse(PARTS.replace(was, becomes))
    assert said_by_core(one) != said_by_core(other)
    for kernel in (one, other, one):
        assert keeps_marks(kernel) == said_by_core(kernel)


def test_a_hint_is_asked_of_each_kernel() -> None:
    """Whether a scope is an instruction also says what is declared, outside of the child."""
    text = (
        "kernel f()\nin a: f32[16]\nin b: f32[16]\ninout d: f32[16]\n\n16\n| d[{0}] = fma(a[{0}], b[{0}], d[{0}])\n"
    )
    used = dojoir.apply(dojoir.parse(text), "use_instr(0, avx512_fmadd_ps)")
    other = used.evolve(buffers=tuple(replace(b, dtype=F64) for b in used.buffers))
    assert mark_error(used) is None and mark_error(other) is not None
    for kernel in (used, other, used):
        assert are_right(kernel) == (mark_error(kernel) is None)


def test_a_move_that_takes_one_back_asks_what_it_changed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """`add_scope` has a backward certificate: other children keep what their marks promise, as for any move."""
    kernel = dojoir.parse(PARTS)
    dojoir.prove(kernel)
    asked: list[Node] = []

    def noted(after: Kernel, place: Path, child: Node) -> bool:
        asked.append(child)
        return True

    monkeypatch.setattr(wellformed, "_child_keeps", noted)
    assert dojoir.check(kernel, "add_scope(1.0, 1)")
    assert kernel.body[0] not in asked
    assert dojoir.check(kernel, "add_scope(0.1, 1)")
    assert [child.extent for child in asked if isinstance(child, Scope)] == [kernel.body[0].extent]


# -- values that an iteration begins anew --------------------------------------------------------------------
def around(kernel: Kernel, first: int) -> Kernel:
    """The children of a kernel from one on, in one more scope."""
    deeper = substitute_iterators({depth: Affine.iterator(depth + 1) for depth in range(8)})
    body = tuple(substitute(node, deeper) for node in kernel.body[first:])
    return without_data_writes(kernel.evolve(body=(Scope(Extent((Affine.size("N"),)), body),)))


def test_no_value_crosses_that_each_iteration_begins_anew() -> None:
    found: Counter[tuple[bool, bool]] = Counter()
    for number in range(100):
        maker = claims.Maker(Random(f"anew {number}"))
        drawn = maker.kernel(maker.old())
        if drawn is None:
            continue
        kernel = around(drawn, number % 4)
        for path, node in kernel.walk():
            for mark in ("p", "v", "gx") if isinstance(node, Scope) else ():
                quick = wellformed.find_conflict(kernel, path, mark) is None
                assert quick == (independence.find_conflict(kernel, path, mark) is None), (path, mark, kernel)
        for name in independence.private_buffers(kernel, (0,), "p"):
            found[independent.begins_anew(kernel, (0,), name), independence.carries(kernel, (0,), name)] += 1
    assert not found[True, True]
    assert found[True, False] > 50
    assert found[False, True] > 10
