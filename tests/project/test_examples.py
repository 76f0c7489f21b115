"""Every example runs, at small sizes, and shows what it says it shows."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reach import EXAMPLES, Example, names

import dojoir
from dojoir.runtime.verification.inputs import make_inputs


def run(capsys: pytest.CaptureFixture[str], example: str, /, **small: Any) -> str:
    """What the `main` of an example prints, with arguments that make it quick."""
    runpy.run_path(str(EXAMPLES / example))["main"](**small)
    return capsys.readouterr().out


def test_all_examples_are_here() -> None:
    tested = {name.removeprefix("test_example_") for name in globals() if name.startswith("test_example_")}
    assert tested == {path.stem for path in EXAMPLES.glob("*.py")}


def test_example_01_write_and_run(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "01_write_and_run.py", n=20)
    assert "kernel distances(N, M, K)" in out
    assert "error[out-of-bounds]" in out


def test_example_02_builder(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "02_builder.py")
    assert "kernel fir(N)" in out


def test_example_03_optimise_softmax(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "03_optimise_softmax.py", n=48)
    assert "error[wrong-value]: reuse_dims(m, 0)" in out
    assert out.count("times as fast as at first") == 9
    assert "tmp e: f32[N~, M]" in out


def test_example_04_random_search(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "04_random_search.py", name="rmsnorm", size=32, walks=2, length=3)
    assert "kernel rmsnorm(N, M)" in out


def test_the_random_search_is_short() -> None:
    lines = (EXAMPLES / "04_random_search.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 60


def test_example_05_save_and_replay(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "05_save_and_replay.py")
    assert '"tile(@i, @j, 8, 32)"' in out
    assert "kernel matmul_nt" in out


def test_example_06_chain(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "06_chain.py", n=48)
    assert str(dojoir.load(EXAMPLES / "scaled_softmax.dojo")) in out
    assert str(dojoir.load(EXAMPLES / "matmul_bias_relu.dojo")) in out
    assert "error[different-extents]" in out
    assert "times as fast as one after the other" in out


def test_example_07_beam_search(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["relu", "N=64", "--width", "1", "--depth", "1", "--tries", "2", "--store", str(tmp_path)]
    out = run(capsys, "07_beam_search.py", arguments=arguments)
    assert "relu on llvm: ok" in out
    (stored,) = tmp_path.iterdir()
    assert "# targets: llvm" in stored.read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore")  # PyTorch's compiler has some of its own
def test_example_08_torch(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="needs PyTorch")
    out = run(capsys, "08_torch.py", steps=20)
    (apart,) = re.findall(r"at most (\S+) apart", out)
    assert float(apart) < 1e-4
    assert "torch.Size([2, 3, 8]) torch.bfloat16" in out
    assert "pass x.to(torch.float32)" in out


def test_example_09_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ziglang", reason="needs a compiler of C++ for the harness")
    out = run(capsys, "09_gpu.py")
    assert "N : gx @i" in out
    assert out.count("// barrier: a_tile, b_tile") == 1
    assert "all results are right" in out


def test_example_11_game(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gymnasium", reason="needs the extra agents")
    pytest.importorskip("sqlalchemy", reason="needs the extra agents")
    out = run(capsys, "11_game.py", kernel="gemv", size=64, episodes=4, length=4)
    assert "kernel gemv(N" in out and "times as fast as the start" in out
    assert "states of 4 episodes" in out


def test_example_12_cost_model(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "12_cost_model.py", states=130, timer="static")
    assert "cost model: rank correlation" in out


def test_example_13_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    assert "softmax: " in run(capsys, "13_strategy.py", states=12, timer="static")


def test_example_14_candidates(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gymnasium", reason="needs the extra agents")
    assert "the best of 2 episodes is e^" in run(capsys, "14_candidates.py", size=64, episodes=2)


def test_example_15_language_model(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(
        capsys, "15_language_model.py", arguments=["--kernel", "rmsnorm", "--size", "64", "--timer", "static"]
    )
    assert "rmsnorm: " in out and " questions, " in out and "vectorize" not in out.partition("kernel ")[2]
    assert len((EXAMPLES / "15_language_model.py").read_text(encoding="utf-8").splitlines()) < 300


def test_example_16_ppo(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="needs the extra learn")
    out = run(capsys, "16_ppo.py", steps=20, episodes=1, statements=1 << 12, train=["relu", "bias_relu"],
              held_out=["gelu"])  # fmt: skip
    assert "steps: " in out and "on kernels that it never saw PPO is at " in out
    assert len((EXAMPLES / "16_ppo.py").read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.parametrize("name", ["12_cost_model", "13_strategy", "14_candidates"])
def test_what_is_one_s_own_is_short(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 30


def test_the_beam_search_is_short() -> None:
    assert len((EXAMPLES / "07_beam_search.py").read_text(encoding="utf-8").splitlines()) <= 100


@pytest.fixture(scope="module", params=names())
def example(request: pytest.FixtureRequest) -> Example:
    return Example(request.param)


def test_the_list_of_examples_is_complete() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)(?:\.py)?` \|", text, re.MULTILINE)
    assert sorted(listed) == sorted([*names(), *(path.stem for path in EXAMPLES.glob("*.py"))])


def test_each_text_has_its_moves() -> None:
    assert names() == sorted(path.stem for path in EXAMPLES.glob("*.dojo"))


def test_the_moves_reach_the_text_they_say(example: Example) -> None:
    lines = [line.lstrip("| ").split(" @")[0] for line in dojoir.to_text(example.trace.kernel).splitlines()]
    assert example.reached
    for line in example.reached:
        assert line in lines, dojoir.to_text(example.trace.kernel)


def test_the_trace_of_an_example_is_certified_and_loaded_again(example: Example, tmp_path: Path) -> None:
    assert example.trace.is_safe
    example.trace.save(tmp_path / "trace.json")
    again = dojoir.Trace.load(tmp_path / "trace.json")
    assert again.replay() == example.trace.kernel
    verdict = dojoir.certify(again)
    assert verdict, str(verdict)


def test_what_an_example_is_timed_against_gives_the_same(example: Example) -> None:
    kernel, sizes = example.trace.start, example.sizes[-1]
    if not example.numpy:
        return
    given = make_inputs(kernel, sizes, 0, "normal")
    outputs = {
        buffer.name: np.zeros([dim.extent.evaluate(sizes) for dim in buffer.dims], np.float32)
        for buffer in kernel.arguments
        if buffer.role == "out"
    }
    names = {**{name: np.copy(array) for name, array in given.items()}, **outputs}
    exec(example.numpy, {"np": np, **sizes, **names})
    for name, wanted in dojoir.interpret(kernel, given, **sizes).items():
        np.testing.assert_allclose(names[name], wanted, rtol=2e-4, atol=2e-5)


def test_an_example_means_the_same_after_its_moves(example: Example) -> None:
    kernel, start = example.trace.kernel, example.trace.start
    report = dojoir.verify(kernel, start, sizes=example.sizes, seeds=(0,), distributions=("normal",), threads=2)
    assert report.ok, str(report)


def test_example_10_search(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # what others measure meanwhile is not waited for
    out = run(capsys, "10_search.py", name="relu", seconds=60.0, states=5)
    assert out.count("relu: ") == 2 and out.count("as fast as the start") >= 2  # a note may say so as well
    lines = (EXAMPLES / "10_search.py").read_text(encoding="utf-8").splitlines()
    first, last = (
        next(n for n, line in enumerate(lines) if line.startswith(word)) for word in ("class", "def main")
    )
    assert last - first <= 40
