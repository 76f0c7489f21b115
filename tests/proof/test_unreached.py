"""Nodes that never run and are taken away: seen where the core says so, and nowhere else."""

from __future__ import annotations

from random import Random

import pytest
from drawing import draw

import dojoir
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Extent, Guard, Kernel, Node, Scope, Statement
from dojoir.ir.places import siblings
from dojoir.passes.base.move import Refusal, place_of
from dojoir.passes.loops.deletion import DeleteNode
from dojoir.proof.claim import Claim
from dojoir.proof.explain.verdicts import check
from dojoir.proof.patterns.pattern_table import PATTERNS

(UNREACHED,) = (pattern for pattern in PATTERNS if pattern.name == "unreached")

HEAD = """kernel f(N, M)
where N >= 4
in  x: f32[N, M]
inout a: f32[N, M]
inout s: f32
tmp t: f32[N]
"""


def kernel_of(body: str) -> Kernel:
    kernel = dojoir.parse(HEAD + body)
    dojoir.prove(kernel)
    return kernel


def claim_of(kernel: Kernel, place: str) -> Claim:
    done = DeleteNode(place).rewrite(kernel)
    return Claim(kernel, done.kernel, done.instances)


@pytest.mark.parametrize(
    ("body", "place", "seen"),
    [
        ("N\n| a[{0}, 0] = 1\n| if {0} >= N\n| | a[{0}, 0] = 2", "0.1", True),
        ("N\n| a[{0}, 0] = 1\n| if {0} >= N - 1\n| | a[{0}, 0] = 2", "0.1", False),
        ("N\n| if 2*{0} == 2*N - 1\n| | t[{0}] = 1\n| a[{0}, 0] = 1", "0.0", True),
        ("N\n| N - 4\n| | a[{0}, 0] = {1}\n| min(0, M)\n| | s += 1", "0.1", True),
        ("N\n| a[{0}, 0] = 1\n| 4 - N\n| | a[{0}, 0] = 2", "0.1", True),  # where N >= 4
        ("N\n| a[{0}, 0] = 1\n| 5 - N\n| | a[{0}, 0] = 2", "0.1", False),
        ("N\n| s += x[{0}, 0]\n0\n| s += 1", "1", True),
        ("N\n| s += x[{0}, 0]\n0\n| s max= 1", "1", True),
        ("N\n| s = x[{0}, 0]\n0\n| s = 1", "1", True),
        ("N\n| a[{0}, 0] = 1\n| 1\n| | if {0} < 0\n| | | s = 1\n| | if {0} < 1\n| | | s = 2", "0.1", False),
        ("N\n| a[{0}, 0] = 1\n| 1\n| | if {0} < 0\n| | | s = 1\n| | if {0} < 1\n| | | s = 2", "0.1.0", True),
    ],
)
def test_it_is_seen_where_nothing_runs(body: str, place: str, seen: bool) -> None:
    claim = claim_of(kernel_of(body), place)
    assert UNREACHED.holds(claim) == seen
    assert check(claim) or not seen


def test_what_is_left_is_what_was_there() -> None:
    """A certificate that mixes up what stays, or another tree, is not believed."""
    kernel = kernel_of("N\n| a[{0}, 0] = 1\n| if {0} >= N\n| | s = 2\n| a[{0}, 0] = 3")
    claim = claim_of(kernel, "0.1")
    assert UNREACHED.holds(claim)
    origins = claim.certificate.origins
    for wrong in (origins[::-1], (origins[0], origins[0]), (origins[0], None)):
        assert not UNREACHED.holds(Claim(kernel, claim.after, type(claim.certificate)(wrong)))
    other = kernel_of("N\n| a[{0}, 0] = 1\n| a[{0}, 0] = 4")
    assert not UNREACHED.holds(Claim(kernel, other, claim.certificate))
    fewer = claim.after.evolve(buffers=claim.after.buffers[:-1])
    assert not UNREACHED.holds(Claim(kernel, fewer, claim.certificate))


def test_a_node_that_is_all_there_is_stays() -> None:
    kernel = kernel_of("N\n| if {0} >= N\n| | s = 2\ns = 1")
    (scope, last) = kernel.body
    assert isinstance(scope, Scope)
    empty = kernel.evolve(body=(Scope(scope.extent, ()), last))
    origins = claim_of(kernel, "0").certificate
    assert not UNREACHED.holds(Claim(kernel, empty, origins))


def cut_off(kernel: Kernel, random: Random) -> Kernel:
    """The kernel with a condition around some nodes, or in place of an extent, that mostly lets nothing run."""

    def visit(node: Node, depth: int) -> Node:
        inside = node if isinstance(node, Statement) else None
        if isinstance(node, Scope):
            body = tuple(visit(child, depth + 1) for child in node.body)
            extent = Extent((Affine.constant(random.choice((0, 0, 1))),)) if random.random() < 0.1 else node.extent
            inside = Scope(extent, body, node.marks)
        elif isinstance(node, Guard):
            inside = Guard(node.conditions, tuple(visit(child, depth) for child in node.body))
        assert inside is not None
        if depth and random.random() < 0.3:
            side = Affine.iterator(random.randrange(depth))
            return Guard((Condition(side, random.choice(("<", "<", "<=")), Affine.constant(0)),), (inside,))
        return inside

    return kernel.evolve(body=tuple(visit(node, 0) for node in kernel.body))


@pytest.mark.parametrize("seed", range(3))
def test_the_core_says_so_too(seed: int) -> None:
    random, seen, open_ = Random(f"unreached {seed}"), 0, 0
    for _ in range(60):
        kernel = cut_off(draw("runnable", random), random)
        try:
            dojoir.prove(kernel)
        except dojoir.KernelError:
            continue
        for path, node in kernel.walk():
            if isinstance(node, Statement) or len(siblings(kernel, path)) == 1:
                continue
            try:
                claim = claim_of(kernel, str(place_of(path)))
            except Refusal:
                continue
            holds = UNREACHED.holds(claim)
            assert not holds or check(claim), f"{claim.before}\n{claim.after}"
            seen, open_ = seen + holds, open_ + (not holds)
    assert seen > 3 and open_ > 3, (seen, open_)
