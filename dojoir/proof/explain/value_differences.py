"""Differences between two kernels in words: instances that do not match, and values that come from elsewhere."""

from __future__ import annotations

import islpy as isl

from dojoir.errors import Diagnostic, Party
from dojoir.ir.format import format_access
from dojoir.proof.core.compare import StrayValues, WrongFlow, WrongInstances
from dojoir.proof.explain.example import (
    Example,
    Point,
    accuse,
    describe,
    example,
    party,
    read_by,
    spelling,
    when,
    with_sizes,
    witness,
)

_INSTANCES = {
    "extra-instance": "would run, and does not now",
    "lost-instance": "would not run",
    "repeated-instance": "would count twice",
}


def wrong_instances(failure: WrongInstances) -> Diagnostic:
    """An instance of the kernel before that is lost, extra or repeated after."""
    kernel, what = failure.kernel, _INSTANCES[failure.code]
    found = witness(failure.instances.identity(), kernel)
    message = f"{with_sizes(found.sizes)}{describe(found.left, kernel)} {what}"
    return accuse(failure.code, message, [party(found.left, kernel, what)], found.sizes)


def stray_values(failure: StrayValues) -> Diagnostic:
    """A value that comes from a statement that stands for nothing."""
    kernel = failure.kernel
    found = witness(failure.values, kernel)
    message = (
        f"{with_sizes(found.sizes)}a value would come from {describe(found.left, kernel)}, "
        "which stands for nothing now and does more than pass values on"
    )
    return accuse("stray-value", message, [party(found.left, kernel, "would give a value")], found.sizes)


def wrong_flow(failure: WrongFlow) -> Diagnostic:
    """A read, or a returned element, that would get another value, or not all that it gets now."""
    return _Reading(failure).diagnostic()


class _Reading:
    """One example of a wrong flow: who reads, what, and whose value it is."""

    def __init__(self, failure: WrongFlow) -> None:
        self.failure, self.kernel, self.graph = failure, failure.kernel, failure.graph
        self.found: Example = witness(failure.values, self.kernel)
        self.who, self.what, self.parties = self._reader(self.found.right)

    def diagnostic(self) -> Diagnostic:
        """The example in words."""
        wrong = self._wrong_initial() if self.failure.initial else self._wrong_source()
        message = f"{with_sizes(self.found.sizes)}{self.who} would {wrong}"
        code = "lost-value" if self.failure.lost else "wrong-value"
        if not self.parties:
            return Diagnostic(code, message, sizes=self.found.sizes)
        return accuse(code, message, self.parties, self.found.sizes)

    def _reader(self, point: Point) -> tuple[str, str, list[Party]]:
        """The reader, what it reads, and its statement."""
        if point.site is None:
            name = point.name.removeprefix("out_")
            element = f"[{', '.join(map(str, point.coordinates))}]" if point.coordinates else ""
            return f"the returned `{name}{element}`", "be ", []
        site = self.kernel.sites[point.site]
        slots = self.graph.slots[point.site]
        access = next((slot.access for slot in slots if slot.name == point.name), site.statement.target)
        reader = party(point, self.kernel, "reads it", read_by(point, self.kernel))
        what = format_access(access, spelling(self.kernel, site.scopes))
        return describe(point, self.kernel), f"read `{what}` ", [reader]

    def _writer(self, point: Point, does: str) -> Party:
        assert point.site is not None
        words = f"{does} {when(point, self.kernel)}".rstrip()
        return party(point, self.kernel, words, self.kernel.sites[point.site].statement.target)

    def _wrong_source(self) -> str:
        left, returned = self.found.left, self.found.right.site is None
        writer = describe(left, self.kernel)
        if self.failure.lost:
            self.parties.append(self._writer(left, "would write to it too late or not at all,"))
            return f"{self.what}without what {writer} writes to it"
        does = "would write it last," if returned else "would write what is read,"
        self.parties.append(self._writer(left, does))
        words = f"{self.what}as written by {writer}"
        proper = example(self.graph.sources.intersect_range(self._right()), self.kernel)
        if proper is None:
            return words
        other = proper.left.name != left.name
        now = describe(proper.left, self.kernel) if other else when(proper.left, self.kernel)
        self.parties.append(self._writer(proper.left, "writes it now,"))
        return f"{words}; now it is the one written {'by ' if other else ''}{now}"

    def _right(self) -> isl.UnionSet:
        """The set of the read alone, at the sizes of the example."""
        point, sizes = self.found.right, self.found.sizes
        given = " and ".join(f"n_{name} = {value}" for name, value in sizes) or "true"
        coordinates = ", ".join(map(str, point.coordinates))
        return self.graph.sets.map(f"{point.name}[{coordinates}] -> [] : {given}").domain()

    def _wrong_initial(self) -> str:
        left = self.found.left
        name = left.name.removeprefix("b_")
        element = f"{name}[{', '.join(map(str, left.coordinates))}]" if left.coordinates else name
        given = any(b.name == name and b.role != "out" for b in self.kernel.arguments)
        value = f"`{element}` as the caller gave it" if given else f"`{element}`, never written"
        return f"{self.what}{'no longer ' if self.failure.lost else ''}as {value}"
