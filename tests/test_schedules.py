"""Stored schedules: each applies, is proved and gives right results; `optimize` picks the one that fits."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

import dojoir
from dojoir import schedules

OWN = sorted(entry.name for entry in files("dojoir.schedules").iterdir() if entry.name.endswith(".moves"))


def kernel_of(name: str) -> dojoir.Kernel:
    return dojoir.kernels.load(name.split(".")[0])


STORED = """
add                  avx2
attention            avx2 neon rvv
avgpool2d            avx2 neon rvv
bias_relu            avx2
cumsum               avx2
depthwise_conv2d     avx2 neon rvv
gelu                 avx2
layernorm            avx2
maxpool2d            avx2 neon rvv
mul                  avx2
relu                 avx2
residual_rmsnorm     avx2
rmsnorm              avx2
silu                 avx2
softmax              avx2
swiglu               avx2 neon rvv
transpose            avx2 neon rvv
"""
"""The kernels and targets besides llvm, c and avx512 that a stored schedule is faster for at large sizes. Others
have the default."""

FEW_ROWS = {"matmul", "matmul_tn", "matmul_nt", "matmul_int8"}
"""Those that have a schedule for few rows, on every target."""


def schedule_of(name: str) -> tuple[dojoir.Kernel, schedules.Schedule]:
    """A schedule that comes with dojoir, and its kernel."""
    schedule = next(s for s in schedules.schedules(name.split(".")[0]) if s.path == name)
    kernel = kernel_of(name)
    return kernel.with_fp(schedule.fp) if schedule.fp else kernel, schedule


@pytest.mark.parametrize("name", OWN)
def test_a_schedule_that_comes_with_dojoir_applies_and_is_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, schedule = schedule_of(name)
    for entry in schedule.targets:
        target, at, cpu = entry.partition("@")
        monkeypatch.setattr(dojoir, "processor", lambda cpu=cpu: cpu.replace("*", "4"))
        assert schedule.fits(kernel, target, {})
        assert target in dojoir.TARGETS
        assert not at or target == "llvm"
    trace = schedule.on(kernel)
    assert trace.moves and trace.is_safe
    assert dojoir.certify(trace)
    report = dojoir.verify(trace.kernel, against=kernel, seeds=1)
    assert report.ok, report


def some_size(schedule: schedules.Schedule, size: str) -> int:
    """The smallest value of a size that meets the conditions of a schedule; 64 or more where none asks for less."""
    mine = [text for text in next(iter(schedule.when), ()) if re.match(rf"{size}\b", text)]
    least = max((int(text.split()[-1]) for text in mine if ">=" in text), default=64)
    values = itertools.chain(range(least, 2 * least), range(1, 64))
    return next(n for n in values if all(schedules._holds(text, {size: n}) for text in mine))


@pytest.mark.parametrize("rest", [0, 1])
@pytest.mark.parametrize("name", OWN)
def test_a_schedule_that_comes_with_dojoir_fits_fixed_sizes(name: str, rest: int) -> None:
    """At the fewest blocks that it is for, with nothing and with one iteration left after them."""
    kernel, schedule = schedule_of(name)
    free = [size.name for size in kernel.sizes if size.value is None]
    fixed = {size: some_size(schedule, size) + rest for size in free}
    fixed |= {
        size: n - rest for size, n in fixed.items() if not schedule.fits(kernel, schedule.targets[0], {size: n})
    }
    kernel = dojoir.kernels.load(kernel.name, **fixed)
    assert schedule.on(kernel.with_fp(schedule.fp) if schedule.fp else kernel).moves


def test_where_no_stored_schedule_fits_there_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dojoir, "processor", lambda: "generic")
    monkeypatch.setattr(schedules, "files", lambda _: tmp_path)
    relu = dojoir.kernels.load("relu", N=1 << 20)
    default = dojoir.PASSES["default_schedule"].given("llvm").on(relu)
    (tmp_path / "relu.moves").write_text("# kernel: relu\n# targets: llvm\nvectorize(0.0.0)\n")
    assert dojoir.optimize(relu).moves == default.moves
    (tmp_path / "relu.next.moves").write_text("# kernel: relu\n# targets: llvm\nsplit(0, 32)\n")
    assert [str(move) for move in dojoir.optimize(relu).moves] == ["split(0, 32)"]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What `optimize` chooses for a kernel of the library: the file, or the target of the default schedule."""
    found: list[str] = []

    def stored(self: schedules.Schedule, kernel: dojoir.Kernel) -> dojoir.Trace:
        found.append(self.path)
        return dojoir.Trace(kernel)

    def default(trace: dojoir.Trace, target: str) -> None:
        found.append(target)

    monkeypatch.setattr(schedules.Schedule, "on", stored)
    pass_ = dataclasses.replace(dojoir.PASSES["default_schedule"], run=default)
    monkeypatch.setattr(dojoir, "PASSES", {**dojoir.PASSES, "default_schedule": pass_})
    monkeypatch.setattr(dojoir, "processor", lambda: "generic")

    def choose(name: str, target: str, **sizes: int) -> str:
        dojoir.optimize(dojoir.kernels.load(name), target, sizes=sizes)
        return found[-1]

    return choose


