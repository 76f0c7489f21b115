"""Texts of practice, as a newcomer writes them, with the schedule that the rules give, beside PyTorch eager.

    python benchmarks/practice.py [--folder unseen] [--rows conv1x1 mlp_loss] [--group programs]
                                  [--json FILE [--resume]]
                                  [--peers text compiled onnx jax numba] [--share 0/12]
    python benchmarks/practice.py --from FILE        # what was measured before; runs nothing

Each file of `practice/` is a text with no schedule of its own. Comments above it say its group, the sizes that it
is timed at (`gpu`: those on a GPU, by `practice_gpu.py`), the same mathematics in PyTorch (`eager`, an expression
of the names of its inputs and sizes, with what is `inout` as it is afterwards), and what its inputs are:
`indices` gives the bound of integers, which are else any of their type, `scale` a factor of normal numbers,
`positive` what is made so, and `made` an expression of NumPy, of the sizes and of `draw`, its generator. Where a
comment `numpy` has the same as an expression of NumPy, so is that. What is `written` after the rules of some time
was not known to them, and is reported apart. `--folder unseen` takes the files of `unseen/`: 40 texts that were
written when the planner was done, to be timed before anything is changed for them.

All run on one thread in one process, in turn, on the clock of the process: others on the machine disturb all alike.
`--peers` adds the text as it is written, the same expression by torch.compile, ONNX Runtime and JAX, and the loops
of the text by Numba. The time is the best of many turns, and a ratio above 1 says that dojoir is faster.
Results are compared.
Beside it stands which ceiling the time is nearest to, as a share of it: the operations of the text at the peak
of fused multiply-adds, or its arrays once through memory. A row under 1 and far from both is for a rule to see;
more than all of it says that the arrays stay in a cache. The file of `--json` is written after every row.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from practice_peers import PEERS, Lacking

import dojoir

FOLDERS = Path(__file__).resolve().parent
FOLDER = "practice"
"""The folder beside this file that texts are read from, if no other one is asked for."""

TOLERANCE = 2e-3
"""How far results may be apart, as a share of the largest: float sums in other orders."""

BUDGET, LEAST = 0.6, 5
"""Seconds of one row's timing, and the least number of turns."""


@dataclass(frozen=True)
class Text:
    """A text of practice: the kernel and what its comments say."""

    name: str
    kernel: dojoir.Kernel
    group: str
    sizes: dict[str, int]
    gpu: dict[str, int]
    """The sizes that it is timed at on a GPU."""
    eager: str
    bounds: dict[str, str]
    scales: dict[str, float]
    positive: frozenset[str]
    made: dict[str, str] = field(default_factory=dict)
    numpy: str = ""
    written: str = ""
    """When it was written, where that was after the rules of some time."""
    codes: frozenset[str] = frozenset()
    """Results that are codes of rounded numbers: PyTorch may round a tie, or its scale, to the next one."""
    eager_gpu: str = ""
    """PyTorch's expression on a GPU, where it has not what `eager` says."""

    @staticmethod
    def torch_type(buffer: Any) -> str:
        """PyTorch's name for the type of a buffer's elements; the codes of what is narrow are those of uint8."""
        return "bfloat16" if str(buffer.dtype) == "bf16" else _numpy(buffer)

    def inputs(self, sizes: Mapping[str, int] | None = None) -> dict[str, np.ndarray]:
        """Its inputs, the same ones for the same name; at the sizes of a CPU if none are given."""
        draw, sizes = np.random.default_rng(len(self.name)), sizes or self.sizes
        return {b.name: self.input(b, sizes, draw) for b in self.kernel.arguments if b.role != "out"}

    def input(self, buffer: Any, sizes: Mapping[str, int], draw: np.random.Generator) -> np.ndarray:
        """One of its inputs at sizes."""
        shape, dtype = shape_of(buffer, sizes), np.dtype(_numpy(buffer))
        if buffer.name in self.made:
            return np.asarray(eval(self.made[buffer.name], {"np": np, "draw": draw, **sizes})).astype(dtype)
        if buffer.name in self.bounds:
            high = sizes.get(self.bounds[buffer.name]) or int(self.bounds[buffer.name])
            return draw.integers(0, high, shape).astype(dtype)
        if dtype.kind == "b":
            return draw.integers(0, 2, shape).astype(dtype)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return draw.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        values = draw.standard_normal(shape) * self.scales.get(buffer.name, 1.0)
        values = np.abs(values) + 1e-3 if buffer.name in self.positive else values
        return np.asarray(values.astype(dtype))


