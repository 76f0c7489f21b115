"""Problems of KernelBench as they are: a file with `Model`, `get_inputs` and `get_init_inputs`.

The module is the reference and what is timed beside; dojoir's answer is what `from_module` makes of it.
Inputs, seeds, tolerances and the share that is right and faster are those of the benchmark.

Source: A. Ouyang et al., KernelBench: Can LLMs Write Efficient GPU Kernels? (2025), arXiv:2502.10517.
"""

from __future__ import annotations

import runpy
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dojoir
from dojoir import runtime
from dojoir.evidence.benching import SAMPLES, SECONDS, TIME_LIMIT, Measure
from dojoir.evidence.benching import shape as shape_of
from dojoir.evidence.bundle import Verdict
from dojoir.evidence.figures import ITSELF, Bench, ComparisonReport, Shape, Status, computed
from dojoir.records.contexts import this_machine, versions_here

SEED = 42
"""The seed of the weights, as in the benchmark."""

TRIALS = 5
"""How many inputs the results are compared on."""

TOLERANCE = {"torch.float64": 1e-4, "torch.float32": 1e-4, "torch.float16": 1e-2, "torch.bfloat16": 1e-2}
"""Absolute and relative, by the type of a result."""

PEERS = ("torch", "compile")
"""The peers that a problem is timed beside: its module, eager and compiled."""

_CARRIER = "kernel carrier()\nout y: f32[1]\n\n1\n| y[{0}] = 0\n"
"""The carrier comes first among the contestants and declares the arguments; all others make their own."""


@dataclass(frozen=True)
class Problem:
    """A problem: the file, and what it defines."""

    path: Path
    model: Callable[..., Any]
    inputs: Callable[[], Sequence[Any]]
    init_inputs: Callable[[], Sequence[Any]]

    @property
    def name(self) -> str:
        return self.path.stem

    def module(self, device: str = "cpu") -> Any:
        """The module with the weights of the benchmark's seed."""
        import torch

        torch.manual_seed(SEED)
        given = list(self.init_inputs())
        return self.model(*given).to(device)

    def drawn(self, seed: int, device: str = "cpu") -> tuple[Any, ...]:
        """Inputs of a seed."""
        import torch

        torch.manual_seed(seed)
        return tuple(x.to(device) if isinstance(x, torch.Tensor) else x for x in self.inputs())


def load_problem(path: str | Path) -> Problem:
    """Reads a file. Raises ArgumentError, `cannot-read` or `not-a-problem`; ToolchainError without PyTorch."""
    _need_torch()
    where = Path(path)
    if not where.is_file():
        raise dojoir.ArgumentError(f"cannot read {path}: there is no such file", "cannot-read")
    try:
        names = runpy.run_path(str(where))
    except Exception as error:
        raise dojoir.ArgumentError(f"cannot load {path}: {type(error).__name__}: {error}", "cannot-read") from None
    missing = [n for n in ("Model", "get_inputs", "get_init_inputs") if not callable(names.get(n))]
    if missing:
        raise dojoir.ArgumentError(
            f"{path} is no problem of KernelBench: it does not define {', '.join(missing)}", "not-a-problem"
        )
    return Problem(where, names["Model"], names["get_inputs"], names["get_init_inputs"])


def problems(path: str | Path) -> list[Path]:
    """The files of a folder, in the order of their numbers, or the file. Raises ArgumentError, `cannot-read`."""
    where = Path(path)
    if not where.is_dir():
        return [where]
    found = [p for p in where.rglob("*.py") if not p.name.startswith("_")]
    if not found:
        raise dojoir.ArgumentError(f"{path} has no problems: there are no files *.py", "cannot-read")
    return sorted(found, key=lambda p: (str(p.parent), _number_of_problem(p.stem), p.stem))


def _number_of_problem(stem: str) -> int:
    first = stem.split("_")[0]
    return int(first) if first.isdigit() else 10**9


def bench_problem(
    path: str | Path,
    *,
    beside: Sequence[str] = PEERS,
    target: str = "llvm",
    threads: int = 1,
    cold: bool = False,
    samples: int = SAMPLES,
    seconds: float = SECONDS,
    time_limit: float = TIME_LIMIT,
    measure: Measure = dojoir.measure_together,
) -> Bench:
    """Times what dojoir makes of a problem beside its module: `torch` and `compile`. First of all the results are
    compared on TRIALS inputs. What is wrong or cannot be expressed is in the answer, with the reason, and is not
    timed.

    Raises ArgumentError for what is no problem, for an unknown peer, and ToolchainError without PyTorch."""
    unknown = [name for name in beside if name not in PEERS]
    if unknown:
        raise dojoir.ArgumentError(
            f"a problem of KernelBench is timed beside {' and '.join(PEERS)}, not {', '.join(unknown)}",
            "unknown-peer",
        )
    problem = load_problem(path)
    correct, reason, digest = _checked(problem, target, threads)
    shape, protocol = Shape({}, "failed", reason), ""
    if correct == "pass":
        names = ["dojoir", ITSELF, *beside]
        contestants: list[runtime.Contestant] = [dojoir.parse(_CARRIER)]
        contestants += [_contestant(problem, name, target, threads) for name in names]
        try:
            together = measure(
                contestants, "llvm", cold=cold, threads=threads, budget=seconds, precision=0.002, fewest=samples,
                time_limit=time_limit, leave_out=True, sizes={},
            )  # fmt: skip
        except (dojoir.RunError, dojoir.ToolchainError, dojoir.KernelError) as error:
            status: Status = "unavailable" if isinstance(error, dojoir.ToolchainError) else "failed"
            shape = Shape({}, status, error.diagnostic.message)
        else:
            shape, protocol = _shape(names, together), together.measurements[0].protocol
    machine, _ = this_machine(target)
    report = ComparisonReport({}, "ok", TRIALS) if correct == "pass" else ComparisonReport({}, "failed", 0, reason)
    return computed(Bench(
        problem.name, digest, target, threads, protocol, machine, versions_here(), correct, reason, (shape,),
        (report,),
    ))  # fmt: skip


