"""Two checkouts held against each other: the same source out of `emit` for each kernel and target.

    python tests/helpers/same_texts.py kernels KERNELS [--share 4]
    python tests/helpers/same_texts.py emit KERNELS TEXTS [TARGET …] [--share 4]
    python tests/helpers/same_texts.py compare TEXTS OTHERS

`kernels` writes a folder of kernels: all texts that come with the project, those of the tests of code, random ones,
every operation in every type, and what stored schedules and `default_schedule` make of them (of one kernel in
`--share` by the latter). `emit` writes the source of each for each target, or the error that it ends in. Both leave
alone what is there already. `compare` prints where two folders of sources differ; its exit status is 1 then.
"""

from __future__ import annotations

import ast
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from random import Random

from folders import ROOT, TESTS
from runnable import runnable_kernel

import dojoir
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.operations import OPERATIONS, Class, Operation
from dojoir.schedules.file import own_schedules

CPUS = ("c", "avx2", "avx512", "neon", "sve", "rvv", "llvm@znver3", "llvm@skylake-avx512", "llvm@neoverse-n1")
GPUS = ("cuda", "hip")
SCHEDULED = ("avx512", "neon", "cuda")
RANDOM = 150
HEAD = "kernel of_{t}(N)\nfp {fp}\nin  a: {t}[N, 40]\nin  b: {t}[N, 40]\nin  c: {t}[N, 40]\n"
WAYS = {
    "plain": ("any", "reassoc", "", ""),
    "lanes": ("cpu", "reassoc", "", ": v"),
    "fast": ("cpu", "fast", "", ": v"),
    "rows": ("cpu", "reassoc", ": v", ""),
    "threads": ("gpu", "reassoc", ": gx", ": bx"),
}
"""The targets that take such kernels, their mode, the marks of the outer scope and of the inner one."""

Named = tuple[str, dojoir.Kernel]


def operations() -> Iterator[Named]:
    """For each type, kernels with all its operations and conversions, and with all its sums, in several ways."""
    for t in DTYPES:
        given = "a[{0}, {1}]", "b[{0}, {1}]", "c[{0}, {1}]"
        values = [("y[{0}, {1}] =", r, f"{r}({given[0]})") for r in DTYPES]
        for op in OPERATIONS.values():
            result = "bool" if op.kind in (Class.COMPARISON, Class.LOGICAL) else t
            values.append(("y[{0}, {1}] =", result, _called(op, *given)))
        sums = [("s[{0}] " + op, r, given[0]) for op in ("+=", "*=", "max=", "min=") for r in (t, "f32")]
        values = [value for value in values if list(_parsed("", _kernel(t, [value])))]
        sums = [value for value in sums if list(_parsed("", _kernel(t, [value])))]
        for way, (_, *marks) in WAYS.items():
            for n in range(0, len(values), 12):
                yield f"operations.{t}.{way}.{n}", dojoir.parse(_kernel(t, values[n : n + 12], *marks))
            yield f"sums.{t}.{way}", dojoir.parse(_kernel(t, sums, *marks))


def _kernel(
    t: str, values: list[tuple[str, str, str]], fp: str = "reassoc", outer: str = "", inner: str = ""
) -> str:
    """A text that assigns or sums each of the values, of another type perhaps, in a nest of its own."""
    head, body = HEAD.format(t=t, fp=fp), ""
    for n, (target, r, value) in enumerate(values):
        head += f"out {target[0]}{n}: {r}[N{', 40' * (target[0] == 'y')}]\n"
        body += f"N{outer}\n" + f"| s{n}[{{0}}] = 0\n" * (target[0] == "s")
        body += f"| 40{inner}\n| | {target[0]}{n}{target[1:]} {value}\n"
    return f"{head}\n{body}"


def _called(op: Operation, *given: str) -> str:
    if op.kind in (Class.SELECT, Class.WHEN):
        return f"select({given[0]} < {given[1]}, {given[1]}, {given[2]})"
    if op.symbol is None:
        return f"{op.name}({', '.join(given[: op.arity])})"
    return f"{given[0]} {op.symbol} {given[1]}" if op.arity == 2 else f"{op.symbol} {given[0]}"


def _parsed(name: str, text: str) -> Iterator[Named]:
    """The kernel of a text, if it is one."""
    try:
        kernel = dojoir.parse(text)
        dojoir.prove(kernel)
    except dojoir.DojoError:
        return
    yield name, kernel


