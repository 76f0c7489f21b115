"""How a call ends: with results, or with an error of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from able import can_run
from agreement import agree
from numpy.typing import NDArray

import dojoir
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Kernel, Op
from dojoir.runtime.gpu.targets import through_harness
from dojoir.types.in_bytes import in_bytes

Arrays = Mapping[str, NDArray]

CODES = {"floordiv": "division-by-zero", "mod": "division-by-zero",
         "shl": "shift-out-of-range", "shr": "shift-out-of-range"}  # fmt: skip
"""The errors of a run that are made by operations; the third is `index-out-of-range`."""

REFUSED = {"not-distinct", "length-out-of-range"}
"""The errors of a call whose data break what is declared of them."""


@dataclass(frozen=True)
class Ending:
    """The results of a call, or the code of the error that it ended with, or was refused with."""

    code: str = ""
    results: Arrays = field(default_factory=dict)


def ending(call: Callable[..., Arrays], *given: object, **sizes: int) -> Ending:
    """How a call ends. Other errors than those of data are raised."""
    try:
        return Ending(results=call(*given, **sizes))
    except dojoir.ArgumentError as error:
        if error.diagnostic.code not in REFUSED:
            raise
        return Ending(error.diagnostic.code)
    except dojoir.RunError as error:
        code = error.diagnostic.code
        if code not in {*CODES.values(), "index-out-of-range"}:
            raise
        return Ending(code)


def compiled(kernel: Kernel, target: str) -> Callable[..., Arrays]:
    """A call of the kernel on a target, on the harness if that is a GPU."""
    if target in ("cuda", "hip"):
        return through_harness(in_bytes(kernel), target).run
    assert can_run(target)
    return dojoir.compile(kernel, target=target, threads=2).run


def possible(kernel: Kernel) -> set[str]:
    """The errors in which calls of a kernel can end."""
    found = set()
    for site in kernel.sites:
        for part in parts(site.statement.value):
            if isinstance(part, Op) and part.name in CODES:
                found.add(CODES[part.name])
        if any(isinstance(i, Access) for access in site.statement.accesses for i in access.indices):
            found.add("index-out-of-range")
    return found


def unlike(kernel: Kernel, text: Ending, found: Ending, exact: bool, may_end_well: bool = False) -> str | None:
    """How an ending differs from that of the text beyond what is right, or None. Of several errors any may come.
    What a move leaves `may_end_well` where the text does not: it may take away what nobody uses."""
    if {text.code, found.code} & REFUSED:  # before anything runs, by whatever is left of the text
        return (
            None
            if text.code == found.code
            else f"{found.code or 'results'}, and {text.code or 'results'} in the text"
        )
    if text.code:
        if not found.code:
            return None if may_end_well else f"results, and {text.code} in the text"
        return None if found.code in possible(kernel) else f"{found.code}, which the text has not"
    if found.code:
        return f"{found.code}, and results in the text"
    return agree(kernel, text.results, found.results, exact)
