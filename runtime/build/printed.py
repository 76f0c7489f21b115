"""The lowered and printed form of a kernel; where this dojoir has made it before, a new process needs no
lowering."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dojoir.codegen.lir.outcome import FAULTS, Check
from dojoir.ir.nodes import Kernel
from dojoir.ir.stored import whole_text
from dojoir.support.frozen import dataclass
from dojoir.support.shelf import keep, shelf_key, taken

if TYPE_CHECKING:
    from dojoir.codegen.lir.program import Program


@dataclass(frozen=True)
class PrintedSource:
    """The source of a kernel, the name of the program in it, and what runtime checks look at, by their numbers."""

    text: str
    name: str
    checks: tuple[Check, ...]


def printed(
    kernel: Kernel, target: str, machine: tuple[str, ...], make: Callable[[], tuple[Program, str]]
) -> PrintedSource:
    """The output of `make` for a kernel that is proved: the program, and its source for `target`. `machine` says
    all that it depends on besides these two. Raises what `make` raises."""
    key = shelf_key("source", target, *machine, "of", whole_text(kernel))
    data = taken(key)
    found = None if data is None else _printed_in(data)
    if found is None:
        program, text = make()
        found = PrintedSource(text, program.name, program.checks)
        checks = [[check.text, check.path, check.fault] for check in found.checks]
        keep(key, json.dumps([found.text, found.name, checks]).encode())
    return found


def _printed_in(data: bytes) -> PrintedSource | None:
    try:
        held: Any = json.loads(data)
        text, name, checks = held
        looked_at = (Check(str(what), tuple(path), FAULTS[FAULTS.index(fault)]) for what, path, fault in checks)
        return PrintedSource(str(text), str(name), tuple(looked_at))
    except (ValueError, TypeError):
        return None