def _shape(names: Sequence[str], together: runtime.Together) -> Shape:
    """The result of timing a carrier, what dojoir makes, and others by name."""
    gone = {number - 1: reason for number, reason in together.left_out.items()}
    if 0 in gone:
        return Shape({}, "failed", gone[0])
    found = shape_of({}, names[1:], runtime.Together(together.measurements[1:], gone), {})
    return replace(found, ceiling=None)


def _contestant(problem: Problem, name: str, target: str, threads: int) -> runtime.PythonCode:
    way = "dojoir" if name == ITSELF else name
    call = f"bound({str(problem.path.resolve())!r}, {way!r}, {target!r}, {threads}, y)"
    return runtime.PythonCode("_call()", f"from dojoir.evidence.kernelbench import bound\n_call = {call}", name)


def bound(path: str, way: str, target: str, threads: int, y: Any) -> Callable[[], object]:
    """A problem as a call without arguments, in the process that times it."""
    import torch

    torch.set_num_threads(threads)
    device = device_of(target)
    problem = load_problem(path)
    module, inputs = problem.module(device), problem.drawn(SEED, device)
    function: Any = module
    if way == "compile":
        function = torch.compile(module)
    elif way == "dojoir":
        function = dojoir.torch.from_module(module, inputs, threads=threads, whole=True)
    y[:] = 0

    def call() -> object:
        with torch.no_grad():
            return function(*inputs)

    def call_on_device() -> object:
        made = call()
        torch.cuda.synchronize()
        return made

    return call if device == "cpu" else call_on_device


def device_of(target: str) -> str:
    """Where a problem runs. Raises ArgumentError for a target that modules do not run on."""
    if target == "llvm":
        return "cpu"
    if target in ("cuda", "hip"):
        return "cuda"
    raise dojoir.ArgumentError(f"a module runs on llvm, cuda or hip, not on {target}", "unknown-target")


def _checked(problem: Problem, target: str, threads: int) -> tuple[Verdict, str, str]:
    """Whether the results are near those of the module, why not, and the hash of the first kernel."""
    import torch

    device = device_of(target)
    reference = problem.module(device)
    inputs = problem.drawn(SEED, device)
    try:
        imported = dojoir.torch.from_module(problem.module(device), inputs, threads=threads, whole=True)
    except dojoir.DojoError as error:
        return "fail", error.diagnostic.message, ""
    digest = imported.kernels[0].hash if imported.kernels else ""
    torch.manual_seed(SEED)
    seeds = [int(torch.randint(0, 2**31 - 1, (1,))) for _ in range(TRIALS)]
    for seed in seeds:
        given = problem.drawn(seed, device)
        with torch.no_grad():
            try:
                found = _tensors(imported(*given))
            except dojoir.DojoError as error:
                return "fail", error.diagnostic.message, digest
            wanted = _tensors(reference(*given))
        for mine, right in zip(found, wanted, strict=True):
            if mine.shape != right.shape:
                return "fail", f"the shape is {tuple(mine.shape)}, not {tuple(right.shape)}", digest
            limit = TOLERANCE.get(str(right.dtype), 0.0)
            if not torch.allclose(mine, right, atol=limit, rtol=limit, equal_nan=True):
                apart = float((mine.double() - right.double()).abs().max())
                return "fail", f"with seed {seed} the results differ by {apart:.2g}", digest
    return "pass", "", digest


def _tensors(found: Any) -> list[Any]:
    import torch

    several = found if isinstance(found, tuple | list) else (found,)
    return [t for t in several if isinstance(t, torch.Tensor)]


def result_line(bench: Bench) -> dict[str, object]:
    """The result of a problem for a program: `compiled`, `correctness`, `runtime` with its statistics in
    milliseconds, as the benchmark has them, and `speedup` over each baseline."""
    (shape,) = bench.shapes
    own = shape.own
    line: dict[str, object] = {
        "problem_name": bench.kernel,
        "compiled": bool(bench.hash),
        "correctness": bench.correct == "pass",
        "runtime": -1.0 if own is None else own.seconds * 1e3,
        "runtime_stats": {} if own is None else _stats(own.samples),
        "baseline": {one.name: one.seconds * 1e3 for one in shape.peers},
        "speedup": {one.name: one.ratio.median for one in shape.peers if one.ratio is not None},
        "metadata": {
            "hardware": bench.machine, "device": bench.target, "threads": bench.threads, "protocol": bench.protocol,
            "reason": bench.reason or shape.reason,
        },
    }  # fmt: skip
    return line


def _stats(samples: Sequence[float]) -> dict[str, float]:
    in_ms = [s * 1e3 for s in samples]
    return {
        "mean": statistics.fmean(in_ms), "std": statistics.pstdev(in_ms), "min": min(in_ms), "max": max(in_ms),
        "num_trials": len(in_ms),
    }  # fmt: skip


def _need_torch() -> None:
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise dojoir.ToolchainError("PyTorch is not installed: pip install 'dojoir[torch]'", "no-torch")
