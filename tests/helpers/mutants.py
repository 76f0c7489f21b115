"""Is a fault of the product found? Edits of its syntax tree, each given to the tests until one fails.

    python tests/helpers/mutants.py --count 200 --jobs 16 --limit-seconds 480 --results mutants.jsonl
    python tests/helpers/mutants.py --results mutants.jsonl --table tests/helpers/MUTANTS.md

A mutant is one edit: a comparison turned, a bound off by one, a branch left out, two arguments exchanged, `and` for
`or`, a `not` lost. They are drawn from the rooms that hold what is right (`ROOMS`), as many of each kind. The files
of tests that name the module run first, then those of the rooms nearest to it, then the others: the drawn tier or,
with `--share 1`, all; not those that fail on this machine without an edit. Mutants that the file of results has are
done: a run may be stopped and goes on. What is alive after `--each` seconds is listed, to be judged: it may be no
fault at all.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent.parent
PARTS = ("grammar", "passes", "codegen", "runtime")

ROOMS = {
    "dojoir/proof": ("proof", "passes", "whole"),
    "dojoir/sets": ("proof", "meaning", "passes"),
    "codegen/lower": ("codegen", "whole", "runtime"),
    "dojoir/meaning": ("meaning", "types", "kernels"),
    "passes/engine": ("passes", "proof", "schedules"),
    "passes/schedule": ("passes", "schedules", "search"),
    "codegen/gpu": ("codegen", "runtime", "whole"),
}
"""Where mutants are drawn, and the rooms of the tests that are asked first. The others follow, all at once."""

QUIETLY = ("-q", "--tb=no", "--continue-on-collection-errors", "-p", "no:cacheprovider")
PYTEST = (sys.executable, "-m", "pytest", *QUIETLY)
FAILED = ("FAILED", "ERROR")

TURNED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
    ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """An edit of a file: what stands from `start` to `end`, in characters, is `new`."""

    path: str
    line: int
    kind: str
    start: int
    end: int
    old: str
    new: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line} {self.kind}: {self.old} -> {self.new}"

    def text(self) -> str:
        """The file with the edit. Raises ValueError where it has become another one."""
        written = (ROOT / self.path).read_text(encoding="utf-8")
        if written[self.start : self.end] != self.old:
            raise ValueError(f"{self.path} is not the file that {self.name} was drawn from")
        return written[: self.start] + self.new + written[self.end :]


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: the first test that failed, or nothing, after how many seconds."""

    mutant: str
    killed_by: str
    seconds: float