@dataclass(frozen=True)
class Row:
    """What was measured: seconds of both, how far apart they are, and the share of each ceiling."""

    name: str
    group: str
    ours: float
    eager: float
    error: float
    arithmetic: float
    memory: float
    schedule_seconds: float
    peers: dict[str, float] = field(default_factory=dict)
    """Seconds of the others that have the text."""

    @property
    def of_best(self) -> float:
        """The ratio to the best of all peers."""
        return min([self.eager, *(seconds for peer, seconds in self.peers.items() if peer != "text")]) / self.ours

    @property
    def ratio(self) -> float:
        return self.eager / self.ours

    @property
    def limit(self) -> str:
        """The nearest ceiling, and how near."""
        kind = "memory" if self.memory >= self.arithmetic else "FMA"
        return f"{max(self.memory, self.arithmetic):4.0%} of {kind}"


def names(folder: str = FOLDER) -> list[str]:
    """The names of all texts of a folder, in order. Raises ValueError where it has none."""
    found = sorted(path.stem for path in (FOLDERS / folder).glob("*.dojo"))
    if not found:
        raise ValueError(f"no texts are in {FOLDERS / folder}")
    return found


def texts(folder: str = FOLDER) -> dict[str, Text]:
    """All texts of a folder, in the order of their names. Raises ValueError where it has none."""
    return {name: _read(FOLDERS / folder / f"{name}.dojo") for name in names(folder)}


def folder_options() -> argparse.ArgumentParser:
    """The option `--folder`, on which it depends what rows there are: a parent of other parsers."""
    options = argparse.ArgumentParser(add_help=False)
    having = {path.parent.name for path in FOLDERS.glob("*/*.dojo") if "\n# eager: " in path.read_text("utf-8")}
    options.add_argument("--folder", default=FOLDER, choices=sorted(having), help="whose texts (%(default)s)")
    return options


def _read(path: Path) -> Text:
    written = path.read_text(encoding="utf-8")
    said = dict(re.findall(r"^# (\w+): (.+)$", written.partition("\nkernel ")[0], re.MULTILINE))
    return Text(
        path.stem,
        dojoir.parse(written, path.name),
        said["group"],
        _sizes(said["sizes"]),
        _sizes(said["gpu"]),
        said["eager"],
        dict(re.findall(r"(\w+) < (\w+)", said.get("indices", ""))),
        {name: float(value) for name, value in re.findall(r"(\w+) ([\d.]+)", said.get("scale", ""))},
        frozenset(re.findall(r"\w+", said.get("positive", ""))),
        dict(re.findall(r"^# made: (\w+) = (.+)$", written, re.MULTILINE)),
        said.get("numpy", ""),
        said.get("written", ""),
        frozenset(re.findall(r"\w+", said.get("codes", ""))),
        said.get("eager_gpu", ""),
    )


