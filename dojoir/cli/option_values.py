"""The values of options that `dojoir-opt` and `dojoir` share, each told in words where it is none."""

from __future__ import annotations

import argparse

LONGEST = 19
"""How many digits a size has at most."""


def size(text: str) -> tuple[str, int]:
    """`NAME=INTEGER`."""
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier() and is_size(value)):
        cure = "write NAME=INTEGER, such as N=4096"
        if "," in text:
            cure = f"give one each: {' '.join(f'-s {one.strip()}' for one in text.split(','))}"
        elif value.lstrip("-").isdigit():
            cure = f"write NAME=INTEGER, {'of at least 1' if int(value) < 1 else 'below 2^63'}, such as N=4096"
        raise argparse.ArgumentTypeError(f"'{text}' is not a size: {cure}")
    return name, int(value)


def is_size(text: str) -> bool:
    """Whether a text is a size that a kernel may have: an integer of at least 1, below 2^63."""
    return text.isascii() and text.isdigit() and len(text) <= LONGEST and 1 <= int(text) < 1 << 63


def positive(text: str) -> int:
    """An integer of at least 1, of 9 digits at most."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"'{text}' is not an integer of at least 1")
    return int(text)


def seed(text: str) -> int:
    """A seed of random numbers: an integer from 0, of 18 digits at most."""
    if not (text.isascii() and text.isdigit() and len(text) < LONGEST):
        raise argparse.ArgumentTypeError(f"'{text}' is not a seed: write an integer from 0, of 18 digits at most")
    return int(text)


def seconds(text: str) -> float:
    """A number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds above 0")
    return value


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
    """`estimate`, `none`, or where a class is."""
    if text in ("estimate", "none") or ":" in text:
        return text
    raise argparse.ArgumentTypeError(f"'{text}' is not a cost model: estimate, none, or FILE.py:CLASS")


def from_zero(text: str) -> float:
    """A number from 0: a factor, an amount of money."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0, such as 1.5")
    return value
