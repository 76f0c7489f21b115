"""The rooms of the product and the order of their imports, and what each file imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from asked import PRODUCT as PARTS
from asked import Source, asked
from folders import ROOT

ROWS = (
    "support.frozen errors codes support ir highlight types query grammar rules sets meaning",
    "proof.verdict proof.certificate proof.claim proof.difference proof.facts proof.core proof.explain",
    "proof.refute.small_run proof.patterns proof.refute proof.slice proof.checker_mode proof.node_in_context",
    "proof.under_sizes proof.wellformed proof.exactness",
    "proof.check proof",
    "author gradient instructions kernels backends costs",
    "passes.base passes.loops passes.storage passes.values passes.hardware passes.engine",
    "passes.schedule.facts passes.schedule.steps passes.schedule.forms",
    "passes.schedule.cpu.tiles passes.schedule.cpu.rows passes.schedule.cpu.roles passes.schedule.cpu",
    "passes.schedule.gpu.sharing passes.schedule.gpu.tiles passes.schedule.gpu.rows passes.schedule.gpu",
    "passes.schedule.plan passes.schedule passes",
    "codegen.target codegen.lir codegen.legal codegen.math",
    "codegen.lower.plans codegen.lower.gpu codegen.lower.waits codegen.lower.texts codegen.lower.access",
    "codegen.lower.sums codegen.lower.vectors codegen.lower.nests codegen.lower",
    "codegen.c codegen.simd codegen.gpu codegen.llvm",
    "codegen.emission codegen runtime.call runtime.build.headers runtime.build.c_toolchain runtime.simt",
    "runtime.gpu runtime.build runtime.process runtime.verification runtime.measurement runtime.evaluation",
    "runtime.library runtime.diagnosis runtime testing torch schedules records cli",
    "search game evidence tasks data know llm editor verbs",
)
ROOMS = [room for row in ROWS for room in row.split()]
"""The rooms in the order of their imports: each may use those before it. Type-only and lazy imports count."""


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Every module or name that a file imports, anywhere in it, as a full dotted name with its line."""
    for line, level, name in imports(path):
        assert level == 0, f"{path}:{line}: imports are absolute"
        yield line, name


@asked()
def imports(source: Source) -> list[tuple[int, int, str]]:
    """The line, the level and the full name of each import."""
    whole = [(node.lineno, 0, alias.name) for node in source.all(ast.Import) for alias in node.names]
    return whole + [
        (node.lineno, node.level, f"{node.module}.{alias.name}")
        for node in source.all(ast.ImportFrom)
        for alias in node.names
    ]


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def module_of(path: Path) -> str:
    """The dotted name of a file of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "dojoir" else ("dojoir", *parts)).removesuffix(".__init__")


MODULES = {module_of(path) for part in PARTS for path in sources(part)}


def room_of(module: str) -> str | None:
    """The room of a module: the longest name in ROOMS that it is or is in."""
    below = module.removeprefix("dojoir.")
    found = [room for room in ROOMS if below == room or below.startswith(room + ".")]
    return max(found, key=len, default=None)


def ours(path: Path) -> Iterator[tuple[str, str]]:
    """What a file imports of dojoir: where, and the module that it is in."""
    for line, name in imported(path):
        if name.partition(".")[0] == "dojoir":
            module = name if name in MODULES else name.rpartition(".")[0]
            yield f"{path.relative_to(ROOT)}:{line}: import of {name}", module


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules of which each is reached from each other one, by `graph`: what each imports."""
    left = {module: set(used) & set(graph) for module, used in graph.items()}
    for way in (0, 1):  # first modules that import nothing any more, then those that nothing imports
        while True:
            used = set().union(*left.values()) if way else set()
            gone = {module for module, uses in left.items() if (module not in used if way else not uses)}
            if not gone:
                break
            left = {module: uses - gone for module, uses in left.items() if module not in gone}
    found: list[list[str]] = []
    for module in left:
        if not any(module in circle for circle in found):
            reached = _reached(left, module)
            found.append(sorted(other for other in reached if module in _reached(left, other)))
    return [circle for circle in found if circle]


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    """The modules that `start` imports, and those that they import, and so on."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def part_of(room: str) -> str:
    """The first word of a room. `support.frozen` is a part of its own, which `errors` uses, as `support` does."""
    return room if room == ROOMS[0] else room.partition(".")[0]


def uses() -> dict[str, set[str]]:
    """The parts of the product, and which others each uses."""
    found: dict[str, set[str]] = {part_of(room): set() for room in ROOMS}
    for part in PARTS:
        for path in sources(part):
            room, used = room_of(module_of(path)), (room_of(module) for _, module in ours(path))
            if room is not None:
                found[part_of(room)] |= {part_of(name) for name in used if name is not None} - {part_of(room)}
    return found


def picture() -> str:
    """The imports between rooms as a graph in the language of Graphviz. An arrow that others stand for already is
    left out, so that each room points at those right below it."""
    graph = uses()
    assert circles(graph) == []
    lines = ["digraph rooms {"]
    for room, used in graph.items():
        direct = [name for name in used if not any(name in _reached(graph, other) for other in used - {name})]
        below = " ".join(f'"{name}"' for name in sorted(direct))
        lines.append(f'  "{room}" -> {{{below}}}')
    return "\n".join([*lines, "}"])


if __name__ == "__main__":
    print(picture())
