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
from dojoir.backends import host
from dojoir.cli import main
from dojoir.passes.schedule.plan.planner import Planner, ScheduledForm
from dojoir.schedules import file
from dojoir.schedules.choice import choose
from dojoir.schedules.file import holds

STORED_FILES = sorted(entry.name for entry in files("dojoir.schedules").iterdir() if entry.name.endswith(".moves"))
OWN = [name for name in STORED_FILES if ".gpu" not in name]
"""Those for CPUs; `test_gpu_schedules` has the others."""


def kernel_of(name: str) -> dojoir.Kernel:
    return dojoir.kernels.load(name.split(".")[0])


STORED = """
add                  avx512 avx2
attention            avx2 neon rvv
avgpool2d            avx2 neon rvv
batchnorm_inference  avx512 avx2
batchnorm_training   avx512 avx2
bias_relu            avx512 avx2
bmm                  avx512
conv2d               avx512
cumsum               avx512 avx2
depthwise_conv2d     avx2 neon rvv
dot                  avx512 avx2
gelu                 avx512 avx2
gemv                 avx512 avx2
layernorm            avx512 avx2
log_softmax          avx512 avx2
matmul               avx512
matmul_nt            avx512
matmul_tn            avx512
maxpool2d            avx2 neon rvv
mul                  avx512 avx2
reduce_mean_0        avx512
reduce_mean_1        avx512 avx2
relu                 avx512 avx2
residual_rmsnorm     avx512 avx2
rmsnorm              avx512 avx2
saxpy                avx512 avx2
silu                 avx512 avx2
softmax              avx512 avx2
swiglu               avx2 neon rvv
transpose            avx512 avx2 neon rvv
"""
"""The kernels and machines that a stored schedule is faster for at large sizes. Others have the default."""

MACHINES = ("avx512", "avx2", "neon", "rvv")

FEW_ROWS = {"matmul": (), "matmul_tn": (), "matmul_nt": MACHINES, "matmul_int8": MACHINES}
"""Those that have a schedule for few rows, and on which machines; others have tiles as high as the rows by rule."""


def schedule_of(name: str) -> tuple[dojoir.Kernel, schedules.Schedule]:
    """A schedule that comes with dojoir, and its kernel."""
    schedule = next(s for s in schedules.schedules(name.split(".")[0]) if s.path == name)
    kernel = kernel_of(name)
    return kernel.with_fp(schedule.fp) if schedule.fp else kernel, schedule


@pytest.mark.parametrize("name", OWN)
def test_a_schedule_that_comes_with_dojoir_applies_and_is_right(name: str) -> None:
    kernel, schedule = schedule_of(name)
    assert not schedule.targets, "what comes with dojoir says what it needs of a machine"
    assert any(schedule.fits(kernel, target, sizes_for(schedule)) for target in MACHINES)
    trace = schedule.on(kernel)
    assert trace.moves and trace.is_safe
    assert dojoir.certify(trace)
    report = dojoir.verify(trace.kernel, against=kernel, seeds=1)
    assert report.ok, report


def sizes_for(schedule: schedules.Schedule) -> dict[str, int]:
    """Sizes and threads that meet the first line of conditions of a schedule; nothing of what it does not name."""
    names = {text.split()[0] for line in schedule.when[:1] for text in line}
    return {name: n for name in names for n in (some_size(schedule, name), 1 << 23) if met(schedule, name, n)}


def met(schedule: schedules.Schedule, size: str, value: int) -> bool:
    """Whether the first line of conditions of a schedule allows a value of a size."""
    mine = [text for text in next(iter(schedule.when), ()) if re.match(rf"{size}\b", text)]
    return all(holds(text, {size: value}) for text in mine)


def some_size(schedule: schedules.Schedule, size: str) -> int:
    """The smallest value of a size that meets the conditions of a schedule; 64 or more where none asks for less."""
    mine = [text for text in next(iter(schedule.when), ()) if re.match(rf"{size}\b", text)]
    least = max((int(text.split()[-1]) for text in mine if ">=" in text), default=64)
    return next(n for n in itertools.chain(range(least, 2 * least), range(1, 64)) if met(schedule, size, n))


