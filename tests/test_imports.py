"""Imports point one way: a room uses only those before it, and the users of the API know only the API."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dojoir
from dojoir.backends.backend import code
from dojoir.backends.registry import OURS
from dojoir.codegen.simd.isas import ISAS

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("dojoir", "grammar", "passes", "codegen", "runtime")

ROWS = (
    "support.frozen errors codes support ir highlight types query grammar rules sets meaning",
    "proof.verdict proof.certificate proof.claim proof.difference proof.explain proof.facts proof.core",
    "proof.refute.small_run proof.patterns proof.refute proof.slice proof.way proof.wellformed proof.exactness",
    "proof.check proof",
    "author instructions kernels backends costs",
    "passes.base passes.loops passes.storage passes.values passes.hardware passes.engine passes.schedule passes",
    "codegen.target codegen.lir codegen.math codegen.lower codegen.c codegen.simd codegen.gpu codegen.llvm",
    "codegen.emission codegen runtime.call runtime.build.cache runtime.build.c_toolchain runtime.simt",
    "runtime.gpu runtime.build runtime.process runtime.verification runtime.measurement runtime.evaluation",
    "runtime.library runtime.diagnosis runtime torch schedules cli",
    "records search game verbs",
)
ROOMS = [room for row in ROWS for room in row.split()]
"""The rooms in the order of their imports: each may use those before it. Type-only and lazy imports count."""

TOP = ("cli", "records", "search", "game", "verbs")
"""The rooms on top: users of the API, each of which may also use those before it."""

USERS = ("dojoir/torch", "dojoir/schedules", *(f"dojoir/{room}" for room in TOP), "examples", "benchmarks")
"""What knows only the names that a user types."""


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Every module or name that a file imports, anywhere in it, as a full dotted name with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        match node:
            case ast.Import(names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module, names, level):
                assert level == 0, f"{path}:{node.lineno}: imports are absolute"
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)


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


@pytest.mark.parametrize("module", sorted(MODULES - {"dojoir"}))
def test_a_room_uses_those_before_it(module: str) -> None:
    (path,) = (path for part in PARTS for path in sources(part) if module_of(path) == module)
    room = room_of(module)
    assert room is not None, f"{module} stands in no room"
    for place, other in ours(path):
        if other == "dojoir":
            assert str(path.relative_to(ROOT)).startswith(USERS), f"{place}: this is for users"
        else:
            used = room_of(other)
            assert used is not None, place
            assert ROOMS.index(used) <= ROOMS.index(room), f"{place}: {used} stands after {room}"


@pytest.mark.parametrize("folder", USERS)
def test_users_of_the_api_know_only_the_api(folder: str) -> None:
    package = folder.replace("/", ".").removeprefix("dojoir.")
    for path in sources(folder):
        for line, name in imported(path):
            first, _, below = name.partition(".")
            if package in TOP:
                below_it = TOP[: TOP.index(package)]
            else:
                below_it = TOP[1:] if folder in ("examples", "benchmarks") else ()
            known = {"", package, "__version__", *dojoir.__all__, *below_it}
            assert first != "dojoir" or below.partition(".")[0] in known, f"{path.name}:{line}: import of {name}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            match node:
                case ast.Attribute(ast.Name("dojoir"), name):
                    assert name in {"__version__", *dojoir.__all__}, f"{path}:{node.lineno}: dojoir.{name}"


def test_every_public_name_is_there() -> None:
    for name in dojoir.__all__:
        assert getattr(dojoir, name) is not None
    assert len(set(dojoir.__all__)) == len(dojoir.__all__)
    assert set(dojoir.__all__) <= set(dir(dojoir))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(dojoir, "nonsense")  # noqa: B009


def loaded(code: str, modules: list[str]) -> str:
    """Which of the modules a new process has loaded after some code."""
    code = f"import sys, dojoir\n{code}\nprint([m for m in {modules} if m in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_a_bare_import_is_light() -> None:
    rooms = ["dojoir.records", "dojoir.search", "dojoir.game"]
    assert loaded("", ["lark", "sympy", "islpy", "llvmlite", "numpy", *rooms]) == "[]"


def test_import_brings_no_package_of_an_extra() -> None:
    extras = ["sqlalchemy", "gymnasium", "sklearn", "torch", "transformers", "distributed", "safetensors"]
    assert loaded("for name in dojoir.__all__:\n if name != 'torch': getattr(dojoir, name)", extras) == "[]"


def test_what_llvm_does_not_need_is_not_loaded() -> None:
    """Neither computer algebra nor the targets that call a C compiler."""
    code = 'dojoir.compile(dojoir.optimize(dojoir.kernels.load("softmax")).kernel)'
    others = ["sympy", "dojoir.codegen.c.printer", "dojoir.codegen.simd.printer", "dojoir.runtime.build.emulation"]
    assert loaded(code, others) == "[]"


def test_the_targets_with_intrinsics_are_known_by_name() -> None:
    printed = [name for name, backend in OURS.items() if backend.emit.startswith("dojoir.codegen.simd.")]
    assert list(ISAS) == printed


def test_the_code_of_a_backend_is_there() -> None:
    for backend in OURS.values():
        for part in ("emit", "target", "compile", "emulate", "way", "on_host"):
            reference = getattr(backend, part)
            assert callable(code(reference)) if reference else part in ("emulate", "on_host"), backend.name
