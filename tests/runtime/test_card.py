"""What bounds a kernel, on one card: from its text, its machine code and counters."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import pytest
from fake_gpu import FakeDriver

import dojoir
from dojoir.backends.host import machine_for
from dojoir.costs.scopes import hottest_lines, scopes
from dojoir.runtime import Card, Measurement
from dojoir.runtime.gpu import devices
from dojoir.runtime.measurement import counters as counting
from dojoir.runtime.measurement.counters import Counters, open_counters
from dojoir.runtime.measurement.traced import read_traced, traced

ROWS = dojoir.parse("""
kernel rows(N, M)
in  x: f32[N, M]
out s: f32[N]
tmp t: f32[N]
N
| t[{0}] = 0
N
| M
| | t[{0}] += x[{0}, {1}] * x[{0}, {1}]
N
| s[{0}] = sqrt(t[{0}])
""")
SIZES = {"N": 64, "M": 1000}


def measured(kernel: dojoir.Kernel, seconds: float = 1e-3, target: str = "llvm") -> Measurement:
    flops, moved = dojoir.cost(kernel).flops(SIZES), dojoir.cost(kernel).bytes(SIZES)
    return Measurement(kernel.name, target, SIZES, 1, True, (seconds,) * 9, 0.95, flops, moved, 10.0, 100.0)


def card(kernel: dojoir.Kernel = ROWS, seconds: float = 1e-3, target: str = "llvm") -> Card:
    return dojoir.profile(
        kernel, target, sizes=SIZES, measurement=measured(kernel, seconds, target), counted=False
    )  # fmt: skip


def test_the_text_tells_what_each_scope_does() -> None:
    found = {one.place: one for one in scopes(ROWS, SIZES, machine_for("llvm"))}
    assert list(found) == ["0", "1", "1.0", "2"]
    inner = found["1.0"]
    assert inner.runs == 64_000 and inner.work == 2 * 64_000 and inner.text.strip("| ") == "M"
    assert found["1"].runs == 64 and found["1"].work == inner.work
    assert 4000 <= inner.footprint < found["1"].footprint and found["1"].footprint >= 4 * 64_000
    assert inner.share > 0.9 and sum(one.share for one in found.values() if "." not in one.place) <= 1.001
    lines = dojoir.to_text(ROWS).splitlines()
    assert [lines[n - 1].strip("| ") for n in hottest_lines(ROWS, list(found.values()))] == [
        "M", "t[{0}] += x[{0}, {1}] * x[{0}, {1}]",
    ]  # fmt: skip


def test_shares_are_those_of_threads_that_work_at_once() -> None:
    shared = dojoir.apply(ROWS, "parallelize(1)")
    found = scopes(shared, SIZES, machine_for("llvm"))
    assert sum(one.share for one in found if "." not in one.place) <= 1.001
    assert all(0 <= one.share <= 1 for one in found)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the code of x86")
def test_a_card_says_what_bounds_where_and_what_helps() -> None:
    plain = card()
    assert plain.kind == "latency" and plain.code.lanes == 1 and plain.code.chains and not plain.code.reason
    assert plain.moves and all(dojoir.check(ROWS, move) for move in plain.moves)
    assert plain.share is not None and 0 < plain.share < 1 and plain.of in ("memory", "arithmetic")
    lanes = card(dojoir.apply(ROWS, "vectorize(1.0)"))
    assert lanes.code.lanes > 1 and (lanes.kind, lanes.why) != (plain.kind, plain.why)
    assert sum((lanes.code.kinds or {}).values()) == lanes.code.instructions
    text = str(plain)
    assert "bound by latency" in text and "line 10" in text and "counters: unavailable: not asked for" in text


def test_a_card_is_plain_data() -> None:
    found = json.loads(json.dumps(card().to_json()))
    assert found["version"] == 1 and found["sizes"] == SIZES and found["scopes"][2]["place"] == "1.0"
    assert found["counters"] == {"values": {}, "reason": "not asked for"}


def test_what_is_not_read_is_unavailable_with_the_reason() -> None:
    found = card(target="c")
    assert found.code.reason == "only the code of LLVM for x86 is read" and "unavailable" in str(found)
    near = card(seconds=(64_000 * 4 + 256) / 10e9 / 0.9)
    assert near.kind == "bytes" and near.share is not None and near.share > 0.8


def test_counters_that_a_system_does_not_give_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting.platform, "machine", lambda: "abacus")
    opened, reason = open_counters()
    assert not opened and "on abacus are not read" in reason
    assert Counters({}, reason).status == "unavailable" and Counters({"cycles": 1.0}).status == "measured"


def test_the_processor_is_asked_in_a_child_and_never_fails() -> None:
    found = counting.counters(ROWS, "llvm", 1, {"N": 2, "M": 3})
    assert bool(found.values) != bool(found.reason)
    if found.values:
        assert found.values["instructions"] > 0
    assert "ncu" in counting.counters(ROWS, "cuda", 1, SIZES).reason


NCU = """\
==PROF== Connected to process 1
"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","rows_launch0(float*)","launch__registers_per_thread","register/thread","40"
"0","rows_launch0(float*)","sm__warps_active.avg.pct_of_peak_sustained_active","%","50"
"1","rows_launch0(float*)","launch__registers_per_thread","register/thread","1,000"
"2","other(float*)","launch__registers_per_thread","register/thread","3"
"""


def test_what_ncu_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ncu.csv"
    path.write_text(NCU)
    found = read_traced(str(path), "rows")
    assert found.values == {"registers of a thread": 520.0, "occupancy": 50.0}
    assert "has nothing of softmax" in read_traced(str(path), "softmax").reason
    own = dojoir.profile(ROWS, sizes=SIZES, measurement=measured(ROWS), ncu=str(path))
    assert own.counters == found and "520 registers of a thread" in str(own)


NSYS = """\
Generating SQLite file
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
75.0,3000,3,1000.0,1000.0,900,1100,50.0,rows_kernel(float*)
25.0,9000,1,9000.0,9000.0,9000,9000,0.0,rows_launch1(float*)
9.0,9,1,9.0,9,9,9,0.0,other
"""
ROCPROF = """\
"Name","Calls","TotalDurationNs","AverageNs","Percentage"
"rows_kernel(float*)",3,3000,1000,75.0
"rows_launch1(float*)",1,9000,9000,25.0
"""


@pytest.mark.parametrize("text", [NSYS, ROCPROF])
def test_what_nsys_and_rocprof_wrote_is_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "stats.csv"
    path.write_text(text)
    assert read_traced(str(path), "rows").values == {"nanoseconds": 3000.0}


@pytest.mark.parametrize(("tool", "text"), [("ncu", NCU), ("nsys", NSYS), ("rocprof", ROCPROF)])
def test_a_profiler_is_run_where_it_is_installed(
    tmp_path: Path, tool: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script in the place of the tool writes the file that it was told to."""
    monkeypatch.setenv("PATH", str(tmp_path))
    script = tmp_path / tool
    script.write_text(f"""#!{sys.executable}
import sys
words = sys.argv[1:]
name = next((words[n + 1] for n, word in enumerate(words) if word in ("--log-file", "--output", "-o")), "")
text = {text!r}
ends = {{"ncu": "", "nsys": "_cuda_gpu_kern_sum.csv"}}
path = name.replace(".csv", ".stats.csv") if {tool!r} == "rocprof" else name + ends[{tool!r}]
open(path, "w").write(text)
""")
    script.chmod(0o755)
    assert traced(tool, ROWS, "cuda", SIZES).values == read_of(tmp_path, text)
    script.write_text("#!/bin/sh\necho no device >&2; exit 3\n")
    with pytest.raises(dojoir.RunError, match="no device"):
        traced(tool, ROWS, "cuda", SIZES)
    script.unlink()
    with pytest.raises(dojoir.ToolchainError, match=f"{tool} is not found"):
        traced(tool, ROWS, "cuda", SIZES)


