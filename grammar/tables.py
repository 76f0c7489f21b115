"""Lark's parsers, the tables of which are kept between processes: to compute them takes longer than to parse."""

from __future__ import annotations

import contextlib
from importlib.resources import files
from typing import Any

from lark import Lark

from dojoir.support.cache_folder import cache_folder


def parser(grammar: str, **options: Any) -> Lark:
    """The LALR parser of `grammar`.lark in this folder, with `options` of Lark.

    Its tables are read from the cache folder if they were made of the same text, options and version of Lark; else,
    and where there is no such folder or the file in it is broken, they are computed, and kept if that is possible.
    """
    text = files(__package__).joinpath(f"{grammar}.lark").read_text(encoding="utf-8")
    folder = cache_folder()
    if folder is None:
        return Lark(text, parser="lalr", **options)
    folder = folder / "grammar"
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Lark(text, parser="lalr", cache=str(folder / f"{grammar}.tables"), **options)
