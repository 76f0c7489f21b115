"""The order in which a vector of several registers is stored: as LLVM IR says it, and as LLVM then has it."""

from __future__ import annotations

import re

import dojoir

ADDED = """kernel added(N)
in  x: f32[N]
out y: f32[N]

N : v @i
| y[{i}] = x[{i}] + 1
"""


def test_registers_are_stored_one_after_the_other() -> None:
    text = dojoir.emit(dojoir.parse(ADDED), "llvm", cpu="znver4")
    assert set(re.findall(r"store <(\d+) x float>", text)) == {"16"}
    stored = re.findall(r"store <16 x float> %\S+, ptr (%\S+),", text)
    assert f"getelementptr inbounds float, ptr {stored[0]}, i64 16" in text


def test_machine_code_goes_up_in_memory_too() -> None:
    """Of one vector of two registers, LLVM stored the second before the first."""
    assembly = dojoir.emit(dojoir.parse(ADDED), "asm", cpu="znver4")
    pairs = re.findall(r"vmovups\s+%zmm\d+, (\d*)\([^)]*\)\n\s+vmovups\s+%zmm\d+, (\d*)\(", assembly)
    assert pairs and all(int(first or 0) < int(second or 0) for first, second in pairs)
