"""Questions about source files: each is parsed once a run, and asked all, by the worker that comes first.

A question is a function of a `Source`, in a module of QUESTIONERS; with `@asked` it is one of a path. Its answer
is kept by the text of the file and of the questions, so it has to be a plain value that follows from these.
"""

from __future__ import annotations

import ast
import os
import pickle
from collections import defaultdict
from collections.abc import Callable
from functools import cache, cached_property
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from folders import HELPERS, ROOT

from dojoir.support.cache import Cache, content_key

QUESTIONERS = ("habits", "prose", "raised", "rooms", "styled")
BATCH = 32
"""How many files are asked before the answers are kept."""

PRODUCT = ("dojoir", "grammar", "passes", "codegen", "runtime")

Node = TypeVar("Node", bound=ast.AST)
Answer = TypeVar("Answer")


class Source:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @cached_property
    def _nodes(self) -> dict[type[ast.AST], list[Any]]:
        found = defaultdict(list)
        for node in ast.walk(self.tree):
            found[type(node)].append(node)
        return found

    def all(self, kind: type[Node]) -> list[Node]:
        """The nodes of a kind, in the order of `ast.walk`."""
        return self._nodes.get(kind, [])

    def with_bodies(self) -> list[Any]:
        """The nodes that hold statements."""
        return [node for nodes in self._nodes.values() if "body" in nodes[0]._fields for node in nodes]


_QUESTIONS: dict[str, tuple[str, Callable[[Source], Any]]] = {}
_answers: dict[Path, dict[str, Any]] = {}


def asked(about: str = "") -> Callable[[Callable[[Source], Answer]], Callable[[Path], Answer]]:
    """Makes a function of a source a question: about the files of a folder, or about those of the product."""

    def made(question: Callable[[Source], Answer]) -> Callable[[Path], Answer]:
        name = question.__name__
        _QUESTIONS[name] = (about, question)

        def answer(path: Path) -> Answer:
            room = _room(path)
            if room != about:  # this file alone
                return question(Source(path))
            if path not in _answers:
                for some in _batches(room):
                    _answers.update(_answers_of(some, room))
            found: Answer = _answers[path][name]
            return found

        return answer

    return made


def _room(path: Path) -> str | None:
    """The folder that a file is in; none for the product's, which are asked together."""
    if not path.is_relative_to(ROOT):
        return None
    top = path.relative_to(ROOT).parts[0]
    return "" if top in PRODUCT else top


def _batches(room: str) -> list[list[Path]]:
    """The files that are asked together, some at a time; one of two workers begins at the end."""
    files = sorted(path for top in ([room] if room else PRODUCT) for path in (ROOT / top).rglob("*.py"))
    found = [files[start : start + BATCH] for start in range(0, len(files), BATCH)]
    return found[::-1] if os.environ.get("PYTEST_XDIST_WORKER", "gw0")[-1] in "13579" else found


def _answers_of(paths: list[Path], room: str) -> dict[Path, dict[str, Any]]:
    version = _version()
    questions = {name: question for name, (about, question) in _QUESTIONS.items() if about == room}
    sources = [Source(path) for path in paths]
    key = content_key("asked", version, *(word for one in sources for word in (str(one.path), one.text)))
    kept = Cache.default().get(key)
    if kept is None:
        found = [{name: question(source) for name, question in questions.items()} for source in sources]
        kept = pickle.dumps(found)
        Cache.default().put(key, kept)
    return dict(zip(paths, pickle.loads(kept), strict=True))


@cache
def _version() -> str:
    """The text of all questions, which are known from here on."""
    for name in QUESTIONERS:
        import_module(name)
    texts = ((HELPERS / f"{name}.py").read_bytes() for name in ("asked", *QUESTIONERS))
    return sha256(b"".join(texts)).hexdigest()
