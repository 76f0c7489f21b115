"""The texts of practice on every target, run here: `python benchmarks/emulated_targets.py --json FILE`.

    python benchmarks/emulated_targets.py [--only softmax_columns product] [--targets neon hip]
                                          [--folder practice unseen] [--share 0/2] [--json FILE [--resume]]
    python benchmarks/emulated_targets.py --from FILE ...     # what was found before; runs nothing

Each text of `practice/` and `unseen/` is planned by `optimize` for each target, twice: with its sizes open, those
that it is timed at told (`open`; of a GPU the GPU's), and with all sizes fixed to small ones (`fixed`). The
emitted code is compiled and run by `dojoir.verify`: `c`, `avx512` and `avx2` on this processor, between guard
pages; `neon`, `sve` and `rvv` by the cross compiler in QEMU, with vectors of 128 bits, a sixth of the texts with
512 too; `cuda` and `hip` on the emulated GPU, which finds races. What they give is compared with the text as the
interpreter has it, by the bounds of the rounding errors. The calls of a plan with open sizes: all sizes small,
all as large as the time allows, each one long, each two long, so that tiles, lanes and what is left over occur.
Texts for GPUs are also given to NVRTC (sm_90) and clang (gfx942), where these are installed.

A plan that is refused, does not compile, or gives something else is listed, and the status is 1 then. `as written`
counts the plans without a move: no schedule was taken.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "tests" / "helpers")]

from practice import Text, texts  # noqa: E402

import dojoir  # noqa: E402

GPUS = {"cuda": "sm_90", "hip": "gfx942"}
"""The targets that are for GPUs, and for which one their texts are compiled."""

TARGETS = ("c", "avx512", "avx2", "neon", "sve", "rvv", *GPUS)
FOLDERS = ("practice", "unseen")
MODES = ("open", "fixed")

LONGER = {"sve": 512, "rvv": 512}
"""Vectors of how many bits a sixth of the texts run with too, and the variable that says so."""
VLEN = "DOJOIR_VLEN"

STATEMENTS, FIXED_STATEMENTS = 60_000, 40_000
"""How many statements of the text a call may run."""

SMALL = (3, 5, 2, 4)
LARGEST = 300
"""The most that one of two sizes is; one alone is as large as `LONG` allows."""
LONG = 4500

COLUMNS = (
    "target", "sizes", "plans", "equal", "refused", "not compiled", "undecided", "wrong", "as written", "calls",
    "elements", "planned s", "ran s",
)  # fmt: skip

MOST_CALLS, MOST_MADE = 10, 4
SECONDS = 120.0
"""Of all calls of one plan."""


@dataclass(frozen=True)
class Found:
    """What was found of a plan: `equal`, `refused`, `wrong`, `uncompiled` or `undecided`, and why it is not equal.
    Then the number of moves, of calls and of elements compared, and the seconds of the plan and of the runs."""

    text: str
    folder: str
    target: str
    mode: str
    status: str
    why: str = ""
    moves: int = 0
    calls: int = 0
    elements: int = 0
    planned: float = 0.0
    ran: float = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        return self.text, self.target, self.mode


# -- sizes ---------------------------------------------------------------------------------------------------------
def calls_of(text: Text, most: int = STATEMENTS) -> list[dict[str, int]]:
    """Sizes of calls: small, as large as so many statements allow, one long, two long."""
    names = [*text.kernel.runtime_sizes]
    if not names:
        return [{}]
    wishes = [dict(zip(names, (SMALL[(n + 1) % 4] for n in range(len(names))), strict=True))]
    wishes.append(_balanced(text, names, LARGEST, most))
    random = Random(text.name)
    pairs = [*combinations(names, 2)]
    wishes += [_balanced(text, [name], LONG, most) for name in names]
    wishes += [_balanced(text, pair, LARGEST, most) for pair in random.sample(pairs, min(len(pairs), 4))]
    found: list[dict[str, int]] = []
    for wish in wishes:
        sizes = nearest(text.kernel, wish)
        if sizes is not None and sizes not in found and dojoir.cost(text.kernel).instances(sizes) <= 2 * most:
            found.append(sizes)
    return found[: MOST_MADE if text.made else MOST_CALLS]


def _balanced(text: Text, long: Sequence[str], largest: int, most: int) -> dict[str, int]:
    """Sizes of which some are long, none longer than the text is timed with, and odd."""
    kernel = text.kernel
    small = {name: min(SMALL[n % 4], text.sizes[name]) for n, name in enumerate(kernel.runtime_sizes)}
    count = dojoir.cost(kernel).instances
    limit = float(largest)
    while True:
        wish = small | {name: max(small[name], min(text.sizes[name], int(limit) | 1)) for name in long}
        sizes = nearest(kernel, wish) or wish
        if limit < 4 or count(sizes) <= most:
            return wish
        limit /= 1.1


def nearest(kernel: dojoir.Kernel, wish: Mapping[str, int]) -> dict[str, int] | None:
    """Sizes at or above those wished for, or some others lowered to them, that the facts of the kernel allow."""
    names = [*wish]
    few = names[:4]
    for shift in sorted(product(range(8), repeat=len(few)), key=sum):
        found = {**wish, **{name: wish[name] + more for name, more in zip(few, shift, strict=True)}}
        if _allowed(kernel, found):
            return found
    least = min(wish.values())
    return lowered if _allowed(kernel, lowered := dict.fromkeys(names, least)) else None


def _allowed(kernel: dojoir.Kernel, sizes: Mapping[str, int]) -> bool:
    try:
        kernel.specialize(**sizes)
    except dojoir.DojoError:
        return False
    return True


# -- a plan --------------------------------------------------------------------------------------------------------
def examined(text: Text, folder: str, target: str, mode: str, bits: int = 0) -> Found:
    """Plans, emits, compiles and runs a text for a target."""
    named = f"{target} {bits}" if bits else target
    is_gpu = target in GPUS
    kernel, told = text.kernel, dict(text.gpu if is_gpu else text.sizes)
    if mode == "fixed":
        calls = [_fixed_sizes(text)]
        kernel, told = kernel.specialize(**calls[0]), {}
    else:
        calls = calls_of(text)
        told = {name: value for name, value in told.items() if name in kernel.runtime_sizes}
    began = time.monotonic()
    trace: dojoir.Trace | None = None
    planned = 0.0

    def found(status: str, why: str = "", elements: int = 0) -> Found:
        moves = len(trace.moves) if trace is not None else 0
        spent = time.monotonic() - began - planned
        why = " / ".join(line.strip() for line in why.splitlines() if line.strip())[:600]
        return Found(text.name, folder, named, mode, status, why, moves, len(calls), elements,
                     round(planned, 2), round(spent, 2))  # fmt: skip

    try:
        trace = dojoir.optimize(kernel, target, sizes=told)
        planned = time.monotonic() - began
        code = dojoir.emit(trace.kernel, target)
    except dojoir.DojoError as error:
        return found("refused", str(error))
    if is_gpu and (error_of_compiler := _compiler_says(code, target)):
        return found("uncompiled", error_of_compiler)
    elements = 0
    try:
        with _vectors_of(bits):
            for report in _reports(text, trace.kernel, kernel, target, [{}] if mode == "fixed" else calls):
                elements += sum(case.elements for case in report.cases)
                if not report.ok:
                    return found("undecided" if report.status == "undecided" else "wrong", str(report), elements)
    except dojoir.ToolchainError as error:
        return found("uncompiled", str(error))
    except dojoir.DojoError as error:
        return found("wrong", f"{type(error).__name__}: {error}")
    return found("equal", "", elements)


def _fixed_sizes(text: Text) -> dict[str, int]:
    names = [*text.kernel.runtime_sizes]
    wish = _balanced(text, names, LARGEST, FIXED_STATEMENTS) if names else {}
    return nearest(text.kernel, wish) or wish


def _reports(
    text: Text, planned: dojoir.Kernel, kernel: dojoir.Kernel, target: str, calls: Sequence[Mapping[str, int]]
) -> Iterator[Any]:
    """The reports of all calls: in one run, or a run each where inputs are made for their sizes. Where rounding may
    change too many results of random inputs to anything, all inputs are those that the text is timed with."""
    emulated = target in GPUS
    if not text.made:
        found = dojoir.verify(
            planned, kernel, target=target, sizes=calls, seeds=1, time_limit=SECONDS, emulated=emulated
        )
        if found.status != "undecided":
            yield found
            return
    fixed = {size.name: size.value for size in kernel.sizes if size.value is not None}
    for sizes in calls:
        given = text.inputs({**fixed, **sizes})
        inputs = {name: given[name] for name in text.made or given}
        yield dojoir.verify(
            planned, kernel, target=target, sizes=sizes, seeds=1, distributions=("normal",), inputs=inputs,
            time_limit=SECONDS, emulated=emulated,
        )  # fmt: skip


def _compiler_says(code: str, target: str) -> str:
    """What the compiler of the maker of a GPU says against a text; nothing where it is not installed."""
    from gpu_compile import clang_error, nvrtc_error

    try:
        error = nvrtc_error if target == "cuda" else clang_error
        return str(error(code, GPUS[target]))
    except dojoir.ToolchainError:
        return ""


@contextmanager
def _vectors_of(bits: int) -> Iterator[None]:
    before = os.environ.get(VLEN)
    if bits:
        os.environ[VLEN] = str(bits)
    try:
        yield
    finally:
        os.environ.pop(VLEN, None)
        if before is not None:
            os.environ[VLEN] = before


# -- the script ----------------------------------------------------------------------------------------------------
def report(found: Sequence[Found]) -> str:
    """What is not equal, and a table of all by target and mode."""
    lines = [f"{one.status.upper()} {one.text} for {one.target}, {one.mode}: {one.why}"
             for one in found if one.status != "equal"]  # fmt: skip
    lines += ["", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for target, mode in dict.fromkeys((one.target, one.mode) for one in sorted(found, key=_order)):
        rows = [one for one in found if (one.target, one.mode) == (target, mode)]
        counts = Counter(one.status for one in rows)
        cells = [target, mode, len(rows)]
        cells += [counts[status] for status in ("equal", "refused", "uncompiled", "undecided", "wrong")]
        cells += [sum(one.moves == 0 for one in rows), sum(one.calls for one in rows)]
        cells += [f"{sum(one.elements for one in rows):,}"]
        cells += [f"{sum(one.planned for one in rows):.0f}", f"{sum(one.ran for one in rows):.0f}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _order(one: Found) -> tuple[int, str, int]:
    return TARGETS.index(one.target.partition(" ")[0]), one.target, MODES.index(one.mode)


def _cases(given: argparse.Namespace) -> Iterator[tuple[Text, str, str, str, int]]:
    known = [(text, folder) for folder in given.folder for text in texts(folder).values()]
    if given.share:
        part, parts = map(int, given.share.split("/"))
        known = known[part::parts]
    for mode in given.modes:
        for n, (text, folder) in enumerate(known):
            if given.only and text.name not in given.only:
                continue
            for target in given.targets:
                yield text, folder, target, mode, 0
                if target in LONGER and (n % 6 == 0 or given.only):
                    yield text, folder, target, mode, LONGER[target]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", nargs="+", default=[], help="only these texts")
    options.add_argument("--targets", nargs="+", default=[*TARGETS], choices=TARGETS)
    options.add_argument("--folder", nargs="+", default=[*FOLDERS], choices=FOLDERS)
    options.add_argument("--modes", nargs="+", default=[*MODES], choices=MODES, help="sizes open, or fixed")
    options.add_argument("--share", help="K/N: only every Nth text from the Kth on")
    options.add_argument("--json", type=Path, help="write what is found there, a line a plan")
    options.add_argument("--resume", action="store_true", help="leave out what that file has")
    options.add_argument("--from", dest="made", type=Path, nargs="+", help="print what those files have")
    given = options.parse_args()
    sources = given.made or ([given.json] if given.resume and given.json and given.json.exists() else [])
    found: dict[Any, Found] = {}
    for source in sources:
        rows = [Found(**json.loads(line)) for line in source.read_text(encoding="utf-8").splitlines()]
        found |= {one.key: one for one in rows}
    if not given.made:
        if given.json and not given.resume:
            given.json.write_text("", encoding="utf-8")
        for text, folder, target, mode, bits in _cases(given):
            if (text.name, f"{target} {bits}" if bits else target, mode) in found:
                continue
            one = examined(text, folder, target, mode, bits)
            found[one.key] = one
            words = f"{one.text:26}{one.target:9}{mode:7}{one.status:11}{one.planned:7.2f}{one.ran:7.2f}  {one.why}"
            print(words, flush=True)
            if given.json:
                with given.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(one)) + "\n")
    print(report([*found.values()]))
    return int(any(one.status != "equal" for one in found.values()))


if __name__ == "__main__":
    sys.exit(main())
