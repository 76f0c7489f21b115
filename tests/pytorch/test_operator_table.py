"""The operator table of the importer at special values: a share of it, and all of it where DOJOIR_ALL_OPERATORS is
set (`python tests/helpers/operator_table.py` prints it)."""

from __future__ import annotations

import os
import zlib
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")
import operator_table  # noqa: E402
from operator_table import ROWS, TYPES  # noqa: E402

from dojoir.torch.importer import elementwise  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

ALL = bool(os.environ.get("DOJOIR_ALL_OPERATORS"))
ALWAYS = {
    *((name, "f32") for name in ("erfc", "sinh", "asinh", "acosh", "copysign", "signbit", "sign")),
    ("atan2", "f32"), ("hypot", "f32"),
    *((name, kind) for name in ("fmod", "remainder", "floor_divide", "div_trunc") for kind in ("f32", "i8")),
    ("remainder_inf", "f64"), ("floor_divide_0.1", "f64"), ("acos", "f16"), ("cosh", "bf16"), ("sign", "u8"),
    *((f"{name}_0.1", kind) for name in ("fmod", "remainder", "eq", "lt") for kind in ("bf16", "f16")),
    ("maximum", "bool"), ("pow_-2", "f32"), ("div_trunc", "i64"), ("fmod_3", "i16"),
}  # fmt: skip
"""What once was wrong."""


def _is_drawn(row: str, kind: str) -> bool:
    return ALL or (row, kind) in ALWAYS or zlib.crc32(f"{row} {kind}".encode()) % 40 == 0


CASES = [(row, kind) for row in ROWS for kind in TYPES if kind in ROWS[row].types and _is_drawn(row, kind)]


@pytest.mark.parametrize(("row", "kind"), CASES)
def test_a_row_is_right_at_special_values(row: str, kind: str) -> None:
    found = operator_table.held(ROWS[row], kind, 20_000 if ALL else 500)
    assert found is not None or (row, kind) not in ALWAYS
    assert found is None or not found.wrong, str(found)


GRADIENTS = [row for row in ROWS if ALL or row in ("hypot", "tanh") or zlib.crc32(f"{row}'".encode()) % 20 == 0]


@pytest.mark.parametrize("row", [row for row in GRADIENTS if ROWS[row].has_gradient and "f32" in ROWS[row].types])
def test_the_gradients_of_a_row_are_as_right_as_those_of_pytorch(row: str) -> None:
    found = operator_table.gradients(ROWS[row])
    assert found is None or not found.wrong, str(found)


MADE = {
    "add", "sub", "rsub", "mul", "div", "pow", "clamp_min", "clamp_max", "hardtanh", "gelu", "silu", "mish",
    "masked_fill", "where", "_to_copy", "convert_element_type", "to", "full", "full_like", "fill", "zeros",
    "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "empty_strided", "new_empty_strided",
    "new_empty", "empty", "empty_like", "new_full", "arange", "iota", "scalar_tensor", "copy", "alias",
    "lift_fresh_copy", "lift_fresh", "lift", "rsqrt", "clone", "detach",
}  # fmt: skip
"""The operators that a row of another name holds, are made of numbers alone, or of others that have rows."""


def test_every_operator_of_elements_has_a_row() -> None:
    names = {str(op).split(".")[1] for op in elementwise.TABLE}
    assert names - MADE <= {row.partition("_")[0] for row in ROWS} | set(ROWS)
