"""Moves that were made on one kernel, as moves on another, in which the nodes stand elsewhere and the buffers have
other names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_args

from dojoir.ir.nodes import Path, format_path, parse_path
from dojoir.passes.base.move import BufferName, Formula, Move, Place, Quoted

_WORD = re.compile(r"\b[A-Za-z_]\w*")


def translated(
    move: Move, moved: Callable[[Path], Path], names: Mapping[str, str], position: int | None = None
) -> Move:
    """The move with each place as `moved` gives it, and each buffer called as `names` says, in texts as well. The
    places are numbers, no labels. `position` is where it declares a buffer, if it does and that is another."""

    def argument(value: Any, kind: Any) -> Any:
        if kind is Place:
            return Place(format_path(moved(parse_path(value))))
        if kind is BufferName:
            return BufferName(names.get(value, value))
        return kind(with_names(value.text, names)) if kind in (Quoted, Formula) else value

    changed: dict[str, Any] = {}
    for name, kind in move.parameters().items():
        value, each = getattr(move, name), get_args(kind)
        changed[name] = tuple(argument(one, each[0]) for one in value) if each else argument(value, kind)
    if position is not None and "position" in changed:
        changed["position"] = position
    return replace(move, **changed)


def with_names(text: str, names: Mapping[str, str]) -> str:
    """A text with its words called as `names` says."""
    return _WORD.sub(lambda word: names.get(word[0], word[0]), text)