def _sizes(written: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", written)}


def measured(text: Text, target: str, budget: float, ceiling: Any, peers: Sequence[str] = ()) -> Row:
    """All in turn. Raises ArithmeticError where the results differ by more than rounding."""
    torch, functional = _torch()
    given = text.inputs()
    start = process_time()
    kernel = dojoir.optimize(text.kernel, target, sizes=text.sizes, threads=1).kernel
    spent = process_time() - start
    compiled = dojoir.compile(kernel, target, threads=1)
    outputs = {
        b.name: given[b.name].copy() if b.role == "inout" else np.empty(shape_of(b, text.sizes), _numpy(b))
        for b in text.kernel.arguments
        if b.role != "in"
    }
    arrays = [outputs[b.name] if b.name in outputs else given[b.name] for b in text.kernel.arguments]
    ours = compiled.bind(*arrays, **text.sizes)
    names: dict[str, Any] = dict(text.sizes)
    names |= {name: torch.from_numpy(array) if array.shape else float(array) for name, array in given.items()}
    eager = eval(f"lambda: {text.eager}", {"torch": torch, "F": functional, "reduce": reduce, **names})
    ours()
    results = eager()
    results = results if isinstance(results, tuple) else (results,)
    error = max(_apart(*pair) for pair in zip(outputs.values(), (r.numpy() for r in results), strict=True))
    if not error <= TOLERANCE:
        raise ArithmeticError(f"{text.name}: results are {error:.2e} apart, as a share of the largest")
    calls = {"ours": ours, "eager": eager}
    if text.numpy:
        calls["numpy"] = eval(f"lambda: {text.numpy}", {"np": np, **text.sizes, **given})
        error = max(error, _apart(next(iter(outputs.values())), calls["numpy"]()))
        if not error <= TOLERANCE:
            raise ArithmeticError(f"{text.name}: NumPy's results are others")
    if "text" in peers:
        own = [outputs[b.name].copy() if b.name in outputs else given[b.name] for b in text.kernel.arguments]
        calls["text"] = dojoir.compile(text.kernel, target, threads=1).bind(*own, **text.sizes)
    for peer in peers:
        if peer == "text":
            continue
        try:
            calls[peer] = PEERS[peer](text, names)
            found = getattr(calls[peer], "results", calls[peer])()
            found = found if isinstance(found, tuple) else (found,)
            if (
                not max(_apart(*pair) for pair in zip(outputs.values(), (r.numpy() for r in found), strict=True))
                <= TOLERANCE
            ):
                raise Lacking("its results are others")
        except Lacking as lack:
            calls.pop(peer, None)
            print(f"{text.name}: without {peer}: {lack}", file=sys.stderr, flush=True)
    times = dict(zip(calls, _in_turn([*calls.values()], budget), strict=True))
    best_ours, best_eager = times.pop("ours"), times.pop("eager")
    arithmetic = memory = 0.0
    if ceiling is not None:
        arithmetic = dojoir.cost(text.kernel).flops(text.sizes) / (ceiling.fma_f32 * 1e9) / best_ours
        memory = sum(array.nbytes for array in arrays) / (ceiling.copy * 1e9) / best_ours
    return Row(text.name, text.group, best_ours, best_eager, error, arithmetic, memory, spent, times)


def shape_of(buffer: Any, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of an array as a call knows it."""
    extents = [dim.extent.evaluate(sizes) for dim in buffer.dims]
    if buffer.packed:
        extents[-1] //= 2
    left = iter(extents)
    return tuple(math.prod(next(left) for _ in range(count)) for count in buffer.flat or [1] * len(buffer.dims))


def _numpy(buffer: Any) -> str:
    """NumPy's name for the type of a buffer's elements."""
    if str(buffer.dtype).startswith("f8") or str(buffer.dtype) in ("f4e2m1", "i4", "u4"):
        return "uint8"
    kinds = {"f": "float", "i": "int", "u": "uint"}
    return re.sub(r"^[fiu]", lambda kind: kinds[kind[0]], str(buffer.dtype))


def _torch() -> tuple[Any, Any]:
    import torch
    import torch.nn.functional as functional

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    return torch, functional


def _apart(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, as a share of the largest value."""
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if a.shape != b.shape:
        raise ArithmeticError(f"a result of shape {a.shape} beside one of {b.shape}")
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))


