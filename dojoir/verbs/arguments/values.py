"""The values of options, each told in words where it is none."""

from __future__ import annotations

import argparse

from dojoir.cli.values import is_size


def shape(text: str) -> tuple[str, tuple[int, ...]]:
    """`NAME=INTEGER`, or several with commas between: one for each shape."""
    name, equals, values = text.partition("=")
    each = values.split(",")
    if not (equals and name.isidentifier() and all(map(is_size, each))):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a size: write NAME=INTEGER, such as N=4096, or N=1024,4096 for two shapes"
        )
    return name, tuple(map(int, each))


def words(text: str) -> tuple[str, ...]:
    """Words with commas between."""
    found = tuple(word.strip() for word in text.split(","))
    if not all(found):
        raise argparse.ArgumentTypeError(f"'{text}' has an empty word")
    return found


def device(text: str) -> str:
    kind, colon, number = text.partition(":")
    if (kind == "cpu" and not colon) or (kind in ("cuda", "hip") and (number.isdigit() or not colon)):
        return text
    raise argparse.ArgumentTypeError(f"'{text}' is not a device: cpu, cuda:NUMBER or hip:NUMBER")


def cost_model(text: str) -> str:
    """`trees`, or where a class is."""
    if text == "trees" or ":" in text:
        return text
    raise argparse.ArgumentTypeError(f"'{text}' is not a cost model: trees, or FILE.py:CLASS")


def factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"'{text}' is not a factor: write a number from 0, such as 1.5")
    return value


def price(text: str) -> float:
    """An amount of money from 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"'{text}' is not an amount of money: a number from 0")
    return value
