"""Modules of PyTorch as kernels: how fast they are beside eager PyTorch (and beside what its own compiler makes),
at sizes of practice, and whether all are right at small ones.

    python benchmarks/modules.py                        # forward passes on one thread, each row beside eager
    python benchmarks/modules.py --compiled mlp llama   # some rows, beside torch.compile too
    python benchmarks/modules.py --check                # forward and backward against f64, three seeds
    python benchmarks/modules.py --narrow --write docs/modules.md   # in bf16 and f16; the table there
    python benchmarks/modules.py --cuda --jobs 16       # processes that prepare side by side, and time one by one
    python benchmarks/modules.py --page RESULTS.md      # the rows as a page

A ratio above 1 says that dojoir is faster. Rows are timed in turn, in rounds, and the median of each is compared.
`--json FILE` has a line for each row as soon as it is there, and rows that are there are not made again.
"""

from __future__ import annotations

import argparse
import copy
import fcntl
import math
import re
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from module_workers import read_rows, serve, shared_out, write_row

import dojoir
from dojoir.runtime import processor
from dojoir.support.files import write_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "pytorch"))

MOST_APART = 2e-2
"""How far the results of a row may be from eager PyTorch, whose convolutions on GPUs are in TF32."""

SLOW = 0.7
"""The ratio below which a row is counted as slow."""


def main() -> int:
    options = _options()
    warnings.simplefilter("ignore")
    if options.worker:
        import torch

        torch.set_num_threads(options.threads)
        torch.backends.cudnn.allow_tf32 = not options.exact
        answer = narrowed if options.narrow else checked if options.check else timed
        serve(lambda name: answer(name, options))
        return 0
    names = options.names or names_of_all()
    rows: list[dict[str, Any]] = []
    kept = Path(options.json) if options.json else None
    if kept is not None:
        rows = read_rows(kept)
    there = {row["name"] for row in rows}

    def take(row: dict[str, Any]) -> None:
        rows.append(row)
        print(_checked_line(row) if options.check or options.narrow else _line(row), flush=True)
        if kept is not None:
            write_row(kept, row)

    left = [name for name in names if name not in there]
    with tempfile.NamedTemporaryFile(prefix="modules-lock-") as lock:
        command = [sys.executable, __file__, "--worker", "--threads", str(options.threads), "--lock", lock.name]
        command += ["--seconds", str(options.seconds)]
        command += [f"--{flag}" for flag in ("check", "narrow", "compiled", "cuda", "exact") if vars(options)[flag]]
        shared_out(left, command, options.jobs, options.limit, time.monotonic() + options.end, take)
    if options.narrow:
        table = narrow_table(rows)
        print("\n".join(table))
        if options.write:
            text = Path(options.write).read_text(encoding="utf-8")
            write_file(options.write, replaced(text, table))
        return 0
    if options.check:
        return _summary(names, rows)
    print(_mean(rows))
    if options.page:
        write_file(options.page, page(rows, options))
    return 0


def names_of_all() -> list[str]:
    from modules import CASES

    return list(CASES)


def _options() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("names", nargs="*", metavar="NAME", help="the rows (all)")
    made.add_argument("--check", action="store_true", help="compare with f64 instead, forward and backward")
    made.add_argument("--narrow", action="store_true", help="in bf16 and f16 instead, as near to f64 as PyTorch")
    made.add_argument("--write", metavar="FILE", help="with --narrow: put its table in place of that in a page")
    made.add_argument("--compiled", action="store_true", help="beside torch.compile too")
    made.add_argument("--cuda", action="store_true", help="on a GPU")
    made.add_argument("--exact", action="store_true", help="on a GPU: convolutions of PyTorch in f32, not in TF32")
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--jobs", type=int, default=1, help="processes side by side; one at a time is timed (1)")
    made.add_argument("--limit", type=float, default=300.0, help="seconds of a row at most (300)")
    made.add_argument("--end", type=float, default=1e6, help="seconds of all rows at most")
    made.add_argument("--seconds", type=float, default=0.4, help="of the rounds of a row (0.4)")
    made.add_argument("--json", metavar="FILE", help="add a line for each row there, and go on from what is there")
    made.add_argument("--page", metavar="FILE", help="write the rows as a page")
    made.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    made.add_argument("--lock", help=argparse.SUPPRESS)
    return made.parse_args()