def read_of(folder: Path, text: str) -> object:
    (folder / "own.csv").write_text(text)
    return read_traced(str(folder / "own.csv"), "rows").values


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", NCU.replace("1,000", "many"), NCU.replace("Metric Value", "Value")]
)
def test_what_is_no_csv_of_ncu_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ncu.csv"
    path.write_text(text)
    with pytest.raises(dojoir.ArgumentError, match="ncu"):
        read_traced(str(path), "rows")
    with pytest.raises(dojoir.ArgumentError, match="cannot read"):
        read_traced(str(tmp_path / "no.csv"), "rows")


GRID = """
kernel scaled(N)
in  x: f32[N]
out y: f32[N]
(N + 63) // 64 : gx
| min(64, N - 64*{0}) : bx
| | y[64*{0} + {1}] = x[64*{0} + {1}] * 2
"""


def test_on_a_gpu_it_says_what_the_kernels_take(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeDriver()
    monkeypatch.setattr(devices, "find", lambda target: fake)
    kernel = dojoir.parse(GRID)
    given = Measurement(kernel.name, "cuda", {"N": 640}, 1, True, (1e-3,) * 9, 0.95, 1, 1, 1e9, 1e9)
    found = dojoir.profile(kernel, "cuda", sizes={"N": 640}, measurement=given)
    assert [(one.threads, one.registers) for one in found.launches] == [(64, 32)]
    assert "32 registers" in str(found) and "ncu" in found.counters.reason and "ncu" in found.code.reason
    assert json.loads(json.dumps(found.to_json()))["launches"][0]["local_bytes"] == 0
