"""Places in a tree, as paths."""

from __future__ import annotations

from dojoir.errors import ArgumentError

Path = tuple[int, ...]
"""A place in the tree: child indices from the root, `(0, 1)` written `0.1`."""


def is_inside(path: tuple[float, ...], around: Path) -> bool:
    """Whether a path is that of a node or of something inside it; everything is inside the kernel, `()`.
    A child index may be a fraction: a place between two children."""
    return path[: len(around)] == around


def next_sibling(path: Path, by: int = 1) -> Path:
    """The place of what follows in the same scope, or comes `by` nodes later, whether or not anything does."""
    return (*path[:-1], path[-1] + by)


def parse_path(text: str) -> Path:
    """`"0.1.2"` as (0, 1, 2). Raises ArgumentError for anything else."""
    parts = text.split(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        shown = text if len(text) < 80 else f"{text[:79]}…"
        raise ArgumentError(
            f"'{shown}' is not a place: write a path such as 0.1, or a label such as @j", "bad-place"
        )
    return tuple(int(part) for part in parts)


def format_path(path: Path) -> str:
    return ".".join(str(child) for child in path)
