"""Moves of a user's own: what they make wrong is refused in plain words, before the proof stumbles over it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

import dojoir
from dojoir.ir.nodes import Kernel
from dojoir.ir.rewriting.rewrite import map_accesses
from dojoir.passes.base.about import AboutScope
from dojoir.passes.base.move import BufferName, Place, Rewrite
from dojoir.proof.check import identity

KERNEL = "kernel k(N)\nin x: f32[N]\nout y: f32[N]\ntmp t: f32[N]\ntmp u: f32[N]\nN\n| t[{0}] = x[{0}]\n"
KERNEL += "N\n| u[{0}] = t[{0}] + 1\nN\n| y[{0}] = u[{0}]\n"


@dataclass(frozen=True)
class Rename(dojoir.Move):
    """Gives a temporary another name: everywhere, or in its declaration alone."""

    name: ClassVar[str] = "rename_temporary"
    old: BufferName
    new: BufferName
    everywhere: int = 1

    def rewrite(self, kernel: Kernel) -> Rewrite:
        body = kernel.body
        if self.everywhere:
            body = tuple(
                map_accesses(node, lambda a: replace(a, buffer=self.new) if a.buffer == self.old else a)
                for node in body
            )
        buffers = tuple(replace(b, name=self.new) if b.name == self.old else b for b in kernel.buffers)
        return Rewrite(kernel.evolve(buffers=buffers, body=body), identity(kernel))

    def inverse(self, before: Kernel) -> dojoir.Move:
        return Rename(self.new, self.old, self.everywhere)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[dojoir.Move]:
        return iter(())


def test_a_move_of_the_users_renames() -> None:
    trace = dojoir.Trace(dojoir.parse(KERNEL))
    trace.apply(Rename(BufferName("t"), BufferName("sum_of")))
    assert "sum_of[{0}] + 1" in str(trace.kernel) and dojoir.certify(trace)


@pytest.mark.parametrize(
    ("move", "code", "says"),
    [
        (Rename(BufferName("t"), BufferName("a b")), "bad-name", "'a b' is not a name"),
        (Rename(BufferName("t"), BufferName("select")), "bad-name", "word of the language"),
        (Rename(BufferName("t"), BufferName("u")), "name-taken", "declares `u` twice"),
        (Rename(BufferName("t"), BufferName("N")), "name-taken", "declares `N` twice"),
        (Rename(BufferName("t"), BufferName("v"), 0), "unknown-buffer", "uses `t` and does not declare it"),
    ],
)
def test_what_it_names_wrongly_is_refused(move: Rename, code: str, says: str) -> None:
    verdict = dojoir.check(dojoir.parse(KERNEL), move)
    assert not verdict and verdict.code == code and says in str(verdict)


def test_a_saved_trace_of_them_is_loaded_with_their_classes(tmp_path: Path) -> None:
    trace = dojoir.Trace(dojoir.parse(KERNEL))
    trace.apply(Rename(BufferName("t"), BufferName("v")))
    trace.apply("join_scopes(0, 1)")
    trace.save(tmp_path / "own.json")
    again = dojoir.Trace.load(tmp_path / "own.json", moves=[Rename])
    assert again.moves == trace.moves and again.kernel == trace.kernel
    with pytest.raises(
        dojoir.ArgumentError, match=r"no move 'rename_temporary'.* one of your own.* moves=\["
    ) as no:
        dojoir.Trace.load(tmp_path / "own.json")
    assert no.value.diagnostic.code == "unknown-move"
    with pytest.raises(dojoir.ArgumentError, match="moves"):
        dojoir.Trace.load(tmp_path / "own.json", moves=["rename_temporary"])  # type: ignore[list-item]


def test_a_move_without_its_methods_is_not_made() -> None:
    class Nothing(AboutScope, name="do_nothing"):
        """Says what it is about, and not what it does."""

    with pytest.raises(TypeError, match=r"Nothing .*back'?, '?rewritten"):
        Nothing(Place("0"))

    class Half(AboutScope, name="do_half"):
        """Has the methods of a move of its own, one of them."""

        def rewrite(self, kernel: Kernel) -> Rewrite:
            return Rewrite(kernel, identity(kernel))

    with pytest.raises(TypeError, match=r"Half .*back"):
        Half(Place("0"))


def test_a_word_of_a_class_that_a_move_has_not_is_refused() -> None:
    with pytest.raises(TypeError, match="says reech, which a move has not: name, reach"):

        class Misspelt(AboutScope, name="misspelt", reech=1):
            """Never made."""
