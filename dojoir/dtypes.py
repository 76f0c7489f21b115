"""The element types: how each is stored, and the type in which arithmetic on it is done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DType:
    """An element type. `kind` is `f` (float), `i` (signed), `u` (unsigned) or `b` (bool)."""

    name: str
    kind: str
    bits: int

    @property
    def itemsize(self) -> int:
        """Bytes that one element takes in memory (f4e2m1 takes a whole byte)."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def compute(self) -> DType:
        """The type in which arithmetic is done: f32 for narrower floats, the type itself otherwise."""
        return DTYPES["f32"] if self.is_float and self.bits < 32 else self

    def __str__(self) -> str:
        return self.name


DTYPES: dict[str, DType] = {
    t.name: t
    for t in (
        DType("f64", "f", 64),
        DType("f32", "f", 32),
        DType("f16", "f", 16),
        DType("bf16", "f", 16),
        DType("f8e4m3", "f", 8),
        DType("f8e5m2", "f", 8),
        DType("f4e2m1", "f", 4),
        DType("i64", "i", 64),
        DType("i32", "i", 32),
        DType("i16", "i", 16),
        DType("i8", "i", 8),
        DType("u64", "u", 64),
        DType("u32", "u", 32),
        DType("u16", "u", 16),
        DType("u8", "u", 8),
        DType("bool", "b", 8),
    )
}

F64, F32, I64, BOOL = DTYPES["f64"], DTYPES["f32"], DTYPES["i64"], DTYPES["bool"]