@pytest.mark.parametrize("rest", [0, 1])
@pytest.mark.parametrize("name", OWN)
def test_a_schedule_that_comes_with_dojoir_fits_fixed_sizes(name: str, rest: int) -> None:
    """At the fewest blocks that it is for, with nothing and with one iteration left after them."""
    kernel, schedule = schedule_of(name)
    free = [size.name for size in kernel.sizes if size.value is None]
    least = {size: some_size(schedule, size) for size in free}
    asked = sizes_for(schedule) | least
    fixed = {size: n + rest for size, n in least.items()}
    fixed |= {
        size: n - rest
        for size, n in fixed.items()
        if not any(schedule.fits(kernel, m, asked | {size: n}) for m in MACHINES)
    }
    kernel = dojoir.kernels.load(kernel.name, **fixed)
    assert schedule.on(kernel.with_fp(schedule.fp) if schedule.fp else kernel).moves


def test_where_no_stored_schedule_fits_there_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "files", lambda _: tmp_path)
    relu = dojoir.kernels.load("relu", N=1 << 20)
    default = dojoir.PASSES["default_schedule"].given("llvm").on(relu)
    (tmp_path / "relu.moves").write_text("# kernel: relu\n# targets: llvm\nvectorize(0.0.0)\n")
    assert choose(relu).trace.moves == default.moves
    (tmp_path / "relu.next.moves").write_text("# kernel: relu\n# targets: llvm\nsplit(0, 32)\n")
    assert [str(move) for move in choose(relu).trace.moves] == ["split(0, 32)"]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What `optimize` chooses for a kernel of the library: the file, or the machine of the default schedule."""
    found: list[str] = []

    def stored(self: schedules.Schedule, kernel: dojoir.Kernel) -> dojoir.Trace:
        found.append(self.path)
        return dojoir.Trace(kernel)

    def planned(self: Planner, trace: dojoir.Trace, every: bool = False) -> list[ScheduledForm]:
        found.append(self.machine.name)
        return [ScheduledForm("default_schedule", trace, 0.0)]

    monkeypatch.setattr(schedules.Schedule, "on", stored)
    monkeypatch.setattr(Planner, "by_roles", planned)
    monkeypatch.setattr(Planner, "plans", planned)

    def of(name: str, machine: str, cpu: str | None = None, **sizes: int) -> str:
        target = machine if machine in MACHINES else "llvm"
        kernel = dojoir.kernels.load(name)
        threads, known = sizes.pop("threads", None), {size.name for size in kernel.sizes}
        own = {size: number for size, number in sizes.items() if size in known}
        choose(kernel, target, sizes=own, threads=threads, cpu=machine if target == "llvm" else None)
        return found[-1]

    return of


def test_which_schedule_each_kernel_has_on_each_machine(chosen: Callable[..., str]) -> None:
    expected = {line.split()[0]: set(line.split()[1:]) for line in STORED.split("\n") if line}
    for name in dojoir.kernels.names():
        own = [s for s in schedules.schedules(name) if not s.fp and ".few" not in s.path and "gpu" not in s.needs]
        kernel = dojoir.kernels.load(name)
        fitting = {m: [s for s in own if s.fits(kernel, m, sizes_for(s))] for m in MACHINES}
        sizes = {} if name not in FEW_ROWS else {"N": 1000, "M": 1000, "K": 1000}
        asked = {m: sizes or next(map(sizes_for, fitting[m]), {}) for m in MACHINES}
        found = {m: chosen(name, m, **asked[m]) for m in MACHINES}
        stored = {machine for machine, choice in found.items() if choice.endswith(".moves")}
        assert stored == expected.get(name, set()), name
        assert all(found[machine] == machine for machine in found if machine not in stored), name
        if name in FEW_ROWS:
            few = {machine: chosen(name, machine, N=1, M=4096, K=1024) for machine in MACHINES}
            of_few = {machine for machine, choice in few.items() if choice.startswith(f"{name}.few")}
            assert of_few == set(FEW_ROWS[name]), few


@pytest.mark.parametrize("name", dojoir.kernels.names())
def test_without_sizes_what_is_for_some_sizes_is_not_taken(name: str, chosen: Callable[..., str]) -> None:
    """Not the few rows of a matmul whose rows nobody has counted: that is nine times slower at a thousand."""
    fixed = {size.name: size.value for size in dojoir.kernels.load(name).sizes if size.value is not None}
    met = {s.path for s in schedules.schedules(name) if any(all(holds(t, fixed) for t in line) for line in s.when)}
    conditional = {s.path for s in schedules.schedules(name) if s.when} - met
    plain = {s.path for s in schedules.schedules(name)} - conditional
    for machine in (*MACHINES, "haswell", "znver4", "neoverse-n1"):
        choice = chosen(name, machine)
        assert choice not in conditional and choice in {*plain, machine}


def test_matmul_without_sizes_is_as_by_default() -> None:
    for name in sorted(FEW_ROWS.keys() - {"matmul_int8"}):
        kernel = dojoir.kernels.load(name)
        assert dojoir.optimize(kernel).moves == dojoir.PASSES["default_schedule"].given("llvm").on(kernel).moves


def test_what_is_stored_is_not_for_small_sizes(chosen: Callable[..., str]) -> None:
    assert chosen("softmax", "znver3", N=3, M=5) == "znver3"
    assert chosen("layernorm", "avx2", N=3, M=5) == "avx2"
    assert chosen("matmul", "rvv", N=7, M=9, K=11) == "rvv"
    assert chosen("softmax", "haswell", N=3) == "haswell"
    assert chosen("softmax", "haswell", M=4096) == "softmax.moves"


def test_what_was_tuned_on_a_processor_is_first_there(chosen: Callable[..., str]) -> None:
    large = {"N": 1 << 24}
    assert chosen("relu", "znver5", **large) == "relu.parts.moves"
    assert chosen("relu", "sapphirerapids", **large) == "relu.moves"
    assert chosen("saxpy", "znver3", **large) == "saxpy.plain.moves"
    assert chosen("saxpy", "haswell", **large) == "saxpy.moves"


def test_what_a_machine_lacks_is_not_taken(chosen: Callable[..., str]) -> None:
    """Stores past the caches in several places at a time are for machines that write whole lines."""
    for name in ("relu", "add", "mul", "bias_relu", "rmsnorm", "layernorm", "batchnorm_inference"):
        sizes = {"N": 1 << 21, "M": 4096} if name != "batchnorm_inference" else {"N": 8, "C": 8, "H": 256, "W": 256}
        for cpu in ("haswell", "znver3"):
            assert chosen(name, cpu, **sizes).startswith(f"{name}.single"), (name, cpu)
    assert chosen("matmul", "haswell", N=1024, M=1024) == "haswell"
    assert chosen("relu", "neoverse-n1", N=1 << 24) == "neoverse-n1"


def test_a_schedule_has_the_same_moves_on_every_machine_that_it_fits() -> None:
    for name in ("softmax", "relu", "layernorm", "transpose"):
        kernel = dojoir.kernels.load(name)
        found: dict[str, set[tuple[str, ...]]] = {}
        for cpu in ("haswell", "znver3", "znver4", "skylake-avx512", "neoverse-n1"):
            sizes = {"N": 1 << 24, "M": 4096}
            choice = schedules.choose(kernel, cpu=cpu, sizes={name: sizes[name] for name in kernel.runtime_sizes})
            if choice.schedule is not None:
                found.setdefault(choice.schedule.path, set()).add(tuple(map(str, choice.trace.moves)))
        assert found and all(len(moves) == 1 for moves in found.values())


def test_the_choice_says_its_machine() -> None:
    choice = schedules.choose(dojoir.kernels.load("relu"), cpu="znver3", sizes={"N": 1 << 24})
    assert str(choice) == (
        "relu: schedule relu.single.moves, 5 moves, for znver3: vectors of 32 bytes, 16 registers, "
        "caches 32 KiB + 512 KiB"
    )
    other = dojoir.parse("kernel f(N)\nin x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = x[{0}]\n")
    assert "default_schedule" in str(schedules.choose(other, "avx2"))


def test_for_one_thread_the_rules_share_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """And rows go side by side where there are too few of them for all cores of the machine."""
    monkeypatch.delenv(file.VARIABLE, raising=False)
    text = "kernel own(N, M)\nin x: f32[N, M]\nout y: f32[N, M]\ntmp s: f32[N]\n\n"
    kernel = dojoir.parse(text + "N\n| s[{0}] = 0\n| M\n| | s[{0}] += x[{0}, {1}]\n| | y[{0}, {1}] = s[{0}]\n")
    sizes = {"N": 6, "M": 1 << 16}
    here = dataclasses.replace(host.detected(), cores=8)
    monkeypatch.setattr(host, "detected", lambda: here)
    one, many = (str(choose(kernel, threads=n, sizes=sizes).trace.kernel) for n in (1, 8))
    assert " : p" not in one and " : p" in many
    assert "N // 4" in one and "N // 4" not in many
    both = [dojoir.schedules.versions(kernel, threads=n).versions[-1].kernel for n in (1, 2)]
    assert [" : p" in str(each) for each in both] == [False, True]


def test_a_kernel_of_small_fixed_sizes_has_no_threads() -> None:
    text = dojoir.to_text(dojoir.optimize(dojoir.kernels.load("softmax", N=3, M=5)).kernel)
    assert ": v" in text and ": p" not in text


def test_the_stored_schedule_is_for_its_kernel_only() -> None:
    softmax = dojoir.kernels.load("softmax")
    stored = next(schedule for schedule in schedules.schedules("softmax") if schedule.path == "softmax.moves")
    assert dojoir.optimize(softmax, sizes={"N": 1 << 24, "M": 4096}).moves == stored.on(softmax).moves
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

    assert found(N=128) == long.moves
    assert found() == found(N=63) == found(N=65) == short.moves
    assert found("c") == dojoir.optimize(kernel, "c").moves
    assert found(N=8) == short.moves


def test_a_schedule_for_some_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the first choice there, for code that runs there."""
    for name, targets, move in (("a", "llvm c", "vectorize(0)"), ("b", "llvm@znver*", "parallelize(0)")):
        (tmp_path / f"relu.{name}.moves").write_text(f"# kernel: relu\n# targets: {targets}\n{move}\n")
    relu = dojoir.kernels.load("relu", N=1 << 20)

    def move(target: str, processor: str) -> str:
        machine = dataclasses.replace(host.detected(), name=processor)
        monkeypatch.setattr(host, "detected", lambda: machine)
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
        (found,) = dojoir.optimize(relu, sizes={"N": 1 << 20}, threads=threads, folders=[tmp_path]).moves
        return str(found)

    assert (move(1), move(2), move(64)) == ("split(0, 2)", "split(0, 4)", "split(0, 4)")
    monkeypatch.setenv("DOJOIR_THREADS", "1")
    assert (move(None), move(2)) == ("split(0, 2)", "split(0, 4)")
    for wrong in (0, -1, True):
        with pytest.raises(dojoir.ArgumentError, match=r"threads (is|must be) an integer"):
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
        ("# kernel: relu\nsplit(0, 2)\n", "no line '# needs: …'"),
        ("# kernel: relu\n# needs: wings >= 2\nsplit(0, 2)\n", "'wings >= 2' is not a need"),
        ("# kernel: relu\n# needs: cpu\ndefault_schedule\n", "default_schedule names no machine"),
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


def test_the_shell_says_which_schedule_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["library:relu", "-O", "--why", "--cpu", "haswell", "-s", f"N={1 << 24}"]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert err.startswith("relu: schedule relu.single.moves, 5 moves, for haswell: vectors of 32 bytes")
    assert "stream" in out


def test_a_bare_pass_in_the_shell_is_for_the_machine_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for words, columns in ((["--cpu", "haswell"], 16), (["--cpu", "znver4"], 64), (["--target", "avx2"], 16)):
        assert main(["library:matmul", "-p", "default_schedule", *words]) == 0
        assert f"c_tile: f32[6, {columns}]" in capsys.readouterr().out.replace("~", "")
