"""Lark's parsers from tables that were made before: to compute them takes longer than to parse.

Tables come with an installed dojoir (setup.py makes them when it is built) and are kept in the cache folder where
they do not. Those of another grammar, other options, another Lark or another Python count as absent, and broken
ones too.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

from dojoir.support.cache_folder import cache_folder
from dojoir.support.files import write_file

NEW_EACH_TIME = ("transformer", "postlex")
"""Options that are objects of a process: tables do not hold them."""


def parser(grammar: str, **options: Any) -> Lark:
    """The LALR parser of `grammar`.lark in this folder, with `options` of Lark."""
    text = files(__package__).joinpath(f"{grammar}.lark").read_text(encoding="utf-8")
    key = _key(text, options)
    for content in _kept(f"{grammar}.tables"):
        found = _loaded(content, key, options)
        if found is not None:
            return found
    made = Lark(text, parser="lalr", **options)
    folder = _folder()
    if folder is not None:
        with suppress(Exception):  # a folder that cannot be written, or a Lark that lays its tables out otherwise
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(folder / f"{grammar}.tables", _packed(made, key), mode=0o600)
    return made


def _key(text: str, options: dict[str, Any]) -> bytes:
    """Everything that tables follow from, as a word."""
    plain = sorted((name, value) for name, value in options.items() if name not in NEW_EACH_TIME)
    parts = (text, plain, lark.__version__, sys.version_info[:2])
    return hashlib.sha256(repr(parts).encode()).hexdigest().encode()


def _folder() -> Path | None:
    cache = cache_folder()
    return None if cache is None else cache / "grammar"


def _kept(name: str) -> Iterator[bytes]:
    """The contents stored under a name: in the package, in the cache folder."""
    folder = _folder()
    for place in (files(__package__), folder):
        with suppress(OSError):
            if place is not None:
                yield place.joinpath(name).read_bytes()


def _packed(made: Lark, key: bytes) -> bytes:
    """The tables of a parser as they are kept: the key, a checksum and the data, as Lark's own standalone parsers
    have them."""
    data, memo = made.memo_serialize([TerminalDef, Rule])
    data["options"] = {name: value for name, value in data["options"].items() if name not in NEW_EACH_TIME}
    content = pickle.dumps((data, memo))
    return b"\n".join((key, hashlib.sha256(content).hexdigest().encode(), content))


def _loaded(content: bytes, key: bytes, options: dict[str, Any]) -> Lark | None:
    """The parser of what `_packed` gave under this key."""
    if not content.startswith(key + b"\n"):
        return None
    checksum, _, data = content[len(key) + 1 :].partition(b"\n")
    if checksum != hashlib.sha256(data).hexdigest().encode():
        return None
    with suppress(Exception):  # tables of a Lark that says that it is this one
        objects = {name: value for name, value in options.items() if name in NEW_EACH_TIME}
        reader: Any = Lark
        made: Lark = reader._load_from_dict(*pickle.loads(data), **objects)
        return made
    return None
