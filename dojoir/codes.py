"""The meaning of each code of an error, a refusal or a verdict: one table, `codes.toml`, an entry for each.

A code is stable: programs may depend on it. `of` says what an error is about. Of a verdict it is the obligation
that failed: one that the checker proves (`PROVED`), or one that a move has before that (`ASKED`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

from dojoir.support.frozen import dataclass

PROVED = {
    "declarations": "the header and the arguments stay as they are",
    "instances": "the new statement instances stand for the old ones, and no accumulation counts twice",
    "operations": "each does the same operation on the same types",
    "flow": "every read, and every returned element, gets its value from the same writes",
    "bounds": "no access leaves its buffer, and every dimension has an element",
    "writes": "nothing is read before it is written, and all of an output is written",
    "storage": "a buffer fits where it lives",
    "marks": "scopes that a mark takes out of order can have it, and their iterations are independent",
    "hints": "a hint says something that is true of its scope",
    "rules": "what a rule of algebra replaces is its left side and nothing else",
    "fp": "rounding changes only where the kernel allows it",
    "fails": "a run ends in an error only where it did",
    "touches": "no element of an inout argument is read or written that was left alone",
    "budget": "an answer is found within the steps that a question may take",
}
"""The obligations that the checker proves of a rewrite, each with its meaning."""

ASKED = {
    "place": "the places that a move names are there",
    "parameters": "the arguments of a move mean something at its place",
    "tree": "the tree has the form that a move rewrites",
    "types": "types fit",
}
"""The preconditions of a move on a kernel."""

ELSEWHERE = {
    "text": "a text can be read",
    "chain": "kernels that are put together agree",
    "call": "the arguments of a call fit",
    "files": "a file can be read or written and is what it should be",
    "tools": "compilers, emulators and processors are there",
    "run": "a run comes to its end",
    "dojoir": "dojoir has no bug",
    "none": "nothing failed",
}
"""The subjects of the other errors."""

OBLIGATIONS: Mapping[str, str] = PROVED | ASKED | ELSEWHERE


@dataclass(frozen=True)
class CodeEntry:
    """A code: what it is `of` (a word of OBLIGATIONS), what it means, an example that raises it, and the cure.
    `kept` is one that nothing raises any more: it stands here for texts that hold it."""

    of: str
    meaning: str
    example: str
    cure: str
    kept: bool = False


@cache
def _table() -> dict[str, CodeEntry]:
    data = tomllib.loads(files("dojoir").joinpath("codes.toml").read_text(encoding="utf-8"))
    return {code: CodeEntry(**entry) for code, entry in data.items()}


class _Codes(Mapping[str, CodeEntry]):
    """The table, read when it is first asked."""

    def __getitem__(self, code: str) -> CodeEntry:
        return _table()[code]

    def __iter__(self) -> Iterator[str]:
        return iter(_table())

    def __len__(self) -> int:
        return len(_table())


CODES: Mapping[str, CodeEntry] = _Codes()


def obligation_of(code: str) -> str:
    """The subject of an error with this code; `dojoir` for a code that is not in the table."""
    found = CODES.get(code)
    return found.of if found is not None else "dojoir"
