"""A server on this machine that speaks the protocols of OpenAI and of Anthropic, and does what a test tells it to.

`brain` is asked for each request and says what the model says (`Say`), or how the server fails."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-secret-of-the-tests-0123456789"


@dataclass(frozen=True)
class Request:
    """A request, the same for both protocols: `texts` are those of all messages and results, the first is the
    question of the round."""

    protocol: str
    system: str
    texts: tuple[str, ...]
    tools: tuple[str, ...]
    must: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Say:
    """What the model says: text, and calls of tools, each a name and its arguments, as data or as raw text."""

    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    refused: bool = False
    usage: bool = True


@dataclass(frozen=True)
class Status:
    """An error of HTTP."""

    code: int
    retry_after: str = ""
    text: str = "no"


@dataclass(frozen=True)
class Cut:
    """A stream that ends after some events of what would have been said."""

    say: Say
    events: int


@dataclass(frozen=True)
class Silence:
    """Nothing at all, for some seconds."""

    seconds: float


@dataclass(frozen=True)
class Raw:
    """Some bytes as the stream."""

    data: bytes


@dataclass(frozen=True)
class Whole:
    """What is said in one piece of JSON, by a server that ignores `stream`."""

    say: Say


@dataclass(frozen=True)
class Odd:
    """A stream as some servers send it: an empty call, and no reason at its end."""

    say: Say


@dataclass(frozen=True)
class Comments:
    """A stream of comments alone, for some seconds."""

    seconds: float


Does = Say | Status | Cut | Silence | Raw | Whole | Odd | Comments
Brain = Callable[[Request], Does]


def plans(*steps: str | list[str], of: int = 0, expect: float = 1.01, reflection: str = "none yet") -> Say:
    """An answer with a plan for each of some steps."""
    made = [
        {"from": of, "steps": [one] if isinstance(one, str) else one, "expect": expect, "why": "to see"}
        for one in steps
    ]
    return Say(calls=(("answer", {"plans": made, "reflection": reflection}),))


STOP = Say(calls=(("answer", {"plans": [], "reflection": "all was tried", "stop": True}),))


@dataclass
class Server:
    """A server that runs; `urls` are its addresses by the name of a provider."""

    brain: Brain
    requests: list[Request] = field(default_factory=list)
    port: int = 0

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which the clients of a process ask it."""
        urls = {f"{one.upper()}_BASE_URL": self.url(one) for one in ("openai", "anthropic")}
        proxies = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"), "")
        return {**urls, **proxies, "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}

    def url(self, provider: str) -> str:
        """The base URL for a provider."""
        return f"http://127.0.0.1:{self.port}{'/v1' if provider == 'openai' else ''}"


@contextlib.contextmanager
def serving(brain: Brain) -> Iterator[Server]:
    """Runs a server while the block runs."""
    server = Server(brain)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = _request(body, self.path, dict(self.headers))
            server.requests.append(request)
            does = server.brain(request)
            self.close_connection = True
            with contextlib.suppress(OSError):  # the client has gone
                _do(self, does, request.protocol)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

    with Quiet(("127.0.0.1", 0), Handler) as http:
        server.port = http.server_address[1]
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()


def _request(body: Mapping[str, Any], path: str, headers: Mapping[str, str]) -> Request:
    openai = path.endswith("/chat/completions")
    messages = body["messages"]
    choice = body.get("tool_choice") or {}
    if openai:
        system = messages[0]["content"]
        texts = [str(one["content"] or "") for one in messages[1:]]
        tools = [one["function"]["name"] for one in body.get("tools", ())]
        must = choice["function"]["name"] if isinstance(choice, dict) and "function" in choice else ""
    else:
        (kept,), texts = body["system"], list[str]()
        system = kept["text"]
        for one in messages:
            blocks = one["content"] if isinstance(one["content"], list) else [{"text": one["content"]}]
            texts += [str(block.get("content") or block.get("text") or "") for block in blocks]
        tools = [one["name"] for one in body.get("tools", ())]
        must = choice.get("name", "")
    return Request("openai" if openai else "anthropic", system, tuple(texts), tuple(tools), must, headers, body)


def _do(handler: BaseHTTPRequestHandler, does: Does, protocol: str) -> None:
    match does:
        case Status(code, retry_after, text):
            data = json.dumps({"error": {"message": text, "type": "error"}}).encode()
            handler.send_response(code)
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Content-Length", str(len(data)))
            if retry_after:
                handler.send_header("Retry-After", retry_after)
            handler.end_headers()
            handler.wfile.write(data)
            return
        case Silence(seconds):
            time.sleep(seconds)
            return
    handler.send_response(200)
    kind = "application/json; charset=utf-8" if isinstance(does, Whole) else "text/event-stream"
    handler.send_header("Content-Type", kind)
    handler.send_header("Connection", "close")
    handler.end_headers()
    match does:
        case Raw(data):
            handler.wfile.write(data)
        case Comments(seconds):
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                handler.wfile.write(b": here\n\n")
                handler.wfile.flush()
                time.sleep(0.05)
        case Whole(say):
            handler.wfile.write(json.dumps(whole(say, protocol)).encode())
        case Odd(say):
            odd = Say(say.text, (*say.calls, ("", "")))
            for event in events(odd, protocol):
                if b'finish_reason": "' not in event and b"message_delta" not in event:
                    handler.wfile.write(event)
        case Cut(say, count):
            for event in list(events(say, protocol))[:count]:
                handler.wfile.write(event)
        case Say():
            for event in events(does, protocol):
                handler.wfile.write(event)


def events(say: Say, protocol: str) -> Iterator[bytes]:
    """What is said as events of a stream."""
    calls = [(name, given if isinstance(given, str) else json.dumps(given)) for name, given in say.calls]
    made = _openai(say, calls) if protocol == "openai" else _anthropic(say, calls)
    for name, data in made:
        line = f"event: {name}\n" if name else ""
        yield f"{line}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def whole(say: Say, protocol: str) -> dict[str, Any]:
    """What is said as one object."""
    if protocol == "openai":
        calls = [{"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
                 for n, (name, given) in enumerate(say.calls)]  # fmt: skip
        message = {"role": "assistant", "content": say.text or None, "tool_calls": calls or None}
        choices = [{"index": 0, "message": message, "finish_reason": "eos"}]
        return {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": choices}
    blocks: list[dict[str, Any]] = [{"type": "text", "text": say.text}]
    blocks += [{"type": "tool_use", "id": f"t{n}", "name": name, "input": given}
               for n, (name, given) in enumerate(say.calls)]  # fmt: skip
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": blocks,
        "stop_reason": "eos",
    }


def _openai(say: Say, calls: list[tuple[str, str]]) -> Iterator[tuple[str, Any]]:
    def chunk(delta: dict[str, Any], reason: str | None = None, **more: Any) -> tuple[str, Any]:
        choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
        about = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
        return "", {**about, "choices": choices, **more}

    yield chunk({"role": "assistant", "content": ""})
    name = "refusal" if say.refused else "content"
    for n in range(0, len(say.text), 1 << 16):
        yield chunk({name: say.text[n : n + (1 << 16)]})
    for number, (tool, given) in enumerate(calls):
        function = {"name": tool, "arguments": ""}
        yield chunk(
            {"tool_calls": [{"index": number, "id": f"c{number}", "type": "function", "function": function}]}
        )
        for half in (given[: len(given) // 2], given[len(given) // 2 :]):
            yield chunk({"tool_calls": [{"index": number, "function": {"arguments": half}}]})
    yield chunk({}, "content_filter" if say.refused else "tool_calls" if calls else "stop")
    if say.usage:
        usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
        yield "", {**chunk({})[1], "choices": [], "usage": usage}
    yield "", "[DONE]"


def _anthropic(say: Say, calls: list[tuple[str, str]]) -> Iterator[tuple[str, Any]]:
    def event(name: str, **more: Any) -> tuple[str, Any]:
        return name, {"type": name, **more}

    usage = {"input_tokens": 1000, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage,
               "stop_reason": None, "stop_sequence": None}  # fmt: skip
    yield event("message_start", message=message)
    if say.text:
        yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for n in range(0, len(say.text), 1 << 16):
            delta = {"type": "text_delta", "text": say.text[n : n + (1 << 16)]}
            yield event("content_block_delta", index=0, delta=delta)
        yield event("content_block_stop", index=0)
    for number, (tool, given) in enumerate(calls, 1):
        block = {"type": "tool_use", "id": f"t{number}", "name": tool, "input": {}}
        yield event("content_block_start", index=number, content_block=block)
        for half in (given[: len(given) // 2], given[len(given) // 2 :]):
            yield event(
                "content_block_delta", index=number, delta={"type": "input_json_delta", "partial_json": half}
            )
        yield event("content_block_stop", index=number)
    reason = "refusal" if say.refused else "tool_use" if calls else "end_turn"
    yield event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": 100})
    yield event("message_stop")


def a_game(request: Request) -> Does:
    """Plays: an answer to the question which move it is, plans in the first round, and nothing more after it."""
    if "one of the moves below" in request.texts[0].lower():
        return Say(calls=(("answer", {"move": 0}),))
    return STOP if " from #0: " in request.texts[0] else plans("join_scopes(0, 1)", ["vectorize(0.1)"])