def checked(name: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rows of a case at small sizes on three seeds: one of the forward pass, one of the backward pass."""
    from modules import CASES
    from modules.agreement import right_backward, right_forward

    device = "cuda" if options.cuda else "cpu"
    passes = [("forward", right_forward)] + [("backward", right_backward)] * CASES[name].has_gradients
    for which, is_right in passes:
        yield _tried(which, partial(is_right, CASES[name], (0, 1, 2), device=device))


def narrowed(name: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rows of a case at small sizes in narrow types: of each its results and its gradients."""
    from modules import CASES
    from modules.agreement import NARROW, right_narrow, right_narrow_backward

    for dtype in NARROW:
        yield _tried(f"{dtype} results", partial(right_narrow, CASES[name], dtype))
        if CASES[name].has_gradients:
            yield _tried(f"{dtype} gradients", partial(right_narrow_backward, CASES[name], dtype))


def _tried(which: str, check: Callable[[], None]) -> dict[str, Any]:
    start, row = time.perf_counter(), {"pass": which}
    try:
        check()
    except (AssertionError, dojoir.DojoError) as error:
        row["wrong"] = (str(error).splitlines() or ["?"])[0]
    return row | {"took": round(time.perf_counter() - start, 2)}


def narrow_table(rows: list[dict[str, Any]]) -> list[str]:
    """How many modules are as near to f64 as PyTorch in each narrow type, and which are not."""
    lines = ["| type | results | gradients | not as near, or refused |", "|---|---|---|---|"]
    for dtype in ("bf16", "f16"):
        cells, names = [], []
        for what in ("results", "gradients"):
            own = [row for row in rows if row.get("pass") == f"{dtype} {what}"]
            wrong = [row["name"] for row in own if "wrong" in row]
            cells.append(f"{len(own) - len(wrong)} of {len(own)}")
            names += [f"{what} of `{name}`" for name in wrong]
        names += sorted({f"`{row['name']}`: {row['error']}" for row in rows if "error" in row})
        lines.append(f"| {dtype} | {cells[0]} | {cells[1]} | {', '.join(names)} |")
    return lines


def _checked_line(row: dict[str, Any]) -> str:
    word = row.get("error") or row.get("wrong") or "right"
    return f"{row['name']:28} {row.get('pass', ''):8} {row.get('took', 0.0):7.2f} s  {word}"


def _summary(names: list[str], rows: list[dict[str, Any]]) -> int:
    """How many are right: status 1 where one is not."""
    bad = {row["name"] for row in rows if "wrong" in row or "error" in row}
    found = {which: {r["name"] for r in rows if r.get("pass") == which} for which in ("forward", "backward")}
    there = set.union(*found.values()) & set(names)
    print(
        f"{len(there - bad)} of {len(names)} are right on 3 seeds: {len(found['forward'] - bad)} forward, "
        f"{len(found['backward'] - bad)} backward too"
    )
    if bad:
        print(f"not right: {', '.join(sorted(bad))}")
    return 1 if bad or len(there) < len(names) else 0


@contextmanager
def _alone(options: argparse.Namespace) -> Iterator[None]:
    """No other worker is timed meanwhile."""
    with open(options.lock, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def timed(name: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The times of one row, in seconds of a forward pass."""
    import torch
    from modules import CASES
    from modules.agreement import difference, tensors
    from modules.cases import PRACTICE

    device = "cuda" if options.cuda else "cpu"
    module, given = CASES[name].make(PRACTICE, 0)
    module = module.to(device)
    inputs = tuple(x.to(device) if isinstance(x, torch.Tensor) else x for x in given)
    row: dict[str, Any] = {"device": torch.cuda.get_device_name()} if options.cuda else {}
    start = time.perf_counter()
    imported = dojoir.torch.from_module(copy.deepcopy(module), inputs, threads=options.threads, whole=True)
    calls: dict[str, Callable[..., Any]] = {"eager": module, "dojoir": imported}
    if options.compiled:
        torch._dynamo.reset()
        calls["compile"] = torch.compile(module)
    with torch.no_grad():
        found = {which: tensors(call(*inputs)) for which, call in calls.items()}
        row["prepared"] = time.perf_counter() - start
        apart = max(difference(a, b) for a, b in zip(found["dojoir"], found["eager"], strict=True))
        if not apart <= MOST_APART:
            row["wrong"] = f"apart from eager by {apart:.1e}"
        with _alone(options):
            row |= _rounds(calls, inputs, options.seconds, options.cuda)
    yield row


def _rounds(
    calls: dict[str, Callable[..., Any]], inputs: tuple[Any, ...], seconds: float, on_gpu: bool
) -> dict[str, float]:
    import torch

    def sample(call: Callable[..., Any], count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            call(*inputs)
        if on_gpu:
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / count

    counts = {name: max(1, int(1e-3 / max(min(sample(c, 1) for _ in range(3)), 1e-7))) for name, c in calls.items()}
    found: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end or len(found["eager"]) < 5:
        for name, call in calls.items():
            found[name].append(sample(call, counts[name]))
    return {name: statistics.median(samples) for name, samples in found.items()}


def _ratio(row: dict[str, Any], name: str) -> float | None:
    return row[name] / row["dojoir"] if "dojoir" in row and name in row else None


def _line(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['name']:28} {row['error']}"
    cells = [
        f"{row['name']:28}{row.get('wrong', '')}",
        f"dojoir {row['dojoir'] * 1e3:9.3f} ms",
        f"eager {row['eager'] * 1e3:9.3f} ms",
    ]
    cells += [f"{_ratio(row, 'eager'):6.2f}"]
    if "compile" in row:
        cells += [f"compile {row['compile'] * 1e3:9.3f} ms {_ratio(row, 'compile'):6.2f}"]
    return "  ".join(cells)


def _mean(rows: list[dict[str, Any]]) -> str:
    lines = []
    for name in ("eager", "compile"):
        ratios = [r for row in rows if (r := _ratio(row, name)) is not None]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            under = sum(r < SLOW for r in ratios)
            lines.append(f"beside {name}: geometric mean {mean:.2f} of {len(ratios)} rows, {under} under {SLOW}")
    failed = [row["name"] for row in rows if "error" in row]
    return "\n".join([*lines, *([f"not expressed: {', '.join(failed)}"] if failed else [])])


def page(rows: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """The rows as a page, the slow ones first."""
    devices = sorted({row["device"] for row in rows if "device" in row})
    where = " and ".join(devices) if devices else f"{processor()}, {options.threads} thread(s)"
    lines = [
        "# Modules beside PyTorch", "",
        f"Forward passes in f32 on {where}, by `python benchmarks/modules.py`. A ratio above 1 says that dojoir is "
        "faster than eager PyTorch. The machine was shared with other work; rows are timed in turn"
        + (", each while other rows were prepared beside it." if devices else "."), "",
        _mean(rows).replace("\n", "; ") + ".", "",
        "| module | dojoir, ms | eager, ms | ratio | compiled, ms | ratio |",
        "|---|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for row in sorted(rows, key=lambda r: _ratio(r, "eager") or 0):
        if "error" in row:
            lines.append(f"| {row['name']}: {row['error']} | | | | | |")
            continue
        ratio = _ratio(row, "eager") or 0.0
        compiled = _ratio(row, "compile")
        other = "| |" if compiled is None else f"{row['compile'] * 1e3:.3f} | {compiled:.2f} |"
        first = f"| {row['name']} | {row['dojoir'] * 1e3:.3f} | {row['eager'] * 1e3:.3f} | {ratio:.2f} |"
        lines.append(f"{first} {other}")
    return "\n".join(lines) + "\n"


def replaced(text: str, table: list[str]) -> str:
    """A page with a table in place of that with the same first line. Raises ArgumentError where it has none."""
    before, found, after = text.partition(table[0] + "\n")
    if not found:
        raise dojoir.ArgumentError(f"the page has no table that begins with {table[0]}", "no-table")
    rest = re.sub(r"\A(\|.*\n)+", "", after)
    return before + "\n".join(table) + "\n" + rest


if __name__ == "__main__":
    sys.exit(main())