def plain() -> Iterator[Named]:
    """The library, and all texts of the benchmarks and examples."""
    for name in dojoir.kernels.names():
        yield f"library.{name}", dojoir.kernels.load(name)
    for path in sorted((ROOT / folder for folder in ("benchmarks", "examples")), key=str):
        for file in sorted(path.rglob("*.dojo")):
            yield from _parsed(f"{file.parent.name}.{file.stem}", file.read_text(encoding="utf-8"))


def stored() -> Iterator[Named]:
    """The library under its stored schedules."""
    for name in dojoir.kernels.names():
        for schedule in own_schedules(name):
            kernel = dojoir.kernels.load(name)
            kernel = kernel.with_fp(schedule.fp) if schedule.fp else kernel
            try:
                yield f"stored.{schedule.path}", schedule.on(kernel).kernel
            except dojoir.DojoError:  # it is for fixed sizes
                continue


def of_tests() -> Iterator[Named]:
    """The texts of kernels that stand in the tests of code."""
    for file in sorted((TESTS / "codegen").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Constant(str(text)) if text.lstrip().startswith("kernel ") and "\n" in text:
                    yield from _parsed(f"test.{file.stem}.{node.lineno}", text)


def random_ones() -> Iterator[Named]:
    for seed in range(RANDOM):
        yield f"random.{seed}", runnable_kernel(Random(seed), converts=seed % 4 == 1, small=seed % 2 == 0)


def kernels(folder: Path, share: int) -> None:
    """Writes kernels to a folder; those that a schedule was made for, to folders of these machines."""
    given = list(plain())
    for name, kernel in (*given, *of_tests(), *random_ones(), *operations(), *stored()):
        room = WAYS[name.split(".")[2]][0] if name.startswith(("operations.", "sums.")) else "any"
        _write(folder / room / f"{name}.dojo", dojoir.to_text(kernel))
    for target in SCHEDULED:
        by_rule = dojoir.PASSES["default_schedule"].for_machine(dojoir.machine_for(target))
        for name, kernel in islice(given, 0, None, share):
            file = folder / ("gpu" if target in GPUS else "cpu") / f"{name}.{target}.dojo"
            if not file.exists():
                _write(file, dojoir.to_text(by_rule.on(kernel).kernel))


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def emit(given: Path, folder: Path, targets: list[str], share: int) -> None:
    """Writes the source of one kernel of a folder in `share` for each target, into a folder a kernel."""
    for room, takes in (("any", (*CPUS, *GPUS)), ("cpu", CPUS), ("gpu", GPUS)):
        for file in sorted((given / room).glob("*.dojo"))[::share]:
            wanted = [target for target in takes if target in targets]
            missing = [target for target in wanted if not (folder / file.stem / target).exists()]
            kernel = dojoir.load(file) if missing else None
            for target in missing:
                assert kernel
                try:
                    text = dojoir.emit(kernel, target)
                except dojoir.DojoError as error:
                    text = f"{type(error).__name__}: {error}"
                _write(folder / file.stem / target, text)


def compare(folder: Path, other: Path) -> int:
    """Prints the files of two folders that differ, and how. Returns 1 where one does, else 0."""
    count = differ = 0
    names = {path.relative_to(root) for root in (folder, other) for path in root.rglob("*") if path.is_file()}
    for name in sorted(names):
        was, now = (
            (root / name).read_text(encoding="utf-8") if (root / name).exists() else "" for root in (folder, other)
        )
        count += 1
        if was != now:
            differ += 1
            print(
                f"{name}:",
                *islice(unified_diff(was.splitlines(), now.splitlines(), lineterm="", n=1), 20),
                sep="\n",
            )
    print(f"{count} sources, {differ} differ")
    return int(differ > 0)


def main() -> int:
    parser = ArgumentParser(description="The sources of kernels by two checkouts, held against each other.")
    what = parser.add_subparsers(dest="what", required=True)
    verb = what.add_parser("kernels")
    verb.add_argument("folder", type=Path)
    verb.add_argument("--share", type=int, default=4)
    verb = what.add_parser("emit")
    verb.add_argument("kernels", type=Path)
    verb.add_argument("folder", type=Path)
    verb.add_argument("targets", nargs="*", default=[*CPUS, *GPUS])
    verb.add_argument("--share", type=int, default=1)
    verb = what.add_parser("compare")
    verb.add_argument("folder", type=Path)
    verb.add_argument("other", type=Path)
    given = parser.parse_args()
    match given.what:
        case "kernels":
            kernels(given.folder, given.share)
        case "emit":
            emit(given.kernels, given.folder, given.targets, given.share)
        case _:
            return compare(given.folder, given.other)
    return 0


if __name__ == "__main__":
    sys.exit(main())
