"""A node in two versions: one for sizes that have a property, and one for all others.

Put together from moves: a scope of extent 1 around the node is cut where a formula in the sizes is 0 or more, and
each part gets a guard in place of its extent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel, Path
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import Formula, Quoted, fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.guards import AddGuard
from dojoir.passes.schedule.steps.spots import act, spot
from dojoir.passes.storage.sharing import UnshareBuffer
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Property(ABC):
    """A property of sizes, of a `formula` in them and a `number`: its `text`, how its `other` is said, that it does
    not hold, and the `excess`, a formula that is 0 where it holds, else more."""

    formula: str
    number: int

    @property
    def text(self) -> str:
        return f"{self.excess} == 0"

    @property
    def other(self) -> str:
        return f"{self.excess} >= 1"

    @property
    @abstractmethod
    def excess(self) -> str: ...


class Multiple(Property):
    """That `number` divides a formula in the sizes."""

    @property
    def excess(self) -> str:
        return f"({self.formula}) % {self.number}"


class AtMost(Property):
    """That a formula in the sizes, at least 1, is not more than `number`."""

    @property
    def text(self) -> str:
        return f"{self.formula} <= {self.number}"

    @property
    def other(self) -> str:
        return f"{self.formula} > {self.number}"

    @property
    def excess(self) -> str:
        return f"({self.formula} - 1) // {self.number}"


class Exactly(Property):
    """That a size is `number`. A size is q * number + r with r in 1 to `number`, and the excess is q + number - r:
    its two terms are at least 0, and both are only for q = 0, r = `number`."""

    @property
    def text(self) -> str:
        return f"{self.formula} == {self.number}"

    @property
    def excess(self) -> str:
        if self.number == 1:
            return f"{self.formula} - 1"
        return f"{self.number + 1} * (({self.formula} - 1) // {self.number}) + {self.number} - {self.formula}"


def split_versions(trace: Trace, path: Path, *properties: Property) -> tuple[Path, Path]:
    """Makes two nodes of the one at `path`, each under a guard: what runs where a size lacks one of the properties,
    and behind it what runs where it has all. Returns the places of the two. Raises IllegalMove where a move is
    refused."""
    spot(trace, path).wrap(1)
    return split_in_place(trace, path, *properties)


def split_in_place(trace: Trace, path: Path, *properties: Property) -> tuple[Path, Path]:
    """Like `split_versions`, for the body of an existing scope of extent 1, which the two versions replace."""
    excess = " + ".join(p.excess for p in properties)
    others = properties[0].other if len(properties) == 1 else f"{excess} >= 1"
    spot(trace, path).cut(Formula(excess))
    lacking = spot(trace, path)
    having = lacking.beside(1)
    for version, condition in ((having, " and ".join(p.text for p in properties)), (lacking, others)):
        act(trace, AddGuard, version.child(0), len(version.body), Quoted(condition))
        version.bound(Affine.constant(1))
        version.remove()
    first = spot(trace, path)
    second = first.beside(1)
    own_temporaries(trace, first.path, second.path)
    return first.child(0).path, second.child(0).path


def own_temporaries(trace: Trace, first: Path, second: Path) -> None:
    """Gives each of two nodes temporaries of its own, of those that nothing else uses."""
    for buffer in [buffer for buffer in trace.kernel.buffers if buffer.role == "tmp"]:
        (here, beside), count = uses_in(trace.kernel, buffer.name, second, first)
        if here and len(here) < len(here) + len(beside) == count:
            name = fresh_name(trace.kernel, f"{buffer.name}_2")
            act(trace, UnshareBuffer, buffer.name, name, len(trace.kernel.buffers), here)


def uses_in(kernel: Kernel, name: str, *paths: Path) -> tuple[list[list[int]], int]:
    """The numbers of the uses of a buffer in each of some nodes, and how many there are in all."""
    found: list[list[int]] = [[] for _ in paths]
    count = 0
    for site in kernel.sites:
        uses = sum(access.buffer == name for access in site.statement.accesses)
        for path, here in zip(paths, found, strict=True):
            here += range(count, count + uses) if is_inside(site.path, path) else ()
        count += uses
    return found, count
