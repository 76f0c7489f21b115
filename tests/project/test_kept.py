"""Old texts stay good: kernels, traces, schedules and pipelines that earlier versions wrote are read, replayed and
certified by this one, and what is promised to be stable is still there (`docs/stability.md`).

`kept/DATE` is what dojoir wrote at that date, by the code of that date: `kernels` as they were printed, `traces` as
they were saved (random walks; one for each move that no walk took), `schedules` and `pipelines` as they were
stored, each beside its kernel. None of these files is ever changed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from listed import KEPT, LIST, stable

import dojoir
from dojoir import ParseError
from dojoir.schedules.file import given_schedules


def kept(folder: str, ending: str) -> list[str]:
    found = sorted(str(path.relative_to(KEPT)) for path in KEPT.glob(f"*/{folder}/*.{ending}"))
    assert len(found) >= 4
    return found


@pytest.mark.parametrize("name", kept("traces", "json"))
def test_a_trace_is_loaded_and_certified(name: str) -> None:
    trace = dojoir.Trace.load(KEPT / name)  # holds both ends to their hashes
    assert trace.to_json() == json.loads((KEPT / name).read_text(encoding="utf-8"))
    assert dojoir.certify(trace)


@pytest.mark.parametrize("name", kept("kernels", "dojo"))
def test_a_kernel_is_read_and_printed_as_it_was(name: str) -> None:
    text = (KEPT / name).read_text(encoding="utf-8")
    kernel = dojoir.parse(text, name)
    dojoir.prove(kernel)
    assert dojoir.to_text(kernel) == text
    saved = json.loads((KEPT / name).parent.parent.joinpath("traces", f"{Path(name).stem}.json").read_text("utf-8"))
    assert kernel.hash == saved["result"]


@pytest.mark.parametrize("name", kept("schedules", "moves"))
def test_a_schedule_is_found_made_and_certified(name: str) -> None:
    path = KEPT / name
    (found,) = (one for one in given_schedules(path.name.split(".")[0], [path.parent]) if one.path == str(path))
    trace = found.on(dojoir.load(path.with_suffix(".dojo")))
    assert trace.moves
    assert dojoir.certify(trace)


@pytest.mark.parametrize("name", kept("pipelines", "moves"))
def test_a_pipeline_is_made_and_certified(name: str) -> None:
    path = KEPT / name
    trace = dojoir.Trace(dojoir.load(path.with_suffix(".dojo")))
    for element in dojoir.parse_pipeline(path.read_text(encoding="utf-8"), name):
        if isinstance(element, dojoir.Pass):
            element(trace)
        else:
            trace.apply(element)
    assert dojoir.certify(trace)


def test_what_is_stable_is_still_there() -> None:
    listed = LIST.read_text(encoding="utf-8").splitlines()
    assert listed == sorted(set(listed))
    assert len(listed) > 500
    now = set(stable())
    named = {line.partition("(")[0]: line for line in now}
    gone = [
        line for line in listed if line not in now and not may_follow(named.get(line.partition("(")[0], ""), line)
    ]
    assert not gone, "these were promised to stay (docs/stability.md)"


def may_follow(now: str, before: str) -> bool:
    """Whether the parameters of a line are those that it had, in their order, with others between or after them."""
    words = iter(now.partition("(")[2].removesuffix(")").split(", "))
    return bool(now) and all(word in words for word in before.partition("(")[2].removesuffix(")").split(", "))


def test_every_move_of_the_list_is_in_a_trace_that_is_kept() -> None:
    moves = {line.split("(")[0].split()[1] for line in LIST.read_text("utf-8").splitlines() if line[:5] == "move "}
    saved = [json.loads((KEPT / name).read_text(encoding="utf-8")) for name in kept("traces", "json")]
    assert moves == {move.split("(")[0] for trace in saved for move in trace["moves"]}


@pytest.mark.parametrize("text", ["# dojo: 2\n", "\n  # dojo:2\nkernel f()\n", "# dojo: 0"])
def test_a_text_of_another_version_is_told_as_that(text: str) -> None:
    for read in (dojoir.parse, dojoir.parse_pipeline):
        with pytest.raises(ParseError, match="of version") as caught:
            read(text)
        assert caught.value.diagnostic.code == "other-version"


def test_a_text_may_say_that_it_is_of_this_version() -> None:
    relu = dojoir.kernels.load("relu")
    assert dojoir.parse(f"# dojo: 1\n{relu}") == relu
    assert dojoir.parse_pipeline("# dojo: 1\nsplit(0, 8)") == dojoir.parse_pipeline("split(0, 8)")


def test_a_trace_of_another_version_is_told_as_that() -> None:
    data = dojoir.Trace(dojoir.kernels.load("relu")).to_json() | {"version": 2}
    with pytest.raises(dojoir.ArgumentError, match="version 2; this dojoir reads version 1"):
        dojoir.Trace.from_json(data)
