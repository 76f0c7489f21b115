"""The verdict of the checker on a rewrite: legal, illegal with a reason and a witness, or unknown."""

from __future__ import annotations

from typing import Any

from dojoir.codes import obligation_of
from dojoir.errors import ArgumentError, Diagnostic, DojoError, repr_of
from dojoir.ir.html import message_html
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Verdict:
    """The verdict of the checker: `status` is legal, illegal or unknown; `diagnostic` says why it is not legal,
    and `hint` names the nearest legal move where one was found. Truth of a verdict is legality."""

    status: str
    diagnostic: Diagnostic
    hint: str | None = None

    def __bool__(self) -> bool:
        return self.status == "legal"

    @property
    def code(self) -> str:
        """A stable word for the kind of refusal, `legal` if there is none."""
        return self.diagnostic.code

    @property
    def obligation(self) -> str:
        """The obligation that was not met, `none` if all was: a word of `dojoir.codes.OBLIGATIONS`, which has a
        sentence for each, such as `flow`, `marks`, or `tree` for what a move asks of the tree."""
        return obligation_of(self.code)

    @property
    def reason(self) -> str:
        """Why, in one sentence, with the witness."""
        return self.diagnostic.message

    def to_json(self) -> dict[str, Any]:
        """The same as plain data: status, obligation, hint, and what the diagnostic says: code, message, file,
        line, column, end, notes, `sizes` of the witness, and its `sites`, each with path, text, access and
        iteration."""
        return {
            "status": self.status,
            "obligation": self.obligation,
            "hint": self.hint,
            **self.diagnostic.to_json(),
        }

    def __repr__(self) -> str:
        if self:
            return "<Verdict legal>"
        reason = self.reason if len(self.reason) <= 100 else f"{self.reason[:99]}…"
        return f"<Verdict {self.status}, {self.code}: {reason}>"

    def _repr_html_(self) -> str:
        """The text of the verdict, with a bar that is green for legal, red for illegal, yellow for unknown."""
        colours = {"legal": "#2e9e5b", "illegal": "#d1453b", "unknown": "#c79a00"}
        return message_html(str(self), colours[self.status])

    def __str__(self) -> str:
        if self:
            return "legal"
        return self.diagnostic.render() + (f"\nhelp: {self.hint}" if self.hint else "")


LEGAL = Verdict("legal", Diagnostic("legal", "the rewrite keeps the meaning of the kernel"))


class IllegalMove(DojoError):
    """A move that is not legal here. `verdict` says why, with a witness."""

    def __init__(self, verdict: Verdict) -> None:
        if not isinstance(verdict, Verdict):
            raise ArgumentError(f"a move is refused by a Verdict, not {repr_of(verdict)}", "bad-arguments")
        super().__init__(verdict.diagnostic)
        self.verdict = verdict

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.verdict,))
