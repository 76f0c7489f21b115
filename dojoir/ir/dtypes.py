"""The element types: how each is stored, and the type in which arithmetic on it is done."""

from __future__ import annotations

from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class DType:
    """An element type. `kind` is `f` (float), `i` (signed), `u` (unsigned) or `b` (bool)."""

    name: str
    kind: str
    bits: int

    @property
    def itemsize(self) -> int:
        """Bytes that one element takes in memory (one of 4 bits takes a whole byte)."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def compute(self) -> DType:
        """The type in which arithmetic is done: f32 for narrower floats, i8 and u8 for i4 and u4, the type itself
        otherwise."""
        if self.is_float:
            return DTYPES["f32"] if self.bits < 32 else self
        return DTYPES[f"{self.kind}8"] if self.is_nibble else self

    @property
    def is_nibble(self) -> bool:
        """Whether it is an integer of 4 bits, which is only stored and converted to."""
        return self.is_integer and self.bits == 4

    @property
    def stored(self) -> str:
        """The NumPy type of an array of it. The floats that NumPy does not know are held as their bits, in an
        unsigned integer each (f4e2m1 in the low half of a byte). Integers of 4 bits are held in 8."""
        match self.kind:
            case "f" if self.bits < 16 or self.name == "bf16":
                return f"uint{8 * self.itemsize}"
            case "b":
                return "bool"
            case kind:
                return {"f": "float", "i": "int", "u": "uint"}[kind] + str(max(8, self.bits))

    @property
    def accepted(self) -> tuple[str, ...]:
        """The names of the types that an array of it may have: NumPy's, and that of ml_dtypes where it has one."""
        own = _ML_DTYPES.get(self.name)
        return (self.stored,) if own is None else (self.stored, own)

    def __str__(self) -> str:
        return self.name


_ML_DTYPES = {
    "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "f4e2m1": "float4_e2m1fn",
    "f8e8m0": "float8_e8m0fnu",
    "i4": "int4",
    "u4": "uint4",
}

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
        DType("f8e8m0", "f", 8),
        DType("i64", "i", 64),
        DType("i32", "i", 32),
        DType("i16", "i", 16),
        DType("i8", "i", 8),
        DType("i4", "i", 4),
        DType("u64", "u", 64),
        DType("u32", "u", 32),
        DType("u16", "u", 16),
        DType("u8", "u", 8),
        DType("u4", "u", 4),
        DType("bool", "b", 8),
    )
}

_NAMED = "f64", "f32", "bf16", "f16", "i64", "i32", "i16", "i8", "u8", "bool"
F64, F32, BF16, F16, I64, I32, I16, I8, U8, BOOL = (DTYPES[name] for name in _NAMED)