# -- mutants -----------------------------------------------------------------------------------------------------
def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a file."""
    written = path.read_text(encoding="utf-8")
    starts = [0]
    for text in written.splitlines(keepends=True):
        starts.append(starts[-1] + len(text))
    lines = written.splitlines()

    def place(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def edit(kind: str, first: ast.expr, last: ast.expr, new: str) -> Mutant:
        assert last.end_lineno is not None and last.end_col_offset is not None
        start, end = place(first.lineno, first.col_offset), place(last.end_lineno, last.end_col_offset)
        return Mutant(str(path.relative_to(ROOT)), first.lineno, kind, start, end, written[start:end], new)

    for node in ast.walk(ast.parse(written)):
        match node:
            case ast.Compare(left, [operator], [right]):
                new = f"({ast.unparse(left)}) {TURNED[type(operator)]} ({ast.unparse(right)})"
                yield edit("comparison", node, node, new)
            case ast.BinOp(_, ast.Add() | ast.Sub(), ast.Constant(int(value)) as number):
                yield edit("bound", number, number, str(value + 1))
            case ast.Call(ast.Name("range"), [*_, last]):
                yield edit("bound", last, last, f"({ast.unparse(last)}) - 1")
            case ast.If(condition, _, _) if not _of_types(condition):
                yield edit("branch", condition, condition, "False")
            case ast.IfExp(condition, _, _):
                yield edit("branch", condition, condition, "False")
            case ast.Call(_, [one, other, *_]) if not isinstance(one, ast.Starred | ast.Constant):
                if ast.unparse(one) != ast.unparse(other) and not isinstance(other, ast.Starred):
                    yield edit("arguments", one, other, f"{ast.unparse(other)}, {ast.unparse(one)}")
            case ast.BoolOp(operation, values):
                word = " or " if isinstance(operation, ast.And) else " and "
                yield edit("connective", node, node, f"({word.join(f'({ast.unparse(v)})' for v in values)})")
            case ast.UnaryOp(ast.Not(), operand):
                yield edit("negation", node, node, f"bool({ast.unparse(operand)})")


def _of_types(condition: ast.expr) -> bool:
    return isinstance(condition, ast.Name) and condition.id == "TYPE_CHECKING"


def draw(count: int, seed: int) -> list[Mutant]:
    """Mutants, as many of each kind and room as there are, in an order that hangs on the seed alone."""
    random = Random(seed)
    by: dict[tuple[str, str], list[Mutant]] = defaultdict(list)
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for mutant in mutants_of(path):
                by[room, mutant.kind].append(mutant)
    for mutants in by.values():
        random.shuffle(mutants)
    found: list[Mutant] = []
    while len(found) < count and any(by.values()):
        keys = sorted(key for key in by if by[key])
        random.shuffle(keys)
        found += [by[key].pop() for key in keys]
    return found[:count]


# -- trials ------------------------------------------------------------------------------------------------------
def plant(mutant: Mutant | None, folder: Path) -> None:
    """A package `dojoir` in a folder, laid out as it is installed, by links, with one file edited, or none."""
    sources = {"dojoir": ROOT / "dojoir", **{f"dojoir/{part}": ROOT / part for part in PARTS}}
    edited = "" if mutant is None else f"dojoir/{mutant.path.removeprefix('dojoir/')}"
    for inside, source in sources.items():
        (folder / inside).mkdir(parents=True, exist_ok=True)
        _link(source, folder / inside, folder / edited)
    if mutant is not None:
        (folder / edited).write_text(mutant.text(), encoding="utf-8")


def _link(source: Path, folder: Path, edited: Path) -> None:
    """Links to all that a folder holds, but for the edited file and the folders that lead to it."""
    for entry in source.iterdir():
        to = folder / entry.name
        if entry.name == "__pycache__" or to == edited or (to.is_dir() and not to.is_symlink()):
            continue
        if edited.is_relative_to(to):
            to.mkdir()
            _link(entry, to, edited)
        else:
            to.symlink_to(entry)


def environment_of(folder: str) -> dict[str, str]:
    """The environment of processes that load the `dojoir` of a folder, and not the one that they start in."""
    helpers = str(ROOT / "tests" / "helpers")  # scripts there import each other
    path = os.pathsep.join(word for word in (folder, helpers, os.environ.get("PYTHONPATH", "")) if word)
    return os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def failing(seed: str, share: str, jobs: int, costs: Path | None = None) -> list[str]:
    """The tests that fail on this machine without an edit; `costs` gets what each takes (`tiers.py`)."""
    with tempfile.TemporaryDirectory(prefix="dojoir-mutant-") as folder:
        plant(None, Path(folder))
        command = [*PYTEST, "--seed", seed, "--share", share, "-n", str(jobs), "tests"]
        command += [] if costs is None else ["--costs", str(costs.resolve())]
        done = subprocess.run(
            command, cwd=ROOT, env=environment_of(folder), capture_output=True, text=True, check=False
        )
    if done.returncode not in (0, 1):
        raise SystemExit(f"the tests do not run without an edit:\n{done.stdout}{done.stderr}")
    return failed_in(done.stdout)


def failed_in(said: str) -> list[str]:
    """The tests and files that a run of pytest says failed."""
    words = (line.split(" ", 1) for line in said.splitlines())
    return [rest.split(" - ")[0] for word, rest in (pair for pair in words if len(pair) == 2) if word in FAILED]


def naming(path: str) -> list[str]:
    """The files of tests that have the name of a module of the product, or import it."""
    inside = path.removeprefix("dojoir/").removesuffix(".py").removesuffix("/__init__")
    module = f"dojoir/{inside}".replace("/", ".")
    package, _, name = module.rpartition(".")
    words = re.compile(rf"(from|import) {re.escape(module)}\b|from {re.escape(package)} import [^\n]*\b{name}\b")
    files = sorted((ROOT / "tests").glob("*/test_*.py"))
    asked = [file for file in files if name.rstrip("s") in file.stem or words.search(file.read_text("utf-8"))]
    return [str(file.relative_to(ROOT)) for file in asked]


def tried(mutant: Mutant, seed: str, share: str, limit: float, left_out: Sequence[str] = ()) -> Outcome:
    """Gives a mutant to the tests of the rooms nearest to it, then to all, until one fails or the time is up."""
    began = time.monotonic()
    room = next(room for room in ROOMS if mutant.path.startswith(f"{room}/"))
    asked = [naming(mutant.path), *([f"tests/{name}"] for name in ROOMS[room])]
    asked.append([str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").iterdir())
                  if [f"tests/{path.name}"] not in asked and any(path.glob("test_*.py"))])  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="dojoir-mutant-") as folder:
        plant(mutant, Path(folder))
        environment = environment_of(folder) | {"DOJOIR_CACHE": str(Path(folder, "kept"))}
        for tests in asked:
            left = limit - (time.monotonic() - began)
            if left <= 0:
                break
            if not tests:
                continue
            command = [*PYTEST, "-x", "--seed", seed, "--share", share, *tests]
            command += [f"--deselect={name}" for name in ("tests/project/test_style.py", *left_out)]
            try:
                done = subprocess.run(
                    command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=left, check=False
                )
            except subprocess.TimeoutExpired:
                break
            if done.returncode not in (0, 5):
                by = next(iter(failed_in(done.stdout)), f"pytest: status {done.returncode}")
                return Outcome(mutant.name, by, round(time.monotonic() - began, 1))
    return Outcome(mutant.name, "", round(time.monotonic() - began, 1))


def table(outcomes: list[Outcome]) -> str:
    """The page of what was found."""
    counts: Counter[tuple[str, bool]] = Counter()
    for outcome in outcomes:
        room = next(room for room in ROOMS if outcome.mutant.startswith(f"{room}/"))
        for name in (room, outcome.mutant.partition(" ")[2].partition(":")[0], "all"):
            counts[name, bool(outcome.killed_by)] += 1
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    said = f"At {commit.stdout.strip()[:8] or 'no commit'}; `mutants.py` says what they are."
    lines = [f"# Mutants of the product\n\n{said}\n", "| mutants of | killed | alive |", "|---|---:|---:|"]
    names = dict.fromkeys(name for name, _ in counts)
    lines += [f"| {name} | {counts[name, True]} | {counts[name, False]} |" for name in names]
    lines += ["\n## Alive, to be judged\n", *(f"- `{o.mutant}`" for o in outcomes if not o.killed_by)]
    lines += ["\n## Killed, by the first test that fails\n"]
    lines += [f"- `{o.mutant}`: {o.killed_by.removeprefix('tests/')}" for o in outcomes if o.killed_by]
    return "\n".join(lines) + "\n"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--draw", type=int, default=0, help="the seed of the mutants (%(default)s)")
    options.add_argument("--seed", default="0", help="the seed of the drawn tier (%(default)s)")
    options.add_argument("--share", default="1/8")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--limit-seconds", type=float, default=3600.0, help="no mutant begins after this")
    options.add_argument("--each", type=float, default=150.0, help="seconds that a mutant may live (%(default)s)")
    options.add_argument("--results", type=Path, required=True)
    options.add_argument("--table", type=Path)
    options.add_argument("--costs", type=Path, help="the file that gets the seconds of each test without an edit")
    given = options.parse_args()
    done = []
    if given.results.exists():
        done = [Outcome(**json.loads(line)) for line in given.results.read_text(encoding="utf-8").splitlines()]
    if given.table is not None:
        given.table.write_text(table(done), encoding="utf-8")
        return
    began, known = time.monotonic(), {outcome.mutant for outcome in done}
    left_out = failing(given.seed, given.share, given.jobs, given.costs)
    print(f"{len(left_out)} tests fail without an edit: {' '.join(left_out)}", flush=True)
    waiting = [mutant for mutant in draw(given.count, given.draw) if mutant.name not in known]

    def run(mutant: Mutant) -> None:
        left = given.limit_seconds - (time.monotonic() - began)
        if left > given.each / 4:
            outcome = tried(mutant, given.seed, given.share, min(given.each, left), left_out)
            with open(given.results, "a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
            print(f"{outcome.seconds:6.1f} s  {outcome.mutant}  {outcome.killed_by or 'ALIVE'}", flush=True)

    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(run, waiting))


if __name__ == "__main__":
    main()
