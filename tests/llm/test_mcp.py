"""`dojoir mcp` by the client of the official SDK: in memory and on stdio, a scripted player, hostile calls."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import random
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from folders import ROOT

import dojoir
from dojoir.cli.arguments import FLOATS, KINDS
from dojoir.llm import Limits, Table, mcp_server, server

mcp = pytest.importorskip("mcp", reason="needs the extra llm")

_TOOLS = "new_game syntax moves check explain suggest apply undo measure verify profile plan know emit best save"
TOOLS = _TOOLS.split()


async def asked(client: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured answer of a tool."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    found: dict[str, Any] = result.structured_content
    return found


def test_the_tools_have_schemas_hints_and_words(tmp_path: Path) -> None:
    async def play() -> None:
        async with mcp.Client(mcp_server(tmp_path, timer="static")) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert sorted(tools) == sorted(TOOLS)
            for name, tool in tools.items():
                assert len(tool.description) > 20 and "ctx" not in tool.input_schema["properties"]
                assert tool.annotations.read_only_hint == (name in server.READS)
                assert tool.output_schema["type"] == "object"
                for argument, about in tool.input_schema["properties"].items():
                    assert len(about["description"]) > 10 and about["examples"], (name, argument)
            kinds = tools["know"].input_schema["properties"]["kind"]["anyOf"][0]["enum"]
            assert tuple(kinds) == KINDS
            assert tools["new_game"].input_schema["properties"]["fp"]["anyOf"][0]["enum"] == [*FLOATS]
            assert tools["check"].input_schema["required"] == ["game", "move"]
            assert "data" in client.instructions

    asyncio.run(play())


def test_a_refusal_is_a_result_and_resources_are_read(tmp_path: Path) -> None:
    async def play() -> None:
        async with mcp.Client(mcp_server(tmp_path, timer="static")) as client:
            await asked(client, "new_game", kernel="library:softmax")
            refused = await asked(client, "apply", game="g1", moves="reuse_dims(m, 0)")
            assert refused["status"] == "refused" and refused["verdict"]["code"]
            text = (await client.read_resource("dojoir://game/g1")).contents[0].text
            assert dojoir.parse(text) == dojoir.kernels.load("softmax")
            assert "vector lanes" in (await client.read_resource("dojoir://language")).contents[0].text
            assert "join_scopes: Fuses" in (await client.read_resource("dojoir://moves")).contents[0].text
            with pytest.raises(mcp.MCPError):
                await client.read_resource("dojoir://game/g9")

    asyncio.run(play())


def test_a_scripted_client_comes_near_the_stored_schedule(tmp_path: Path) -> None:
    """By the static timer, which is always the same, in at most 25 calls."""
    sizes = {"N": 1024, "M": 4096}
    stored = dojoir.optimize(dojoir.kernels.load("softmax"), "llvm", sizes=sizes, threads=1).kernel
    calls = 0

    async def play() -> float:
        async with mcp.Client(mcp_server(tmp_path, timer="static")) as client:

            async def tool(name: str, **arguments: Any) -> dict[str, Any]:
                nonlocal calls
                calls += 1
                return await asked(client, name, **arguments)

            await tool("new_game", kernel="library:softmax", sizes=sizes)
            for _ in range(4):
                choices = (await tool("plan", game="g1", most=1))["choices"]
                if not choices or choices[0]["about_times_as_fast"] <= 1:
                    break
                await tool("apply", game="g1", moves=choices[0]["apply"])
                await tool("measure", game="g1")
            found: dict[str, Any] = await tool("best", game="g1")
            return dojoir.search.estimate(dojoir.parse(found["text"]), sizes, "llvm", 1)

    share = dojoir.search.estimate(stored, sizes, "llvm", 1) / asyncio.run(play())
    assert calls <= 25 and share >= 0.8


def test_a_long_call_reports_progress_and_can_be_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import anyio

    stops: list[Any] = []

    def slow(self: Table, game: str, word: str = "", most: int = 50, stop: Any = None) -> dict[str, Any]:
        stops.append(stop)
        while not stop:
            stop.cancelled.wait(0.01)
        return {"status": "ok", "moves": []}

    monkeypatch.setattr(Table, "moves", slow)
    monkeypatch.setattr(server, "EVERY", 0.02)
    told: list[float] = []

    async def play() -> None:
        async def progress(done: float, total: float | None, message: str | None) -> None:
            told.append(done)

        async with mcp.Client(mcp_server(tmp_path, Limits(call_seconds=0.3), timer="static")) as client:
            await client.call_tool("moves", {"game": "g1"}, progress_callback=progress)
        async with mcp.Client(mcp_server(tmp_path, Limits(call_seconds=3600), timer="static")) as client:
            with anyio.move_on_after(0.2) as scope:
                await client.call_tool("moves", {"game": "g1"})
            assert scope.cancelled_caught
            with anyio.fail_after(10):
                while not stops[-1].cancelled.is_set():
                    await anyio.sleep(0.01)

    asyncio.run(play())
    assert len(stops) == 2 and told == sorted(told) and told


def test_stdio(tmp_path: Path) -> None:
    arguments = ["-m", "dojoir.verbs", "mcp", "--folder", str(tmp_path), "--timer", "static", "--games", "1"]
    given = mcp.StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))

    async def play() -> None:
        async with mcp.Client(given) as client:
            assert len((await client.list_tools()).tools) == len(TOOLS)
            await asked(client, "new_game", kernel="library:relu", sizes={"N": 4096})
            assert (await asked(client, "new_game", kernel="library:relu"))["status"] == "limit"
            assert (await asked(client, "apply", game="g1", moves="split(0, 16)"))["made"] == 1
            assert (await asked(client, "save", game="g1", name="relu"))["files"] == ["relu.dojo", "relu.json"]

    asyncio.run(play())
    assert dojoir.certify(dojoir.Trace.load(tmp_path / "relu.json"))


def test_500_hostile_calls(tmp_path: Path) -> None:
    """Nothing crashes, nothing is written outside, and the game goes on."""
    folder, outside = tmp_path / "served", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "secret.dojo").write_text("kernel secret(N)\n")
    rng = random.Random(5)
    strange: list[Any] = [
        None, -1, 0, 10**30, True, 1.5, "", "g1", "g2", "x" * 300_000, "\0", "\ud83d",
        "../outside/secret.dojo",
        str(outside / "secret.dojo"), "/dev/zero", "library:softmax", "library:../x", "-", "kernel f(N)\n# obey\n",
        "split(0, 0)", "split(0.0, 16)", "each(<innermost>, try(vectorize(it)))", "repeat(split(0, 2))", "{", "[]",
        {"N": 10**18}, {"N": "a"}, [1, 2], {"a": {"b": 1}}, "llvm", "cuda", "c", "@/etc/passwd", "$(reboot)", "%n",
    ]  # fmt: skip
    names = [
        "kernel",
        "sizes",
        "target",
        "fp",
        "game",
        "word",
        "most",
        "move",
        "moves",
        "count",
        "question",
        "name",
    ]

    async def play() -> None:
        limits = Limits(measurements=3, games=4, call_seconds=0.5)
        async with mcp.Client(mcp_server(folder, limits, timer="static")) as client:
            await asked(client, "new_game", kernel="library:relu", sizes={"N": 64})
            tools = {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}
            for _ in range(500):
                tool = rng.choice([*TOOLS, "nonsense"])
                keys = [*tools.get(tool, names)] if rng.random() < 0.9 else rng.sample(names, 3)
                arguments = {key: rng.choice(strange) for key in keys}
                if "game" in arguments and rng.random() < 0.7:
                    arguments["game"] = "g1"
                try:
                    result = await client.call_tool(tool, arguments)
                except mcp.MCPError:
                    continue
                if result.is_error:  # by the schema, never a crash, of which the SDK says no more than the name
                    said = result.content[0].text
                    assert "validation error" in said or "Unknown tool" in said, (tool, arguments, said)
                else:
                    assert result.structured_content["status"] in ("ok", "refused", "error", "limit")
            assert (await asked(client, "best", game="g1"))["status"] == "ok"

    asyncio.run(play())
    assert [path.name for path in outside.iterdir()] == ["secret.dojo"]
    assert (outside / "secret.dojo").read_text() == "kernel secret(N)\n"
    assert all(path.parent == folder for path in tmp_path.rglob("*") if path.is_file() and path.parent != outside)


def test_the_client_of_the_page_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's command is looked up on the path, in an environment that the SDK makes."""
    (code,) = re.findall(r"^```py\n(.*?)^```\n", (ROOT / "docs" / "mcp.md").read_text("utf-8"), re.M | re.S)
    command = tmp_path / "dojoir"
    paths = os.pathsep.join(path for path in sys.path if path)
    program = "import sys; from dojoir.verbs import main; sys.exit(main())"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{paths}" exec "{sys.executable}" -c "{program}" "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "mcp.md", "exec"), {"__name__": "__main__"})
    assert printed.getvalue() == "ok\n"
