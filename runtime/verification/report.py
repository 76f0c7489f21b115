"""The result of verifying a kernel: the cases that were run, and whether they decide anything."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from dojoir.errors import RunError
from dojoir.runtime.verification.compare import CodeCounts, Loose, Worst
from dojoir.runtime.verification.inputs import NONFINITE
from dojoir.support.frozen import dataclass

UNEVEN = ("wide", "special", "integers", NONFINITE)
"""Distributions whose numbers are so uneven that rounding errors are a large part of some result."""

MOST_UNCHECKED = 0.1
"""The largest share of the elements of a distribution that may go uncompared in a result that is `ok`."""

MOST_LEFT_OUT = 0.01
"""The largest share of the codes of an output that may be left out of the comparison, in all cases together."""


@dataclass(frozen=True)
class Case:
    """One input, run with its arrays against the guard page behind them and against the one in front. `problem`
    says what was wrong, None if nothing. `worst` is the element nearest to (or beyond) what is allowed. `reach` is
    that of inputs drawn within 2**-reach to 2**reach, if they were drawn nearer than usual. `loose` is the output
    with the largest relative error bound, if that is more than a user would expect. `counted` says how codes were
    compared."""

    sizes: Mapping[str, int]
    seed: int
    distribution: str
    problem: str | None
    worst: Worst | None
    unchecked: int
    elements: int
    reach: float | None = None
    loose: Loose | None = None
    counted: tuple[CodeCounts, ...] = ()

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        within = "" if self.reach is None else f" within 2**±{self.reach:g}"
        return f"{sizes or 'no sizes'}, {self.distribution} inputs{within}, seed {self.seed}"


@dataclass(frozen=True)
class Report:
    """The result of verifying a kernel. `reason` says why it failed (the first problem), None if nothing went
    wrong. `reference` says what its results were compared with, if it gave any. `not_run` cases came after a crash
    or at the time limit. `warnings` are of the text: what is right at these sizes and not at larger ones."""

    kernel: str
    target: str
    reference: str
    cases: tuple[Case, ...]
    reason: str | None
    not_run: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """`failed`; `undecided`, where above a tenth of the elements of a distribution were not compared; `ok`."""
        if self.reason is not None:
            return "failed"
        return "undecided" if self.undecided else "ok"

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def unchecked(self) -> Mapping[str, float]:
        """The share of the elements of each distribution that was not compared, since rounding alone may change
        them to anything."""
        counts: dict[str, tuple[int, int]] = {}
        for case in self.cases:
            unchecked, elements = counts.get(case.distribution, (0, 0))
            counts[case.distribution] = unchecked + case.unchecked, elements + case.elements
        return {name: unchecked / max(elements, 1) for name, (unchecked, elements) in counts.items()}

    @property
    def compared(self) -> CodeCounts:
        """How all outputs were compared of which codes, or bits, were."""
        found = [one for case in self.cases for one in case.counted]
        exact, near, left_out = (sum(getattr(one, part) for one in found) for part in ("exact", "near", "left_out"))
        return CodeCounts("", exact, near, left_out, any(one.must for one in found))

    @property
    def undecided(self) -> tuple[str, ...]:
        """The distributions of which too few elements were compared."""
        return tuple(name for name, share in self.unchecked.items() if share > MOST_UNCHECKED)

    @property
    def worst(self) -> Worst | None:
        """Of all cases, the element off by the largest share of what is allowed."""
        found = [case.worst for case in self.cases if case.worst is not None]
        return max(found, key=lambda worst: worst.share, default=None)

    @property
    def loose(self) -> Case | None:
        """The case of the output with the largest relative error bound, if that is more than half of its
        digits."""
        found = [case for case in self.cases if case.loose is not None and case.distribution not in UNEVEN]
        return max(found, key=lambda case: case.loose.share if case.loose is not None else 0, default=None)

    @property
    def worst_ulps(self) -> float:
        """The error of that element in units in the last place."""
        return 0.0 if self.worst is None else self.worst.ulps

    def _repr_html_(self) -> str:
        """The text of the report, with a bar that is green for ok, red for failed, yellow for undecided."""
        from dojoir.ir.html import message_html

        colours = {"ok": "#2e9e5b", "failed": "#d1453b", "undecided": "#c79a00"}
        return message_html(str(self), colours[self.status])

    def __str__(self) -> str:
        elements = sum(case.elements for case in self.cases)
        head = f"{self.kernel} on {self.target}: {self.status if self.ok else self.status.upper()}"
        against = f", against {self.reference}" if self.reference else ""
        lines = [f"{head}, {len(self.cases)} cases, {elements} elements{against}"]
        if self.reason is not None:
            lines.append(f"  {self.reason}")
        if self.worst is not None and self.reason is None and self.worst.allowed > 0:
            share = f"{self.worst.share:.0%} of the error bound"
            lines.append(f"  worst: {self.worst}, {share}")
        if self.loose is not None and self.reason is None:
            advice = (
                "" if self.loose.loose is None or self.loose.loose.dtype == "f64" else ": a wider type is nearer"
            )
            lines.append(f"  {self.loose.loose}, at {self.loose}{advice}")
        compared = self.compared
        if (compared.exact or compared.near or compared.left_out) and self.reason is None:
            left_out = f", {compared.left_out} left out" if compared.must else ""
            near = f", {compared.near} within a step of a tie" if compared.must else ""
            lines.append(f"  {compared.exact} elements compared to the bit{near}{left_out}")
        shares = ", ".join(f"{_percent(share)} of {name}" for name, share in self.unchecked.items() if share)
        if shares and self.reason is None:
            lines.append(f"  not compared, since rounding alone may change them to anything: {shares}")
        if self.status == "undecided":
            little = "nothing could be compared" if min(self.unchecked.values()) == 1 else "too little to decide"
            lines.append(f"  {little}: give inputs that rounding changes little (inputs=, --inputs)")
        if self.not_run:
            lines.append(f"  {self.not_run} cases were not run")
        lines += [f"  warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def raise_if_failed(self) -> None:
        """Raises RunError with this report where the kernel failed, or too little of it was compared."""
        if self.status == "undecided":
            raise RunError(str(self), "undecided")
        if not self.ok:
            hung = self.reason is not None and self.reason.startswith("it hung")
            raise RunError(str(self), "time-limit" if hung else "verification-failed")


def too_many_left_out(counted: Iterable[CodeCounts], allowed: Container[str]) -> str | None:
    """The error where too few codes of an output could be compared, in all cases together, but for those
    `allowed`; None if nothing is."""
    counts: dict[str, tuple[int, int]] = {}
    for one in counted:
        if one.must and one.argument not in allowed:
            left_out, elements = counts.get(one.argument, (0, 0))
            counts[one.argument] = left_out + one.left_out, elements + one.exact + one.near + one.left_out
    for name, (left_out, elements) in counts.items():
        if left_out > MOST_LEFT_OUT * elements:
            return (
                f"{left_out} of {elements} codes of {name} could not be compared, since rounding may change them "
                f"by more than a step: give other inputs (inputs=), or allow it (left_out=('{name}',))"
            )
    return None


def _percent(share: float) -> str:
    """A share in percent; one above 0 is never shown as 0."""
    return f"{share:.0%}" if share >= 0.01 else "under 1%"
