"""Places are followed through moves: what stands at the followed place is what stood there, or the error names the
move that removed it."""

from __future__ import annotations

from random import Random

import pytest
from drawing import draw

import dojoir
from dojoir import Trace
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Const, Guard, Kernel, Node, Op, Path, Scope, Statement
from dojoir.passes.base.forward import forward

FIRST = 4096
"""Numbers from here on are the names of statements."""


def marked(kernel: Kernel) -> Kernel:
    """The kernel with a number of its own in each statement, and a label on each scope."""
    names = iter(range(FIRST, 2 * FIRST))

    def visit(node: Node) -> Node:
        match node:
            case Statement():
                return Statement(node.target, node.op, Op("max", (node.value, Const(next(names)))))
            case Scope():
                body = tuple(map(visit, node.body))
                return Scope(node.extent, body, node.marks, f"s{next(names)}", hints=node.hints)
            case Guard():
                return Guard(node.conditions, tuple(map(visit, node.body)))

    return kernel.evolve(body=tuple(map(visit, kernel.body)))


def names_of(node: Statement) -> set[int]:
    numbers = (part.value for part in parts(node.value) if isinstance(part, Const))
    return {number for number in numbers if type(number) is int and number >= FIRST}


def labelled(kernel: Kernel, label: str | None) -> set[Path]:
    return {path for path, node in kernel.walk() if isinstance(node, Scope) and node.label == label}


def followed(kernel: Kernel, move: dojoir.Move) -> Kernel:
    """The kernel after a legal move, every place of the one before held to where it is."""
    done = move.rewrite(kernel)
    after = done.kernel
    for path, node in kernel.walk():
        found = forward(kernel, after, done.instances, path)
        shown = f"{move}: {path} is at {found}\n{kernel}\n{after}"
        nodes = [after.at(place) for place in found]
        assert len(set(found)) == len(found)
        assert all(type(one) is type(node) for one in nodes), shown
        if isinstance(node, Statement):
            own = names_of(node)
            same = [one for one in nodes if isinstance(one, Statement)]
            if own:  # else a copy that a move made
                assert all(own & names_of(one) or one.target.buffer == node.target.buffer for one in same), shown
            # a statement whose temporary is gone lives on in its reader; what a rule replaces has no place
            own = own if done.instances.rule is None else set()
            kept = any(buffer.name == node.target.buffer for buffer in after.buffers)
            if own and not found and kept and sum(names_of(site.statement) == own for site in kernel.sites) == 1:
                assert all(names_of(site.statement) != own for site in after.sites), shown
        if isinstance(node, Scope) and node.label and len(labelled(kernel, node.label)) == 1:
            assert labelled(after, node.label) <= set(found), shown
    return after


def moves_of(kernel: Kernel, random: Random) -> list[dojoir.Move]:
    """One legal move of each of some families."""
    families: dict[str, list[dojoir.Move]] = {}
    for move in dojoir.candidates(kernel):
        families.setdefault(move.name, []).append(move)
    legal = []
    for name in sorted(families):
        move = random.choice(families[name])
        if dojoir.check(kernel, move):
            legal.append(move)
    return legal


@pytest.mark.parametrize("seed", range(8))
def test_what_stands_at_a_followed_place_is_what_stood_there(seed: int) -> None:
    random = Random(seed)
    kernel = marked(draw("tangled", random, small=True))
    dojoir.prove(kernel)
    for _ in range(4):
        legal = moves_of(kernel, random)
        assert legal
        after = [followed(kernel, move) for move in legal]
        kernel = random.choice(after)


def test_a_trace_follows_a_place_or_says_what_removed_it() -> None:
    trace = Trace(dojoir.kernels.load("softmax"))
    for move in ("join_scopes(0, 1)", "split(0.1, 16)", "vectorize(0.1.0)", "swap_siblings(0.1)"):
        trace.apply(move)
    assert trace.follow("0") == trace.follow("1") == "0"
    assert trace.follow("0.1") == "0.2"  # the outer of the two
    assert trace.follow("0.1.0") == "0.2.0.0"
    assert trace.follow("1.0") == "0.1"
    assert trace.follow("0.2", since=3) == "0.1"
    assert trace.follow("<last writes y>") == trace.follow("1.2.0")
    with pytest.raises(dojoir.ArgumentError, match="no place"):
        trace.follow("7")
    with pytest.raises(dojoir.ArgumentError, match="from 0 to 4"):
        trace.follow("0", since=5)


def test_a_place_that_is_gone_names_the_move() -> None:
    trace = Trace(dojoir.parse("kernel f(N)\nin x: f32[N]\nout y: f32[N]\n1\n| N\n| | y[{1}] = x[{1}]\n"))
    trace.apply("split(0.0, 8)")
    trace.apply("remove_scope(0)")
    with pytest.raises(dojoir.ArgumentError, match=r"0 is gone: remove_scope\(0\), move 2, removed it") as caught:
        trace.follow("0")
    assert caught.value.diagnostic.code == "gone-place"
    trace.apply("cut(0, 2)")
    with pytest.raises(dojoir.ArgumentError, match=r"0.0 is in several places since cut\(0, 2\), move 3: 0, 1"):
        trace.follow("0.0")
    assert trace.places("0.0") == ("0", "1")
    trace.apply("join_ranges(0, 1, 2)")
    assert trace.follow("0.0") == "0"


@pytest.mark.parametrize("seed", range(4))
def test_what_was_followed_before_says_nothing_of_other_moves(seed: int) -> None:
    """Places that were asked for all along, with moves undone and others made, are where a new trace has them."""
    random = Random(f"followed {seed}")
    trace = Trace(dojoir.kernels.load("softmax"))
    asked = [(path, since) for since in (0, 1, 2) for path in ("0", "0.1", "0.0", "0.1.0")]

    def found(of: Trace) -> list[object]:
        said: list[object] = []
        for path, since in asked:
            try:
                said.append((of.follow(path, since), of.places(path, since)))
            except dojoir.ArgumentError as error:
                said.append(str(error))
        return said

    for _ in range(25):
        if trace.steps and random.random() < 0.4:
            trace.undo()
            trace = trace.copy() if random.random() < 0.3 else trace
        else:
            names = ("split", "join_scopes", "cut", "swap_siblings", "remove_scope", "peel", "split_scopes")
            moves = [move for move in dojoir.candidates(trace.kernel) if move.name in names]
            drawn = random.sample(moves, len(moves))
            trace.apply(next(move for move in drawn if dojoir.check(trace.kernel, move)))
        anew = Trace(trace.start)
        for move in trace.moves:
            anew.apply(move)
        assert found(trace) == found(anew)
