"""Where the documents of dojoir come from: pages, codes, moves, passes, marks, rules, structures and schedules."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import dojoir
from dojoir.codes import CODES, OBLIGATIONS
from dojoir.know.document import MEASURED_HERE, WEIGHTS, Document, sections
from dojoir.passes.schedule.cpu.structures import CPU_STRUCTURES
from dojoir.passes.schedule.plan.parts import STRUCTURES

MADE = {"moves", "api", "errors", "index"}
"""Pages that are made from the code, or are a list of the others."""

MARKS = {
    "p": "the iterations of a scope are shared out over the cores of a CPU; parallelize(@i) sets it",
    "v": "the iterations of a scope run in vector lanes; vectorize(@j) sets it",
    "u": "a scope of constant extent is written out, unrolled; unroll(@j) sets it",
    "gx": "a scope runs over the blocks of a GPU's grid, first dimension; bind(@i, gx) sets it",
    "gy": "a scope runs over the blocks of a GPU's grid, second dimension; bind(@i, gy) sets it",
    "gz": "a scope runs over the blocks of a GPU's grid, third dimension; bind(@i, gz) sets it",
    "bx": "a scope runs on the threads of a GPU's block, first dimension; bind(@i, bx) sets it",
    "by": "a scope runs on the threads of a GPU's block, second dimension; bind(@i, by) sets it",
    "bz": "a scope runs on the threads of a GPU's block, third dimension; bind(@i, bz) sets it",
    "lane": "a scope runs on the lanes of a GPU's warp; bind(@i, lane) sets it",
}
"""The marks of scopes in words. Each needs that the iterations are independent, which is proved."""


@lru_cache(maxsize=1)
def documents() -> tuple[Document, ...]:
    """All documents that come with dojoir, always in the same order."""
    found = [*_pages(), *_codes(), *_moves(), *_passes(), *_marks(), *_rules(), *_structures(), *_schedules()]
    return tuple(found)


def _pages() -> Iterator[Document]:
    """The sections of docs/: of a checkout, or the copy that an installed package has."""
    installed = Path(str(files("dojoir").joinpath("know", "pages")))
    checkout = Path(str(files("dojoir"))).resolve().parent / "docs"
    folder = installed if installed.is_dir() else checkout
    for path in sorted(folder.glob("*.md")):
        if path.stem not in MADE:
            yield from sections(path.read_text(encoding="utf-8"), path.stem, "doc", f"docs/{path.name}")


def _codes() -> Iterator[Document]:
    for code, entry in CODES.items():
        means = OBLIGATIONS[entry.of]
        text = f"{entry.meaning}\nexample: {entry.example}\ncure: {entry.cure}\nof: {entry.of} ({means})"
        yield Document("code", code, entry.meaning, text, "codes.toml", WEIGHTS["code"])


def _moves() -> Iterator[Document]:
    for kind in dojoir.MOVES:
        yield _of_docstring("move", kind.name, inspect.cleandoc(kind.__doc__ or ""))


def _passes() -> Iterator[Document]:
    for name, chosen in dojoir.PASSES.items():
        yield _of_docstring("pass", name, chosen.documentation)


def _structures() -> Iterator[Document]:
    on_cpus = {name: one for name, (role, one) in CPU_STRUCTURES.items() if role.optional}
    for name, structure in {**STRUCTURES, **on_cpus}.items():
        text = f"{inspect.cleandoc(structure.__doc__ or '')}\nmade by: structure(NEST, {name})"
        yield _of_docstring("structure", name, text)


def _of_docstring(kind: str, name: str, text: str) -> Document:
    title = " ".join(text.partition("\n\n")[0].split())
    return Document(kind, name, title, text, f"{kind} {name}", WEIGHTS[kind])


def _marks() -> Iterator[Document]:
    for mark, text in MARKS.items():
        yield Document("mark", mark, text, text, "docs/language.md", WEIGHTS["mark"])


def _rules() -> Iterator[Document]:
    for name in dojoir.rules.names():
        text = dojoir.rules.source(name)
        title = " ".join(line.lstrip("# ") for line in text.partition("\n#\n")[0].splitlines() if line[:1] == "#")
        yield Document("rule", name, title or name, text, f"rule {name}", WEIGHTS["rule"])


def _schedules() -> Iterator[Document]:
    machine = dojoir.machine_for("llvm")
    for kernel in dojoir.kernels.names():
        for schedule in dojoir.schedules.schedules(kernel):
            here = schedule.is_tuned("llvm", machine)
            name = Path(schedule.path).name.removesuffix(".moves")
            when = " or ".join(", ".join(line) for line in schedule.when)
            title = f"stored schedule of {kernel}{f' when {when}' if when else ''}: {_first(schedule.moves)}"
            weight = MEASURED_HERE if here else WEIGHTS["schedule"]
            yield Document("schedule", name, title, schedule.moves, f"schedule {name}", weight)


def _first(text: str) -> str:
    """The first comment of a schedule that is no line of its header."""
    header = ("kernel", "targets", "needs", "tuned", "when", "fp")
    comments = (line.lstrip("# ").strip() for line in text.splitlines() if line.startswith("#"))
    return next((said for said in comments if said.partition(":")[0] not in header), "no comment")