def _in_turn(calls: Sequence[Callable[[], object]], budget: float) -> list[float]:
    """The least seconds of each: a turn of a fast one is many calls."""
    counts = []
    for call in calls:
        start = process_time()
        call()
        counts.append(max(1, int(0.004 / max(process_time() - start, 1e-7))))
    best = [math.inf] * len(calls)
    begun, turns = process_time(), 0
    while turns < LEAST or process_time() - begun < budget:
        for n, call in enumerate(calls):
            start = process_time()
            for _ in range(counts[n]):
                call()
            best[n] = min(best[n], (process_time() - start) / counts[n])
        turns += 1
    return best


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def report(rows: Mapping[str, Row], failed: Mapping[str, str], known: Mapping[str, Text]) -> str:
    """The rows from the worst to the best, and the means; apart for what is written later, as known texts say."""
    lines = [f"{'text':26}{'group':22}{'ours ms':>10}{'eager ms':>10}{'ratio':>8}  nearest ceiling"]
    lines += [
        f"{row.name:26}{row.group:22}{row.ours * 1e3:10.3f}{row.eager * 1e3:10.3f}{row.ratio:8.2f}  {row.limit}"
        + "".join(f"  {peer} {seconds / row.ours:.2f}" for peer, seconds in row.peers.items())
        for row in sorted(rows.values(), key=lambda row: row.ratio)
    ]
    lines += [f"{name:26}FAILED: {why}" for name, why in failed.items()]
    if rows:
        ratios = [row.ratio for row in rows.values()]
        lines.append(f"{len(rows)} rows, geometric mean {mean(ratios):.2f}, {sum(r < 1 for r in ratios)} under 1, "
                     f"{sum(r < 0.7 for r in ratios)} under 0.7")  # fmt: skip
        written = {name: row.peers["text"] / row.ours for name, row in rows.items() if "text" in row.peers}
        if written:
            slow = [f"{name} {ratio:.2f}" for name, ratio in written.items() if ratio < 0.95]
            lines.append(f"beside the text as written: geometric mean {mean([*written.values()]):.2f}, under 0.95: "
                         f"{', '.join(slow) or 'none'}")  # fmt: skip
        if any(row.peers.keys() - {"text"} for row in rows.values()):
            bests = [row.of_best for row in rows.values()]
            lines.append(f"beside the best peer of each: geometric mean {mean(bests):.2f}, "
                         f"{sum(r >= 1 for r in bests)} at 1 or more")  # fmt: skip
        for when in sorted({known[name].written for name in rows if name in known} - {""}):
            later = [row.ratio for name, row in rows.items() if name in known and known[name].written == when]
            few = f"{sum(r < 1 for r in later)} under 1, {sum(r < 0.7 for r in later)} under 0.7"
            lines.append(f"written {when} ({len(later)}): geometric mean {mean(later):.2f}, {few}")
        programs = [row.ratio for row in rows.values() if row.group == "programs"]
        lines += [f"programs: geometric mean {mean(programs):.2f}"] if programs else []
    return "\n".join(lines)


def main() -> None:
    folder = folder_options()
    found = texts(folder.parse_known_args()[0].folder)
    about = "texts of practice beside PyTorch eager, on one thread"
    options = argparse.ArgumentParser(description=about, parents=[folder])
    options.add_argument("--rows", nargs="+", choices=[*found], metavar="ROW", help="only these texts")
    options.add_argument("--group", help="only those of this group")
    options.add_argument("--target", default="llvm")
    options.add_argument("--budget", type=float, default=BUDGET, help="seconds of the timing of a row")
    options.add_argument("--peers", nargs="*", default=[], choices=["text", *PEERS],
                         help="beside PyTorch eager; `text`: the text as it is written")  # fmt: skip
    options.add_argument("--share", help="K/N: only every Nth text from the Kth on")
    options.add_argument("--quick", action="store_true", help="leave out the ceilings of the machine")
    options.add_argument("--json", type=Path, help="write the results there after each row")
    options.add_argument("--resume", action="store_true", help="leave out what that file has")
    options.add_argument("--from", dest="made", type=Path, nargs="+", help="print what those files have")
    given = options.parse_args()
    rows: dict[str, Row] = {}
    sources = given.made or ([given.json] if given.resume and given.json.exists() else [])
    for source in sources:
        rows |= {name: Row(**row) for name, row in json.loads(source.read_text()).items()}
    failed: dict[str, str] = {}
    if not given.made:
        wanted = given.rows or [name for name, text in found.items() if given.group in (None, text.group)]
        ceiling = None if given.quick else dojoir.ceilings(1).at(1)
        for n, name in enumerate(wanted):
            if name in rows:
                continue
            if given.share and n % int(given.share.partition("/")[2]) != int(given.share.partition("/")[0]):
                continue
            try:
                rows[name] = measured(found[name], given.target, given.budget, ceiling, given.peers)
                print(f"{name:26}{rows[name].ratio:8.2f}", flush=True)
            except (dojoir.DojoError, ArithmeticError) as error:
                failed[name] = str(error).splitlines()[0]
                print(f"{name:26}  FAILED", flush=True)
            if given.json:
                given.json.write_text(json.dumps({name: asdict(row) for name, row in rows.items()}, indent=1))
    print(report(rows, failed, found))


if __name__ == "__main__":
    main()
