"""`dojoir bench`: what it finds, what it says, and what becomes of what fails. No figure is of a real clock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from synthetic import Clock

import dojoir
from dojoir.evidence import Bench, Shape, TorchFunction, bench, fast_p
from dojoir.evidence.told import bench_lines, result_lines
from dojoir.runtime import Ratio, Together
from dojoir.verbs import main

RELU = dojoir.Trace(dojoir.kernels.load("relu"))
SPLIT = RELU.then("split(0, 16)")


def clock_of(times: dict[str, float], noise: float = 0.0) -> Clock:
    """The kernel with the moves takes 1 ms, others what is given by their hash or name."""
    named = {SPLIT.kernel: 1e-3, RELU.kernel: times.get("text", 1e-3)}

    def seconds(one: object) -> float:
        if isinstance(one, dojoir.Kernel):
            return named.get(one, 1e-3)
        return times[getattr(one, "name", "") or getattr(one, "__name__", "")]

    return Clock(seconds, noise)


def test_a_ratio_above_one_says_that_the_kernel_is_faster() -> None:
    clock = clock_of({"text": 3e-3, "relu": 0.5e-3, "torch": 2e-3})
    found = bench(SPLIT, shapes=[{"N": 64}], beside=("text", "numpy", "torch"), measure=clock)
    (shape,) = found.shapes
    ratios = {one.name: one.ratio.median for one in shape.peers if one.ratio is not None}
    assert ratios == pytest.approx({"text": 3.0, "numpy": 0.5, "torch": 2.0})
    assert found.correct == "pass" and found.protocol == "synthetic" and clock.asked[0]["fewest"] == 30
    assert shape.noise is not None and shape.noise.median == 1
    text = bench_lines(found)
    assert "3.00x" in text and "results: right" in text and "protocol: synthetic" in text
    assert max(map(len, text.splitlines())) <= 120


def test_shapes_have_a_geometric_mean_and_one_that_fails_is_there() -> None:
    clock = clock_of({"text": 4e-3})

    def measure(*given: object, **more: object) -> Together:
        if more["sizes"] == {"N": 13}:
            raise dojoir.RunError("the measurement crashed (SIGSEGV)", "crash")
        return clock(*given, **more)

    found = bench(SPLIT, shapes=[{"N": 64}, {"N": 13}, {"N": 128}], beside=("text",), measure=measure, check=False)
    assert [shape.status for shape in found.shapes] == ["ok", "failed", "ok"]
    assert found.mean("text") == pytest.approx(4.0) and len(found.speedups("text")) == 2
    assert "relu(N=13): failed: the measurement crashed" in bench_lines(found)
    assert "geometric mean of 2 of 3 shapes" in bench_lines(found)
    assert found.correct == "not-run" and [line["correct"] for line in result_lines([found])] == [None] * 3
    assert fast_p([found], "text", 1.0) == 0.0, "what was not compared counts as wrong"


def test_a_peer_that_there_is_not_is_told() -> None:
    found = bench(RELU, shapes=[{"N": 64}], beside=("text", "numpy"), measure=clock_of({"relu": 1e-3}))
    assert found.shapes[0].left_out == {"text": "it is the kernel itself"}
    own = dojoir.parse("kernel own(N)\nin x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = x[{0}]\n")
    found = bench(dojoir.Trace(own), shapes=[{"N": 4}], beside=("numpy", "torch"), measure=Clock(lambda _: 1e-3))
    assert set(found.shapes[0].left_out) == {"numpy", "torch"}
    with pytest.raises(dojoir.ArgumentError, match="no peer jax") as refused:
        bench(RELU, shapes=[{"N": 64}], beside=("jax",), measure=clock_of({}))
    assert refused.value.diagnostic.code == "unknown-peer"


def test_fast_p_is_the_share_of_what_is_right_and_faster() -> None:
    def one(correct: str, median: float) -> Bench:
        clock = clock_of({"text": median * 1e-3})
        found = bench(SPLIT, shapes=[{"N": 64}], beside=("text",), measure=clock, check=False)
        return Bench(**{**vars(found), "correct": correct})

    benches = [one("pass", 2.0), one("pass", 0.5), one("fail", 9.0), one("pass", 1.5)]
    assert [fast_p(benches, "text", p) for p in (0.0, 1.0, 1.8)] == [0.75, 0.5, 0.25]


@pytest.mark.parametrize("function", ["relu", "two", "missing", "fails"])
def test_pytorch_is_a_function_of_a_file(tmp_path: Path, function: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is a peer")
    path = tmp_path / "mine.py"
    path.write_text(
        "import torch\ndef relu(x):\n    return torch.relu(x)\ndef two(x):\n    return x, x\n"
        "def fails(x):\n    raise ValueError('no such thing')\n"
    )
    found = bench(
        SPLIT, shapes=[{"N": 64}], beside=("torch", "numpy"), torch=TorchFunction.of(f"{path}:{function}"),
        seconds=0.05, check=False,
    )  # fmt: skip
    (shape,) = found.shapes
    torch = shape.peer("torch")
    assert shape.status == "ok" and shape.peer("numpy") is not None, "the others are timed all the same"
    if function == "relu":
        assert torch is not None and torch.difference == 0 and torch.count > 0
    else:
        reason = {
            "two": "gives 2 results, and the kernel 1",
            "missing": "has no function missing",
            "fails": "PyTorch failed: ValueError: no such thing",
        }[function]
        assert torch is None and reason in shape.left_out["torch"]


def test_the_command_benches_a_kernel_and_a_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    SPLIT.save(path)
    given = ["bench", "library:relu", str(path), "-s", "N=64,128", "--seconds", "0.05", "--beside", "text,c"]
    assert main([*given, "--json"]) == 0
    out, err = capsys.readouterr()
    lines = [json.loads(line)["bench"] for line in out.splitlines()]
    assert err == "" and [line["sizes"] for line in lines] == [{"N": 64}, {"N": 128}] * 2
    assert all(line["correct"] is True and line["protocol"] == "measure 3, warm caches" for line in lines)
    assert "text" in lines[2]["speedup"] and "text" not in lines[0]["speedup"]


def test_sizes_of_several_kernels_are_those_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    given = [
        "bench",
        "library:relu",
        "library:softmax",
        "-s",
        "N=16",
        "-s",
        "M=8",
        "--seconds",
        "0.05",
        "--no-check",
    ]
    assert main([*given, "--no-check", "--beside", "c", "--json"]) == 0
    lines = [json.loads(line)["bench"] for line in capsys.readouterr().out.splitlines()]
    assert [line["sizes"] for line in lines] == [{"N": 16}, {"N": 16, "M": 8}]
    assert main([*given, "-s", "K=3"]) == 1 and "error[unknown-size]" in capsys.readouterr().err


def test_a_wrong_peer_leaves_no_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for verb in ("bench", "gate"):
        assert main([verb, "library:relu", "-s", "N=4", "--beside", "jax", "--runs", str(tmp_path / "runs")]) == 1
        assert "error[unknown-peer]" in capsys.readouterr().err and not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["bench"], 2, "usage"),
        (["bench", "library:relu"], 1, "size-missing"),
        (["bench", "library:relu", "-s", "N=1", "-s", "M=1"], 1, "unknown-size"),
        (["bench", "library:softmax", "-s", "N=1,2", "-s", "M=1,2,3"], 1, "bad-size"),
        (["bench", "library:relu", "-s", "N=0"], 2, "usage"),
        (["bench", "library:relu", "-s", "N=4", "--beside", "jax"], 1, "unknown-peer"),
        (["bench", "library:relu", "-s", "N=4", "--torch", "nothing"], 1, "bad-arguments"),
        (["bench", "library:relu", "-s", "N=4", "--torch", "nothing.py:f"], 1, "cannot-read"),
        (["bench", "nowhere.json", "-s", "N=4"], 1, "cannot-read"),
    ],
)
def test_bad_input_is_told(
    capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, code: str
) -> None:
    try:
        found = main(arguments)
    except SystemExit as left:
        found = int(str(left.code))
    out, err = capsys.readouterr()
    assert (found, out) == (status, "") and f"error[{code}]" in err and "Traceback" not in err


def test_the_slack_is_the_farther_end_of_the_noise() -> None:
    assert Shape({}, "ok", noise=Ratio(1.0, 0.97, 1.01)).slack == pytest.approx(0.03)
