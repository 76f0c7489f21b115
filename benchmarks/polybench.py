"""PolyBench/C 4.2, its 30 kernels as texts: dojoir beside the plain text in C, by gcc and clang, on one thread.

    python benchmarks/polybench.py [--rows gemm lu] [--scale 1] [--json FILE [--resume]]
    python benchmarks/polybench.py --from FILE       # what was measured before; runs nothing

The texts of `polybench/` say the sizes of the LARGE data set; f64 throughout. `--scale` makes all sizes smaller.
The C is what `dojoir.emit` prints of the text as it is written, with the sizes as constants, compiled with `-O3
-march=native -ffast-math`; dojoir has `optimize` with these sizes. Each runs in turn on the same inputs, on the
clock of the process, and the best counts; a ratio above 1 says that dojoir is faster than the faster compiler.
`--numba` adds the ratio to the loops of the text by Numba, and `--numpy` that to what a comment `numpy` above the
text says in NumPy and SciPy, whose BLAS takes as many threads as the process has cores: give it one.
Results are compared with those of all others. Source of the kernels: L.-N. Pouchet and T. Yuki, "PolyBench/C 4.2"
(2016), written here from their definitions.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import dojoir

FOLDER = Path(__file__).resolve().parent / "polybench"
FLAGS = ("-O3", "-march=native", "-ffast-math", "-std=c11", "-shared", "-fPIC")
COMPILERS = ("gcc", "clang-19")
TOLERANCE = 1e-6
"""How far results may be apart, as a share of the largest: f64 sums in other orders, along recurrences."""

SHORTEST, MOST = 0.02, 5
"""Rows that take less than so many seconds run more often; the turns of each."""


@dataclass(frozen=True)
class Row:
    """Seconds of dojoir and of each compiler's code, and how far the results are apart."""

    name: str
    ours: float
    plain: dict[str, float]
    error: float
    schedule_seconds: float
    peers: dict[str, float] = field(default_factory=dict)
    """Seconds of Numba and NumPy, where they were asked for and have the kernel."""

    @property
    def ratio(self) -> float:
        return min(self.plain.values()) / self.ours


def text(name: str, scale: float) -> tuple[dojoir.Kernel, dict[str, int], dict[str, str]]:
    """A kernel, its sizes, and what the comments say."""
    written = (FOLDER / f"{name}.dojo").read_text(encoding="utf-8")
    said = dict(re.findall(r"^# (\w+): (.+)$", written, re.MULTILINE))
    sizes = {size: max(int(int(n) * scale), 8) for size, n in re.findall(r"(\w+)=(\d+)", said["sizes"])}
    return dojoir.parse(written, name), sizes, said


def inputs(kernel: dojoir.Kernel, sizes: dict[str, int], special: str, scalars: str = "") -> list[Any]:
    """The arguments in the order of the kernel; `scalars` are values of some, as a comment above the text says."""
    known = {name: float(value) for name, _, value in (word.partition("=") for word in scalars.split())}
    draw = np.random.default_rng(3)
    found: list[Any] = []
    for buffer in kernel.arguments:
        shape = tuple(dim.extent.evaluate(sizes) for dim in buffer.dims)
        if str(buffer.dtype) == "i32":
            found.append(draw.integers(0, 4, shape).astype(np.int32))
        elif not shape and buffer.role == "in":
            found.append(known.get(buffer.name, float(draw.uniform(0.1, 0.5))))
        else:
            values = draw.uniform(0.1, 1.0, shape)
            if special.startswith(f"{buffer.name} positive"):
                values = values / shape[0] + np.eye(shape[0]) * 2
            if special.startswith(f"{buffer.name} small"):
                values = values / shape[0]
            found.append(np.ascontiguousarray(values))
    return found