def test_which_schedule_each_kernel_has_on_each_target(chosen: Callable[..., str]) -> None:
    expected = {line.split()[0]: set(line.split()[1:]) for line in STORED.split("\n") if line}
    for name in dojoir.kernels.names():
        sizes = {} if name not in FEW_ROWS else {"N": 100}
        found = {target: chosen(name, target, **sizes) for target in dojoir.TARGETS}
        stored = {target for target, choice in found.items() if choice.endswith(".moves")}
        named = {target for schedule in schedules.schedules(name) if not schedule.fp for target in schedule.targets
                 if "@" not in target}  # fmt: skip
        assert stored - {"llvm", "c", "avx512"} == expected.get(name, set()), name
        assert stored <= named and (name in FEW_ROWS or stored == named), name
        assert all(found[target] == target for target in found if target not in stored), name
        if name in FEW_ROWS:
            few = {chosen(name, target, N=1, M=4096, K=1024) for target in dojoir.TARGETS}
            assert all(choice.startswith(f"{name}.few") for choice in few), few


def test_what_is_stored_is_not_for_small_sizes(chosen: Callable[..., str]) -> None:
    assert chosen("softmax", "llvm", N=3, M=5) == "llvm"
    assert chosen("layernorm", "avx2", N=3, M=5) == "avx2"
    assert chosen("matmul", "rvv", N=7, M=9, K=11) == "rvv"
    assert chosen("softmax", "llvm", N=3) == "softmax.moves"


def test_a_kernel_of_small_fixed_sizes_has_no_threads() -> None:
    text = dojoir.to_text(dojoir.optimize(dojoir.kernels.load("softmax", N=3, M=5)).kernel)
    assert ": v" in text and ": p" not in text


def test_the_stored_schedule_is_for_its_kernel_only() -> None:
    softmax = dojoir.kernels.load("softmax")
    stored = next(schedule for schedule in schedules.schedules("softmax") if schedule.path == "softmax.moves")
    assert dojoir.optimize(softmax, sizes={"M": 4096}).moves == stored.on(softmax).moves
    fixed = dojoir.kernels.load("softmax", N=64)
    assert dojoir.optimize(fixed).start == fixed
    other = dojoir.parse("kernel softmax(N)\nin x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = x[{0}]\n")
    default = dojoir.PASSES["default_schedule"].on(other)
    assert dojoir.optimize(other).moves == default.moves


def test_what_is_stored_is_found_where_it_fits(tmp_path: Path) -> None:
    kernel = dojoir.kernels.load("relu")
    long, short = dojoir.Trace(kernel), dojoir.Trace(kernel)
    long.apply("split(0, 64)")
    short.apply("vectorize(0)")
    schedules.store(short, "llvm", tmp_path)
    path = schedules.store(long, "llvm", tmp_path, when=["N >= 64", "N % 8 == 0"], note="blocks")
    assert path.read_text().startswith("# blocks\n# kernel: ")
    assert schedules.store(long, "llvm", tmp_path, when=["N >= 64", "N % 8 == 0"]) == path
    assert len(list(tmp_path.iterdir())) == 2

    def found(target: str = "llvm", **sizes: int) -> tuple[dojoir.Move, ...]:
        return dojoir.optimize(kernel, target, sizes=sizes, folders=[tmp_path]).moves

    assert found() == found(N=128) == long.moves
    assert found(N=63) == found(N=65) == short.moves
    assert found("c") == dojoir.optimize(kernel, "c").moves
    assert found(N=8) == short.moves


