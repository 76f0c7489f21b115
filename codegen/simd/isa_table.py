"""Instruction sets as data: the dialects of C whose tables say which intrinsic stands for which operation on which
vector. What a table lacks, `simd.rules` makes of other operations, or a helper does lane by lane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from dojoir.codegen.c.dialect import Dialect
from dojoir.codegen.lir.program import Type
from dojoir.codegen.target import Target
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Isa(Dialect):
    """An instruction set. A vector value has at most `most_bits`, its lanes a power of two, at least `least_bits`
    in its widest type (fewer lanes are scalars).

    `active`, if it is not empty, names the operand that tells every operation which lanes are at work, a number
    (`vl`) or a predicate (`pg`), and `active_type` is its type in C; lanes may then be any number. `keeping`,
    there, is a suffix of the names that begin with `prefix`, for operations that take first what the other lanes
    keep. `mask_bits` says that a mask is one bit a lane in a type of its own; else it is a vector of integers.
    `gathers` says that strided and gathered accesses use vectors of i64 offsets.

    `options` is what GCC and Clang need to be told, `cross_options` a Clang on another machine; `features` is what
    the processor must have, by LLVM's names. `emulator_options` are those of QEMU's user emulator, with `{bits}`
    and `{bytes}` for the length of a register, which may be one of `lengths` (none: it has one length). `helpers`
    are functions that the spellings call."""

    target: Target
    most_bits: int
    least_bits: int
    header: str
    options: tuple[str, ...]
    architecture: str
    features: frozenset[str] = frozenset()
    cross_options: tuple[str, ...] = ()
    emulator_options: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()
    active: str = ""
    active_type: str = "size_t"
    prefix: str = ""
    keeping: str = ""
    mask_bits: bool = False
    gathers: bool = False
    helpers: Mapping[str, str] = field(default_factory=dict)

    def takes(self, type: Type) -> bool:
        return type.lanes > 1

    def label(self, type: Type) -> str:
        """The type in the names of functions: f32x16, or what the set says, as f32m4 for a group of registers."""
        return self.words(type).get("label", str(type))

    def widths(self, type: Type) -> set[str]:
        lanes = 1 << (type.lanes - 1).bit_length() if self.active else type.lanes
        used = lanes * type.dtype.bits
        return {f"{max(self.least_bits, used)}", f"{used}", f"={used}"}

    def of_source(self, type: Type, source: Type) -> Mapping[str, str]:
        wider = max(type, source, key=lambda each: max(self.least_bits, each.lanes * each.dtype.bits))
        return {**super().of_source(type, source), "wide": self.words(wider).get("mm", "")}