def on_page(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy that begins at a page, as PolyBench allocates arrays: else luck says whose vectors cross lines."""
    space = np.empty(array.nbytes + 4096, np.uint8)
    begin = -space.ctypes.data % 4096
    copy = space[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def built(kernel: dojoir.Kernel, compiler: str, folder: Path) -> ctypes.CDLL:
    """The plain text in C as a library."""
    source, library = folder / f"{kernel.name}.c", folder / f"{kernel.name}.{compiler}.so"
    code = dojoir.emit(kernel, "c").replace("#pragma STDC FP_CONTRACT OFF", "")  # they may fuse as they like
    source.write_text(code, encoding="utf-8")
    subprocess.run([compiler, *FLAGS, str(source), "-o", str(library), "-lm"], check=True, capture_output=True)
    return ctypes.CDLL(str(library))


def bound(library: ctypes.CDLL, kernel: dojoir.Kernel, arrays: list[Any]) -> Callable[[], object]:
    """A call of the C on some arrays; sizes are constants in it."""
    function = getattr(library, kernel.name)
    given = [a.ctypes.data_as(ctypes.c_void_p) if isinstance(a, np.ndarray) else ctypes.c_double(a) for a in arrays]
    return lambda: function(*given)


def measured(name: str, scale: float, compilers: list[str], peers: list[str]) -> Row:
    """All in turn. Raises ArithmeticError where results differ by more than rounding."""
    open_kernel, sizes, said = text(name, scale)
    kernel = open_kernel.specialize(**sizes)
    begin = process_time()
    trace = dojoir.optimize(kernel, "llvm", threads=1)
    spent = process_time() - begin
    compiled = dojoir.compile(trace.kernel, "llvm", threads=1)
    fresh = inputs(open_kernel, sizes, said.get("scale", ""), said.get("scalars", ""))
    own = {
        who: [on_page(a) if isinstance(a, np.ndarray) else a for a in fresh]
        for who in ("dojoir", *compilers, *peers)
    }
    calls: dict[str, Callable[[], object]] = {"dojoir": compiled.bind(*own["dojoir"])}
    with tempfile.TemporaryDirectory() as made:
        for compiler in compilers:
            calls[compiler] = bound(built(kernel, compiler, Path(made)), kernel, own[compiler])
    if "numpy" in peers and "numpy" in said:
        calls["numpy"] = in_numpy(said["numpy"], kernel, own["numpy"])
    if "numba" in peers:
        from numba_text import call_of

        calls["numba"] = call_of(kernel, own["numba"])
    seconds = dict.fromkeys(calls, math.inf)
    error = 0.0
    for turn in range(MOST):
        for who, call in calls.items():
            for array, value in zip(own[who], fresh, strict=True):
                if isinstance(array, np.ndarray):
                    array[...] = value
            begin = process_time()
            call()
            seconds[who] = min(seconds[who], process_time() - begin)
        if not turn:
            error = max(apart(own["dojoir"], own[who]) for who in calls if who != "dojoir")
            if not error <= TOLERANCE:
                raise ArithmeticError(f"results are {error:.2e} apart, as a share of the largest")
        if sum(seconds.values()) * turn > 20:
            break
    plain = {compiler: seconds[compiler] for compiler in compilers}
    others = {peer: seconds[peer] for peer in peers if peer in seconds}
    return Row(name, seconds["dojoir"], plain, error, spent, others)


def in_numpy(statements: str, kernel: dojoir.Kernel, arrays: list[Any]) -> Callable[[], object]:
    """A call of some statements on arrays, with NumPy as `np` and SciPy's `linalg`."""
    from scipy import linalg

    names = [buffer.name for buffer in kernel.arguments]
    space: dict[str, Any] = {"np": np, "linalg": linalg}
    lines = "".join(f"    {line}\n" for line in statements.split("; "))
    exec(f"def run({', '.join(names)}):\n{lines}", space)
    return lambda: space["run"](*arrays)


def apart(ours: list[Any], theirs: list[Any]) -> float:
    """The largest difference of arrays, as a share of the largest value of each."""
    pairs = [
        (a, b) for a, b in zip(ours, theirs, strict=True) if isinstance(a, np.ndarray) and a.dtype == np.float64
    ]
    return max(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-300)) for a, b in pairs)


def report(rows: list[Row], failed: list[str]) -> str:
    """The rows from the worst to the best, and the mean."""
    lines = [f"{'kernel':18}{'dojoir':>12}{'gcc':>12}{'clang':>12}{'ratio':>8}{'optimize':>10}"]
    for row in sorted(rows, key=lambda row: row.ratio):
        plain = "".join(f"{row.plain[c] * 1e3:10.2f}ms" if c in row.plain else f"{'-':>12}" for c in COMPILERS)
        lines.append(
            f"{row.name:18}{row.ours * 1e3:10.2f}ms{plain}{row.ratio:8.2f}{row.schedule_seconds:9.2f}s"
            + "".join(f"  {peer} {seconds / row.ours:.2f}" for peer, seconds in row.peers.items())
        )
    if rows:
        mean = math.exp(sum(math.log(row.ratio) for row in rows) / len(rows))
        lines.append(f"{len(rows)} rows, geometric mean {mean:.2f}, {sum(row.ratio < 1 for row in rows)} under 1")
    return "\n".join(lines + [f"{why}" for why in failed])


def main() -> None:
    options = argparse.ArgumentParser(description="PolyBench/C as texts, beside plain C by gcc and clang")
    options.add_argument("--rows", nargs="+")
    options.add_argument("--scale", type=float, default=1.0, help="sizes as a share of the LARGE ones")
    options.add_argument("--json", type=Path, help="write the results there after each row")
    options.add_argument("--resume", action="store_true", help="leave out what that file has")
    options.add_argument("--from", dest="made", type=Path, help="print what that file has")
    options.add_argument("--numba", action="store_true", help="beside the loops by Numba")
    options.add_argument("--numpy", action="store_true", help="beside NumPy and SciPy, where they have the kernel")
    given = options.parse_args()
    peers = [peer for peer in ("numba", "numpy") if getattr(given, peer)]
    source = given.made or (given.json if given.resume and given.json.exists() else None)
    rows = [Row(**row) for row in json.loads(source.read_text())] if source else []
    failed: list[str] = []
    compilers = [compiler for compiler in COMPILERS if shutil.which(compiler)]
    for name in () if given.made else given.rows or sorted(path.stem for path in FOLDER.glob("*.dojo")):
        if name in {row.name for row in rows}:
            continue
        try:
            rows.append(measured(name, given.scale, compilers, peers))
            print(f"{name:18}{rows[-1].ratio:8.2f}", flush=True)
        except (dojoir.DojoError, ArithmeticError, subprocess.CalledProcessError) as error:
            failed.append(f"{name:18}FAILED: {str(error).splitlines()[0]}")
            print(failed[-1], flush=True)
        if given.json:
            given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    print(report(rows, failed))


if __name__ == "__main__":
    main()
