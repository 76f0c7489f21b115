"""The common part of both clients: the key from the environment, the address, the meaning of their errors, and
limits on a server's response."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import dojoir
from dojoir.llm.models.exchange import ModelError, ToolCall, object_in

MOST_CHARACTERS = 200_000
"""The most characters of one reply."""

MOST_CALLS = 32
"""The most calls of tools of one reply."""

SHORTEST_KEY = 8
"""A shorter key is a word, such as `none` for a server of one's own, and stands in other texts by chance."""


class Connection:
    """The key and the address of a server. The key is that of `variable` of the environment; a server at a
    `base_url` of one's own may have none. It stands in no record: `clean` takes it out of any text."""

    def __init__(self, variable: str, base_url: str | None) -> None:
        """Raises ArgumentError, `no-key`, where there is neither key nor address, `bad-arguments` for an address
        that is none or that has a password in it."""
        self.base_url = checked_url(base_url)
        self._key = os.environ.get(variable, "").strip()
        if not self._key and base_url is None:
            message = f"the model needs a key: set {variable} in the environment, or name a server with base_url"
            raise dojoir.ArgumentError(message, "no-key")

    @property
    def key(self) -> str:
        """The key, or what stands for none."""
        return self._key or "none"

    def __repr__(self) -> str:
        return f"<connection to {self.base_url or 'the server of its client'}>"

    def clean(self, text: str) -> str:
        """A text without the key, and without halves of characters, which no file takes."""
        whole = text.encode("utf-8", "replace").decode("utf-8")
        return whole.replace(self._key, "(key)") if len(self._key) >= SHORTEST_KEY else whole

    @contextmanager
    def told(self, client: ModuleType) -> Iterator[None]:
        """Errors of a client, and of reading what a server sent, as ModelError."""
        try:
            yield
        except ModelError:
            raise
        except Exception as error:  # whatever a server sends, the search ends with its best
            raise self._error(client, error) from None

    def _error(self, client: Any, error: Exception) -> ModelError:
        said = self.clean(" ".join(str(error).split()))[:300]
        if isinstance(error, client.APITimeoutError):
            return ModelError("the server was silent", again=True)
        if isinstance(error, client.APIStatusError):
            status = error.status_code
            again = status in (408, 409, 429) or status >= 500
            # an error in a stream that was begun comes with its status 200
            again = again or status < 400
            return ModelError(f"the server answered {status}: {said}", again=again, wait=_wait(error))
        if isinstance(error, client.APIConnectionError):
            return ModelError(f"no connection to the server: {said}", again=True)
        return ModelError(f"the answer of the server cannot be read: {type(error).__name__}: {said}", again=True)


def checked_url(base_url: str | None) -> str | None:
    """An address of a server. Raises ArgumentError, `bad-arguments`."""
    if base_url is None:
        return None
    try:
        parts = urlsplit(base_url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        parts, fits = urlsplit(""), False
    if parts.username or parts.password or parts.query:
        message = "base_url has a name, a password or a query in it: keys come from the environment only"
        raise dojoir.ArgumentError(message, "bad-arguments")
    if not fits:
        message = f"base_url is http://HOST… or https://HOST…, not {base_url[:80]!r}"
        raise dojoir.ArgumentError(message, "bad-arguments")
    return base_url


def _wait(error: Any) -> float | None:
    """The seconds that the header `retry-after` asks for."""
    headers = error.response.headers
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            wait = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if wait >= 0:
            return wait
    return None


class Gathered:
    """A reply as it comes in, piece by piece, held to limits of time and length. Raises ModelError."""

    def __init__(self, seconds: float) -> None:
        self.until, self.seconds = time.monotonic() + seconds, seconds
        self.texts: list[str] = []
        self.calls: dict[int, list[Any]] = {}
        self.length = 0

    def text(self, piece: object) -> None:
        """More of the text."""
        if isinstance(piece, str):
            self._count(len(piece))
            self.texts.append(piece)

    def call(self, number: object, id: object, name: object, arguments: object) -> None:
        """More of a call: what is None is not said yet."""
        key = number if isinstance(number, int) else len(self.calls)
        if key not in self.calls:
            if len(self.calls) == MOST_CALLS:
                raise ModelError(f"the model called more than {MOST_CALLS} tools at once", again=True)
            self.calls[key] = ["", "", []]
        one = self.calls[key]
        one[0] = one[0] or (id if isinstance(id, str) else "")
        one[1] = one[1] or (name if isinstance(name, str) else "")
        if isinstance(arguments, str):
            self._count(len(arguments))
            one[2].append(arguments)

    def beat(self) -> None:
        """Is called with everything that comes."""
        if time.monotonic() > self.until:
            raise ModelError(f"the model took longer than {self.seconds:.3g} s", again=True)

    def _count(self, length: int) -> None:
        self.length += length
        if self.length > MOST_CHARACTERS:
            raise ModelError(f"the model said more than {MOST_CHARACTERS} characters", again=True)

    @property
    def is_whole(self) -> bool:
        """Whether there are calls, all of which can be read: then nothing is missing that was to be said, whether
        or not the server gave a reason for its end."""
        named = [pieces for _, name, pieces in self.calls.values() if name]
        return bool(named) and all(pieces and object_in("".join(pieces) or "…") is not None for pieces in named)

    def said(self, clean: Any) -> tuple[str, tuple[ToolCall, ...]]:
        """The text and the calls, without a key."""
        calls = [
            ToolCall(clean(id)[:200] or f"call_{number}", clean(name)[:200], clean("".join(pieces)))
            for number, (id, name, pieces) in sorted(self.calls.items())
            if name  # some servers send an empty call with each text
        ]
        return clean("".join(self.texts)), tuple(calls)


def counted(value: object) -> int:
    """A number of tokens that a server told; 0 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40 else 0


def each(stream: Any, gathered: Gathered) -> Iterator[Any]:
    """The items of a stream, which is closed at the end, whatever ends it; of a server that does not stream, its
    whole reply as a dict.

    A client waits for the next item, and a comment that only keeps the connection is none: a timer closes the
    response when its time is over, which ends that wait."""
    timer = threading.Timer(max(0.0, gathered.until - time.monotonic()), stream.response.close)
    timer.daemon = True
    timer.start()
    try:
        if "json" in str(stream.response.headers.get("content-type", "")).lower():
            yield _whole(stream.response, gathered)
            return
        for one in stream:
            gathered.beat()
            yield one
        gathered.beat()  # a response that the timer closed may end as one that is whole
    except Exception:
        gathered.beat()
        raise
    finally:
        timer.cancel()
        stream.close()


def _whole(response: Any, gathered: Gathered) -> dict[str, Any]:
    pieces = list[bytes]()
    for piece in response.iter_bytes():
        gathered.beat()
        pieces.append(piece)
        if sum(map(len, pieces)) > 8 * MOST_CHARACTERS:
            raise ModelError(f"the model said more than {MOST_CHARACTERS} characters", again=True)
    found = json.loads(b"".join(pieces))
    if not isinstance(found, dict):
        raise ModelError("the answer of the server is no object", again=True)
    refused = found.get("error")
    if isinstance(refused, dict) and isinstance(refused.get("message"), str):
        raise ModelError(f"the server answered: {refused['message'][:300]}", again=True)
    return found
