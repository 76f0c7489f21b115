"""Masked stores that LLVM gets wrong, written in another way.

On processors with AVX-512, LLVM (seen in 22) makes one instruction of a vector of narrowed integers and its
masked store. Where the mask is a constant with a single lane, it then makes a scalar store of that, and forgets
that it narrows. It writes the wide integer, over the element and what lies behind it. So such a store is made a
scalar one before, of the element that is taken out of the narrow vector.
"""

from __future__ import annotations

import re

_STORE = re.compile(
    r"""^(?P<indent>\s*)(?:tail\s)?call\ void\ @llvm\.masked\.store\.[\w.]+\(
    (?P<vector><\d+\ x\ (?P<element>i\d+)>)\ (?P<value>%[^\s,]+),\ ptr\ (?P<attributes>(?:[a-z]\S*\ |\d+\ )*)
    (?P<place>[%@][^\s,]+),
    \ (?:i32\ (?P<align>\d+),\ )?<\d+\ x\ i1>\ <(?P<mask>[^>]*)>\).*$""",
    re.MULTILINE | re.VERBOSE,
)


def with_single_lanes_apart(text: str) -> str:
    """The text of a module with a scalar store for each masked one of a single lane of integers; the very text
    where there is none."""
    if "@llvm.masked.store." not in text:
        return text
    count = 0

    def scalar(found: re.Match[str]) -> str:
        nonlocal count
        lanes = [lane.strip() == "i1 true" for lane in found["mask"].split(",")]
        if sum(lanes) != 1:
            return found[0]
        count += 1
        said = re.search(r"align (\d+)", found["attributes"])
        name, align = f"%single.lane.{count}", said[1] if said else found["align"] or "1"
        lane = lanes.index(True)
        indent, element = found["indent"], found["element"]
        align = str(min(int(align), max(1, int(element[1:]) // 8)))  # the lane may lie behind what is aligned
        return (
            f"{indent}{name} = extractelement {found['vector']} {found['value']}, i64 {lane}\n"
            f"{indent}{name}.at = getelementptr {element}, ptr {found['place']}, i64 {lane}\n"
            f"{indent}store {element} {name}, ptr {name}.at, align {align}"
        )

    return _STORE.sub(scalar, text)
