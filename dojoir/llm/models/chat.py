"""`chat.jsonl`: every exchange with a model, a line each, written as soon as there is a reply.

The first line says what the chat is about. A chat that is there goes on: what stands in it is given again, in its
order, and not asked. One that is replayed ends where its file does."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dojoir
from dojoir.cli.chunks import read_input
from dojoir.cli.output import writing
from dojoir.llm.models.exchange import Message, Reply
from dojoir.records.plain_data import from_data, json_of, to_data
from dojoir.support.files import write_file

VERSION = 1


@dataclass(frozen=True)
class ChatSubject:
    """The subject of a chat: the kernel's text and target, the model, its instructions, and the moves of each
    start. States are numbered from these on."""

    version: int
    kernel: str
    target: str
    sizes: tuple[Mapping[str, int], ...]
    threads: int
    model: str
    system: str
    starts: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Exchange:
    """An exchange: of which round, about the state after which moves, the messages that were new, the reply or
    why there was none, the attempts that failed before it, and the seconds that it took."""

    round: int
    at: tuple[str, ...]
    asked: tuple[Message, ...]
    reply: Reply | None
    failed: str = ""
    attempts: tuple[str, ...] = ()
    seconds: float = 0.0


class Chat:
    """The exchanges of a search. `live` says whether a model is asked where the file has no more."""

    def __init__(
        self, begun: ChatSubject, path: str | os.PathLike[str] | None, replay: str | os.PathLike[str] | None = None
    ) -> None:
        """Raises ArgumentError: `cannot-read`, `bad-record`, `another-chat` where the file is about another kernel,
        target, or sizes, or, to go on with it, of another model; `cannot-write`."""
        self.live, self._path, self.count = replay is None, None if path is None else Path(path), 0
        self._kept: list[Exchange] = []
        self._digest = ""
        self.begun = begun
        if replay is not None:
            self.begun, self._kept, *_ = _exchanges_in(Path(replay), begun, any_model=True)
        elif self._path is not None and self._path.exists():
            self.begun, self._kept, whole, self._digest = _exchanges_in(self._path, begun, any_model=False)
            # the last line of a process that was killed, and the exchange that it failed at, are written anew
            while self._kept and self._kept[-1].reply is None:
                self._kept.pop()
                whole = False
            if whole:
                return
        if self._path is not None:
            self._digest = ""
            lines = [self._line("begun", self.begun), *(self._line("exchange", one) for one in self._kept)]
            write_file(self._path, "".join(lines))

    def next(self) -> Exchange | None:
        """The next exchange of the file; None where there are no more."""
        if self.count >= len(self._kept):
            return None
        self.count += 1
        return self._kept[self.count - 1]

    def peek(self) -> Exchange | None:
        """The same, and it stays the next."""
        return self._kept[self.count] if self.count < len(self._kept) else None

    def _line(self, name: str, value: object) -> str:
        """The next line of the file."""
        data = to_data(value)
        self._digest = _digest_of(self._digest, name, data)
        return json.dumps({name: data, "digest": self._digest}) + "\n"

    @property
    def ended(self) -> bool:
        """Whether a chat that is replayed has no more."""
        return not self.live and self.count >= len(self._kept)

    def add(self, exchange: Exchange) -> None:
        """Writes an exchange. Raises ArgumentError, `cannot-write`."""
        if self._path is None:
            return
        with writing(self._path), open(self._path, "ab", buffering=0) as file:
            file.write(self._line("exchange", exchange).encode("utf-8", "replace"))


def _digest_of(before: str, name: str, data: object) -> str:
    """The digest of a line, which follows from all before it."""
    return hashlib.sha256(f"{before}{json.dumps({name: data})}".encode()).hexdigest()[:16]


def _checked(lines: Sequence[Mapping[str, Any]], path: Path) -> str:
    """The digest of the last of some lines. Raises ArgumentError, `bad-record`, for one that was changed since it
    was written, or stands behind another than then. Those of earlier versions have no digests."""
    before = ""
    for number, line in enumerate(lines, 1):
        name = "begun" if number == 1 else "exchange"
        before = _digest_of(before, name, line.get(name))
        if line.get("digest", before) != before:
            message = f"{path}, line {number}: it, or a line before it, was changed since it was written"
            raise dojoir.ArgumentError(message, "bad-record")
    return before


def _exchanges_in(
    path: Path, begun: ChatSubject, *, any_model: bool
) -> tuple[ChatSubject, list[Exchange], bool, str]:
    """The head of a file, its exchanges, whether its last line is whole, and its digest. Raises ArgumentError."""
    lines = read_input(str(path)).split("\n")
    whole = lines.pop() == ""
    if not lines:
        return begun, [], False, ""
    found = [json_of(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]
    if not all(isinstance(one, dict) for one in found):
        raise dojoir.ArgumentError(f"{path} has a line that is none of a chat", "bad-record")
    head = from_data(ChatSubject, found[0].get("begun"), f"{path}, line 1")
    digest = _checked(found, path)
    if head.version != VERSION:
        message = f"{path} is a chat of version {head.version}, and this reads {VERSION}"
        raise dojoir.ArgumentError(message, "newer-record")
    names = ("kernel", "target", "sizes", "threads", *(() if any_model else ("model",)))
    other = [name for name in names if to_data(getattr(head, name)) != to_data(getattr(begun, name))]
    if other:
        message = f"the chat in {path} has another {' and another '.join(other)}: name another file"
        raise dojoir.ArgumentError(message, "another-chat")
    exchanges = [
        from_data(Exchange, one.get("exchange"), f"{path}, line {number}")
        for number, one in enumerate(found[1:], 2)
    ]
    return head, exchanges, whole, digest