def test_a_schedule_for_some_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the first choice there, for code that runs there."""
    for name, targets, move in (("a", "llvm c", "vectorize(0)"), ("b", "llvm@znver*", "parallelize(0)")):
        (tmp_path / f"relu.{name}.moves").write_text(f"# kernel: relu\n# targets: {targets}\n{move}\n")
    relu = dojoir.kernels.load("relu", N=1 << 20)

    def move(target: str, processor: str) -> str:
        monkeypatch.setattr(dojoir, "processor", lambda: processor)
        (found,) = dojoir.optimize(relu, target, folders=[tmp_path]).moves
        return str(found)

    assert move("llvm", "znver4") == move("llvm", "znver5") == "parallelize(0)"
    assert move("llvm", "icelake-server") == move("c", "znver4") == "vectorize(0)"


def test_each_condition_has_a_file_of_its_own(tmp_path: Path) -> None:
    trace = dojoir.Trace(dojoir.kernels.load("relu"))
    conditions = ["N == 8", "N != 8", "N <= 8", "N >= 8", "N < 8", "N > 8", "N % 8 == 1", "N == 81", "N>=81"]
    found = [schedules.store(trace, "llvm", tmp_path, when=[condition]).name for condition in conditions]
    assert len(set(found)) == len(conditions)
    assert found[3].endswith("_llvm_N_ge_8.moves") and found[6].endswith("_llvm_N_mod_8_eq_1.moves")
    assert schedules.store(trace, "llvm", tmp_path, when=["N>=8"]).name == found[3]


def test_a_schedule_for_a_number_of_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    relu = dojoir.kernels.load("relu")
    for factor, condition in ((2, "threads == 1"), (4, "threads > 1")):
        trace = dojoir.Trace(relu)
        trace.apply(f"split(0, {factor})")
        schedules.store(trace, "llvm", tmp_path, when=[condition, "N >= 64"])

    def move(threads: int | None) -> str:
        (found,) = dojoir.optimize(relu, threads=threads, folders=[tmp_path]).moves
        return str(found)

    assert (move(1), move(2), move(64)) == ("split(0, 2)", "split(0, 4)", "split(0, 4)")
    monkeypatch.setenv("DOJOIR_THREADS", "1")
    assert (move(None), move(2)) == ("split(0, 2)", "split(0, 4)")
    for wrong in (0, -1, True):
        with pytest.raises(dojoir.ArgumentError, match="threads must be an integer from 1"):
            move(wrong)


def test_one_line_of_conditions_has_to_be_met(tmp_path: Path) -> None:
    lines = "# kernel: relu\n# targets: llvm\n# when: N >= 64, N % 8 == 0\n# when: threads == 1\nsplit(0, 2)\n"
    (tmp_path / "relu.moves").write_text(lines)

    def fits(n: int, threads: int) -> bool:
        trace = dojoir.optimize(dojoir.kernels.load("relu"), sizes={"N": n}, threads=threads, folders=[tmp_path])
        return str(trace.moves[0]) == "split(0, 2)"

    assert fits(64, 2) and fits(64, 1) and fits(65, 1)
    assert not fits(65, 2) and not fits(8, 2)


def test_folders_of_the_environment_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = dojoir.kernels.load("relu")
    trace = dojoir.Trace(kernel)
    trace.apply("split(0, 2)")
    schedules.store(trace, "llvm", tmp_path)
    monkeypatch.setenv(schedules.VARIABLE, str(tmp_path))
    assert dojoir.optimize(kernel).moves == trace.moves
    monkeypatch.setenv(schedules.VARIABLE, str(tmp_path / "none"))
    with pytest.raises(dojoir.ArgumentError, match="no folder"):
        dojoir.optimize(kernel)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("split(0, 2)\n", "no line '# kernel: …'"),
        ("# kernel: relu\nsplit(0, 2)\n", "no line '# targets: …'"),
        ("# kernel: relu\n# targets: llvm\n# when: N is large\nsplit(0, 2)\n", "'N is large' is not a condition"),
        ("# kernel: relu\n# targets: c\n# when: N > 8\n# when: N % 0 > 1\n", "'N % 0 > 1' is not a condition"),
        ("# kernel: relu\n# kernel: gelu\n# targets: llvm\nsplit(0, 2)\n", "more than one line '# kernel: …'"),
    ],
)
def test_a_file_that_is_no_schedule_is_an_error(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "relu.moves").write_text(text)
    with pytest.raises(dojoir.ArgumentError, match=complaint):
        dojoir.optimize(dojoir.kernels.load("relu"), folders=[tmp_path])


def test_a_schedule_whose_moves_do_not_fit_says_so(tmp_path: Path) -> None:
    (tmp_path / "relu.moves").write_text("# kernel: relu\n# targets: llvm\njoin_scopes(0, 1)\n")
    with pytest.raises(dojoir.IllegalMove, match="join_scopes"):
        dojoir.optimize(dojoir.kernels.load("relu"), folders=[tmp_path])


def test_a_bad_condition_is_not_stored(tmp_path: Path) -> None:
    with pytest.raises(dojoir.ArgumentError, match="not a condition"):
        schedules.store(dojoir.Trace(dojoir.kernels.load("relu")), "llvm", tmp_path, when=["large"])
    assert not list(tmp_path.iterdir())
