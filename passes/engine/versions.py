"""Several traces of one kernel, each for some sizes: what one callable is made of that is right for every call and
fast for those it was told of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from dojoir.errors import ArgumentError, repr_of
from dojoir.ir.kernel import Kernel
from dojoir.ir.size_condition import SizeCondition
from dojoir.passes.engine.trace import Trace
from dojoir.support.frozen import dataclass
from dojoir.support.public import public

MOST = 256
"""How many versions one callable may have."""


@dataclass(frozen=True)
class Version:
    """A trace, and the conditions under which it is taken: all of one line hold. Without lines it is taken
    always."""

    trace: Trace
    when: tuple[tuple[SizeCondition, ...], ...] = ()

    @property
    def kernel(self) -> Kernel:
        return self.trace.kernel

    def fits(self, sizes: Mapping[str, int]) -> bool:
        """Whether it is for such sizes."""
        return not self.when or any(all(one.holds(sizes) for one in line) for line in self.when)

    def __str__(self) -> str:
        lines = " or ".join(", ".join(map(str, line)) for line in self.when)
        return f"{lines or 'otherwise'}: {len(self.trace.moves)} moves"


class Versions:
    """The versions of a kernel: a call takes the first that fits its sizes, and the last fits all.

    `Versions([(trace, "N >= 64, M % 16 == 0"), other])` makes them by hand: traces that start from one kernel,
    each with its condition or several of them, of which one has to hold; the last without.
    `dojoir.schedules.versions(kernel, target)` gives those that are known. `dojoir.compile`,
    `dojoir.write_library` and `dojoir.torch.op` take them."""

    __slots__ = ("__dict__", "versions")

    @public
    def __init__(self, versions: Sequence[Version | Trace | tuple[Trace, str | Sequence[str]]]) -> None:
        """Raises ArgumentError for no version, for traces of different kernels, for a condition that is none or is
        on what is no size, and where no version is left for all other sizes."""
        self.versions = tuple(_version(given) for given in versions)
        if not 1 <= len(self.versions) <= MOST:
            raise ArgumentError(f"a kernel has 1 to {MOST} versions, not {len(self.versions)}", "bad-versions")
        for number, version in enumerate(self.versions):
            if version.trace.start != self.start:
                message = (
                    f"version {number} begins from another kernel ({version.trace.start.name}) than version 0 "
                    f"({self.start.name}): give traces of one kernel"
                )
                raise ArgumentError(message, "bad-versions")
            for condition in (one for line in version.when for one in line):
                if condition.name not in self.start.runtime_sizes:
                    known = ", ".join(self.start.runtime_sizes) or "none"
                    message = f"'{condition}' is on no runtime size of kernel {self.start.name}: they are {known}"
                    raise ArgumentError(message, "bad-versions")
            if not version.when and number + 1 < len(self.versions):
                message = f"version {number} fits all sizes, so those behind it are never taken: put it last"
                raise ArgumentError(message, "bad-versions")
        if self.versions[-1].when:
            message = "no version is for all other sizes: add one without a condition, such as dojoir.Trace(kernel)"
            raise ArgumentError(message, "bad-versions")

    @cached_property
    def start(self) -> Kernel:
        """The kernel that all begin from."""
        return self.versions[0].trace.start

    @property
    def kernel(self) -> Kernel:
        """The kernel of the version for all other sizes."""
        return self.versions[-1].kernel

    @public
    def at(self, **sizes: int) -> Version:
        """The version that a call of such sizes takes."""
        return next(version for version in self.versions if version.fits(sizes))

    def to_json(self) -> dict[str, Any]:
        """Each with its conditions by line and its trace, and whether one of these was made without the checker."""
        versions = [
            {"when": [[str(one) for one in line] for line in version.when], "trace": version.trace.to_json()}
            for version in self.versions
        ]
        return {"unsafe": not all(version.trace.is_safe for version in self.versions), "versions": versions}

    def __str__(self) -> str:
        return "\n".join([self.start.name, *(f"  {version}" for version in self.versions)])

    def __repr__(self) -> str:
        return f"<{len(self.versions)} versions of kernel {self.start.name}>"


def _version(given: object) -> Version:
    match given:
        case Version():
            return given
        case Trace():
            return Version(given)
        case (Trace() as trace, str() as line):
            return Version(trace, (_line(line),))
        case (Trace() as trace, [*lines]) if all(isinstance(line, str) for line in lines):
            return Version(trace, tuple(_line(str(line)) for line in lines))
    message = f"a version is a trace, or a trace with its condition, not {repr_of(given)}"
    raise ArgumentError(message, "bad-versions")


def _line(text: str) -> tuple[SizeCondition, ...]:
    return tuple(SizeCondition.parse(part) for part in text.split(",") if part.strip())
