"""Who edits a bundle and lists its digests anew is found out: what it claims must follow from what is in it."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bundled import SIZES, traced
from folders import ROOT
from forging import Files, forged
from synthetic import Clock

import dojoir
from dojoir.evidence import Asked, gate
from dojoir.evidence.archive import check, packed
from dojoir.evidence.bundle import GATES, RUN
from dojoir.evidence.bundle_reading import Bundle, read
from dojoir.evidence.replay import replay
from dojoir.evidence.writing import recorded
from dojoir.records.plain_data import from_text, to_text
from dojoir.verbs import main

pytest.importorskip("sqlalchemy", reason="needs the extra agents")


pytestmark = pytest.mark.usefixtures("own_lease")


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A run of all gates, that passes them: only the clock is none."""
    trace = traced()
    clock = Clock(lambda one: 1e-3 if one == trace.kernel else 2e-3, 0.01)
    runs = tmp_path_factory.mktemp("runs")
    settings = {"seed": 7, "beside": ["text"]}
    with recorded(runs, "gate", trace, target="llvm", sizes=[SIZES], threads=1, settings=settings) as writer:
        asked = Asked(trace, "llvm", [SIZES], 1, ("text",), 7, measure=clock)
        writer.data(GATES, gate(asked))
    return read(writer.folder)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A search that measures."""
    runs = tmp_path_factory.mktemp("runs")
    asked = ["tune", "library:relu", "-s", "N=4096", "--states", "3", "--strategy", "random", "--runs", str(runs)]
    assert main(asked) == 0
    (folder,) = (path.parent for path in runs.glob(f"*/{RUN}"))
    return read(folder)


def whole_bench_of(files: Files) -> Any:
    return files["gates.json"]["seen"]["timed"]


def bench_of(files: Files) -> Any:
    return whole_bench_of(files)["shapes"][0]


def peer(files: Files) -> Any:
    return bench_of(files)["peers"][0]


def fast(files: Files, times: float = 99.0) -> None:
    """The figures that a reader looks at, whatever the samples say."""
    peer(files)["ratio"] = {"median": times, "low": times * 0.99, "high": times * 1.01}


def without_trace(files: Files) -> None:
    for name in ("trace.json", "final.dojo", "source.ll", "code.s", "bench.json"):
        files.pop(name, None)
    files[RUN] |= {"result": None, "moves": 0, "code": None, "gained": [boast()]}


def boast(beside: str = "text") -> dict[str, Any]:
    return {"beside": beside, "median": 99.0, "low": 98.0, "high": 100.0}


def one_sample_less(files: Files) -> None:
    own = bench_of(files)["own"]
    own["samples"] = [one / 9 for one in own["samples"][1:]]
    own["count"] -= 1
    for name in ("seconds", "low", "high", "first_quartile", "third_quartile"):
        own[name] /= 9
    fast(files, peer(files)["ratio"]["median"] * 9)


def narrowed(at: Any, *names: str) -> None:
    middle = at.get("seconds", at.get("median"))
    for name in names:
        at[name] = middle + (at[name] - middle) / 100


def no_peer(files: Files) -> None:
    bench_of(files)["peers"] = []


def slower(files: Files) -> None:
    """A peer that the kernel was not faster than is left out, with all that says so."""
    bench_of(files)["own"]["samples"] = [3 * one for one in bench_of(files)["own"]["samples"]]


def more_gates(files: Files) -> None:
    one = {"name": "superb", "status": "pass", "reason": "", "file": "gates.json"}
    files["gates.json"]["gates"].append(one)
    files[RUN]["gates"].append(one)


def interrupted(files: Files) -> None:
    files[RUN]["status"] = "interrupted"
    files["start.dojo"] += "\n# more\n"


def wrong_gate(name: str, key: str, change: Callable[[Any], object]) -> Callable[[Files], None]:
    """A gate that passes although what was seen says otherwise."""

    def change_it(files: Files) -> None:
        change(files["gates.json"]["seen"][key])

    return change_it


def seen_gone(files: Files) -> None:
    files["gates.json"]["seen"] = None


def state_time(files: Files) -> None:
    lines = [json.loads(line) for line in files["states.jsonl"].splitlines()]
    (first, *_) = (line for line in lines if line.get("status") == "ok")
    first |= {"seconds": first["seconds"] / 10, "interval": [end / 10 for end in first["interval"]]}
    files["states.jsonl"] = "".join(json.dumps(line) + "\n" for line in lines)


def of_run(**fields: Any) -> Callable[[Files], None]:
    return lambda files: files[RUN].update(fields)


def of_bench(**fields: Any) -> Callable[[Files], None]:
    return lambda files: whole_bench_of(files).update(fields)


def of_gates(**fields: Any) -> Callable[[Files], None]:
    return lambda files: files["gates.json"].update(fields)


def twice(files: Files) -> None:
    other = copy.deepcopy(peer(files))
    other["samples"] = [9 * one for one in other["samples"]]
    bench_of(files)["peers"].append(other)


FORGED: dict[str, tuple[str, Callable[[Files], object]]] = {
    "a gain without a trace": ("tuned", without_trace),
    "a gain that nobody timed": ("tuned", of_run(gained=[boast()])),
    "a gain beside what was not timed": ("tuned", of_run(gained=[boast("torch")])),
    "a gain of a run that was gated": ("gated", of_run(gained=[boast()])),
    "a ratio of any size, a sample left out": ("gated", one_sample_less),
    "a ratio": ("gated", fast),
    "a time's interval narrowed": ("gated", lambda files: narrowed(bench_of(files)["own"], "low", "high")),
    "a ratio's interval narrowed": ("gated", lambda files: narrowed(peer(files)["ratio"], "low", "high")),
    "a noise narrowed": ("gated", lambda files: bench_of(files).update(noise={"median": 1, "low": 1, "high": 1})),
    "quartiles narrowed": (
        "gated", lambda files: narrowed(bench_of(files)["own"], "first_quartile", "third_quartile"),
    ),
    "quartiles of a peer": ("gated", lambda files: narrowed(peer(files), "first_quartile", "third_quartile")),
    "samples of no time": ("gated", lambda files: bench_of(files)["own"]["samples"].__setitem__(0, -1.0)),
    "a peer twice": ("gated", twice),
    "a bench of another kernel": ("gated", of_bench(hash="0" * 64)),
    "a bench of a kernel of another name": ("gated", of_bench(kernel="matmul")),
    "a bench at another size": ("gated", lambda files: bench_of(files).update(sizes={"N": 4_096_000})),
    "a bench of another machine": ("gated", of_bench(machine="a faster one")),
    "a bench of another target": ("gated", of_bench(target="cuda")),
    "a bench on more threads": ("gated", of_bench(threads=64)),
    "a bench that says it was right": ("gated", of_bench(correct="pass", reason="")),
    "a share of the ceiling": (
        "gated", lambda files: bench_of(files)["ceiling"].update(share=0.99, bound_by="memory"),
    ),
    "work that the text does not do": (
        "gated", lambda files: bench_of(files)["ceiling"].update(flops=10**12, bytes=10**9),
    ),
    "faster without a peer": ("gated", no_peer),
    "faster than what was faster": ("gated", slower),
    "gates that there are not": ("gated", more_gates),
    "gates at another size": ("gated", of_gates(shapes=[{"N": 7}])),
    "gates on more threads": ("gated", of_gates(threads=64)),
    "gates of another target": ("gated", of_gates(target="cuda")),
    "gates that nothing shows": ("gated", seen_gone),
    "right, and a case differs": (
        "gated", wrong_gate("correct", "correct", lambda seen: seen[0].update(status="failed", reason="it")),
    ),
    "right, and nothing was compared": ("gated", wrong_gate("correct", "correct", lambda seen: seen.clear())),
    "the same each time, and bits differ": (
        "gated", wrong_gate("deterministic", "calls", lambda seen: seen[0]["digests"].__setitem__(1, "other")),
    ),
    "honest, and it was found wrong": (
        "gated", wrong_gate("honest", "honest", lambda seen: seen[0].update(reason="it remembers its inputs")),
    ),
    "an interrupted run whose files are others": ("gated", interrupted),
    "another source": (
        "gated", lambda files: files.update({"source.ll": files["source.ll"].replace("fcmp", "fcmp fast", 1)}),
    ),
    "a terminal's escapes": ("gated", of_run(stopped="\x1b]0;owned\x07\x1b[2J")),
    "escapes in a bench": ("gated", lambda files: peer(files).update(name="text\x1b[1A")),
    "fewer moves": ("gated", of_run(moves=1)),
    "more states": ("tuned", of_run(states=10_000)),
    "a state's time": ("tuned", state_time),
    "another end": ("tuned", of_run(status="failed")),
    "other words at its end": ("tuned", of_run(stopped="nothing is left to find")),
    "begun later": ("tuned", of_run(begun="2030-01-01T00:00:00+00:00")),
    "another kernel's name": ("tuned", of_run(kernel="matmul")),
    "other machine code": ("gated", lambda files: files[RUN]["code"].update(sha256="0" * 64)),
    "another target": ("gated", of_run(target="avx512")),
}  # fmt: skip


def archived(given: Bundle, path: Path) -> Path:
    path.write_bytes(packed({one.name: one.read_bytes() for one in given.folder.iterdir()}))
    return path


@pytest.mark.parametrize("which", ["gated", "tuned"])
def test_an_honest_bundle_passes(which: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The twin of those that are forged: through the same hands, with nothing changed."""
    given = forged(request.getfixturevalue(which), tmp_path / "run", lambda files: None)
    path = archived(given, tmp_path / "x.zip")
    found = check(path)
    assert found.ok and {one.status for one in found.found} == {"pass"}, str(found)
    assert main(["check", str(path)]) == 0
    assert replay(given).ok and main(["replay", str(given.folder)]) == 0


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_bundle_is_refused(
    name: str, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    which, change = FORGED[name]
    honest = request.getfixturevalue(which)
    try:
        given = forged(honest, tmp_path / "run", change)
    except dojoir.ArgumentError as error:  # it is not even read
        assert error.diagnostic.code == "bad-record"
        given = Bundle(tmp_path / "run", honest.run)
    path = archived(given, tmp_path / "x.zip")
    assert main(["check", str(path)]) in (1, 3)
    assert main(["replay", str(given.folder)]) in (1, 3, 4)
    main(["show", str(given.folder)])
    assert "\x1b" not in "".join(capsys.readouterr())


def test_a_source_that_controls_a_terminal_is_spelled_out(
    gated: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = forged(gated, tmp_path / "run", lambda files: files.update({"source.ll": "\x1b[2J; red\x07\n"}))
    assert main(["show", str(given.folder), "--section", "source"]) == 0
    assert capsys.readouterr().out == "\\x1b[2J; red\\x07\n"


def test_there_are_thirty() -> None:
    assert len(FORGED) >= 30
    assert {which for which, _ in FORGED.values()} == {"gated", "tuned"}


@pytest.mark.parametrize("version", sorted(path.name for path in (ROOT / "tests" / "bundles").iterdir()))
def test_a_bundle_of_an_earlier_version_is_read_and_what_it_cannot_show_is_told(version: str) -> None:
    """Its noise has no samples, and its gates nothing that shows them: status 3, and nothing fails."""
    found = replay(read(ROOT / "tests" / "bundles" / version))
    statuses = {one.name: one.status for one in found.found}
    assert statuses["moves"] == statuses["certified"] == statuses["ends"] == "pass", found
    if version == "v1":
        assert statuses["figures"] == statuses["verdicts"] == "undecided" and found.status == 3


# -- what is no file ---------------------------------------------------------------------------------------
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in (str(tmp_path / "fifo"), "/dev/zero", str(tmp_path)):
        assert main(["check", name]) == 1
        assert "no file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "given", ['{"x": 1%s}' % ("0" * 400), '{"x": NaN}', '{"\\u001b[2J": 1.0}', '{"\\ud800": 1.0}']
)
def test_values_that_nothing_can_hold_or_print_are_refused(given: str) -> None:
    with pytest.raises(dojoir.ArgumentError) as found:
        from_text(Values, f'{{"values": {given}}}', "a file")
    assert found.value.diagnostic.code == "bad-record"
    str(found.value).encode()
    assert from_text(Values, '{"values": {"x": 1}}', "a file") == Values({"x": 1.0})


def test_what_is_read_of_any_kind_is_spelled_out() -> None:
    """Names and texts at any depth; lines, tabs, letters and numbers stay."""
    given = {"deep": ["a\x07b", {"\x1b[2J": "\x9b1m"}], "line": "é\n\t\u4e2d", "count": 3, "none": None}
    found = from_text(Given, json.dumps({"given": given}), "a file").given
    assert found == {"deep": ["a\\x07b", {"\\x1b[2J": "\\x9b1m"}], "line": "é\n\t\u4e2d", "count": 3, "none": None}
    assert from_text(Given, to_text(Given(found)), "a file").given == found
    nested = from_text(Given, '{"given": {"x": "\\ud800"}}', "a file")
    str(nested).encode()


@dataclass(frozen=True)
class Values:
    values: Mapping[str, float]


@dataclass(frozen=True)
class Given:
    given: Mapping[str, Any]
