"""What the checker says of a rewrite: legal, illegal with a reason and a witness, or unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dojoir.errors import Diagnostic
from dojoir.ir import Kernel, Path
from dojoir.locate import place


@dataclass(frozen=True)
class Verdict:
    """What the checker says: `status` is legal, illegal or unknown; `diagnostic` says why it is not legal, and
    `hint` names the nearest legal move where one was found. Truth of a verdict is legality."""

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
    def reason(self) -> str:
        """Why, in one sentence, with the witness."""
        return self.diagnostic.message

    def to_json(self) -> dict[str, Any]:
        """The same as plain data: status, hint, and what the diagnostic says: code, message, file, line, column,
        end, notes, `sizes` of the witness, and its `sites`, each with path, text, access and iteration."""
        return {"status": self.status, "hint": self.hint, **self.diagnostic.to_json()}

    def __str__(self) -> str:
        if self:
            return "legal"
        return self.diagnostic.render() + (f"\nhelp: {self.hint}" if self.hint else "")


LEGAL = Verdict("legal", Diagnostic("legal", "the rewrite keeps the meaning of the kernel"))


def refuse(code: str, message: str, kernel: Kernel, path: Path | None = None) -> Verdict:
    """An `illegal` verdict about the node at `path`."""
    if path is None:
        return Verdict("illegal", Diagnostic(code, message))
    source, span = place(kernel, path)
    return Verdict("illegal", Diagnostic(code, message, span, source))
