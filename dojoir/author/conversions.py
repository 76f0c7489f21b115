"""Conversions of values to element types, for the builder: a cast, those by name, and keys of pairs."""

from __future__ import annotations

from dojoir.author.expressions import Number, Value, as_value
from dojoir.errors import ArgumentError, did_you_mean, repr_of
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.nodes import Cast


def cast(dtype: str, x: Number) -> Value:
    """`x` rounded or converted to an element type, such as "f16"."""
    return _cast(dtype, x)


def _cast(dtype: str, x: Number, way: str = "cast") -> Value:
    if not isinstance(dtype, str):
        raise ArgumentError(f"an element type is a text such as 'f16', not {repr_of(dtype)}", "unknown-dtype")
    if dtype not in DTYPES:
        raise ArgumentError(f"there is no element type '{dtype}'{did_you_mean(dtype, DTYPES)}", "unknown-dtype")
    value = as_value(x)
    return Value(Cast(DTYPES[dtype], value.expr, way=way), value.scopes)


def sat(dtype: str, x: Number) -> Value:
    """`x` as the nearest number of an element type that is finite."""
    return _cast(dtype, x, "sat")


def round_away(dtype: str, x: Number) -> Value:
    """`x` rounded to an element type, ties away from 0."""
    return _cast(dtype, x, "round_away")


def round_to_zero(dtype: str, x: Number) -> Value:
    """`x` rounded to an element type, towards 0."""
    return _cast(dtype, x, "round_to_zero")


def bitcast(dtype: str, x: Number) -> Value:
    """The bits of `x` as those of an element type of the same width."""
    return _cast(dtype, x, "bitcast")


def value_of(dtype: str, key: Number) -> Value:
    """The value in the key of a pair, in the element type of the pairs."""
    return _cast(dtype, key, "value_of")


def argmax_of(dtype: str, key: Number) -> Value:
    """The place in a key that `argmax_key` made, as an integer type."""
    return _cast(dtype, key, "argmax_of")


def argmin_of(dtype: str, key: Number) -> Value:
    """The place in a key that `argmin_key` made, as an integer type."""
    return _cast(dtype, key, "argmin_of")
