"""Imports point one way: the IR knows no part, the parts know the IR, the users of the API only the API."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dojoir
from dojoir.codegen.isas import ISAS
from dojoir.codegen.target import INTRINSICS

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("grammar", "passes", "codegen", "runtime")
CORE = {path.stem for path in (ROOT / "dojoir").glob("*.py")} - {"__init__"} | {"rules"}

ALLOWED = {
    "grammar": set(),
    "passes": {"grammar"},  # the text of moves and pipelines
    "codegen": set(),
    "runtime": {"codegen"},
}
"""What each part may import besides the IR and itself."""


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


def ours(path: Path) -> Iterator[tuple[str, str]]:
    """What a file imports of dojoir: where, and the names below `dojoir`."""
    for line, name in imported(path):
        package, _, below = name.partition(".")
        if package == "dojoir":
            yield f"{path.relative_to(ROOT)}:{line}: import of {name}", below


@pytest.mark.parametrize("part", PARTS)
def test_a_part_knows_the_ir_and_what_is_below_it(part: str) -> None:
    assert sources(part)
    for path in sources(part):
        for place, below in ours(path):
            assert below.partition(".")[0] in CORE | ALLOWED[part] | {part}, place


def test_the_ir_knows_no_part() -> None:
    for path in (ROOT / "dojoir").glob("*.py"):
        if path.stem != "__init__":  # it gives every name, and imports each when it is first used
            for place, below in ours(path):
                assert below.partition(".")[0] in CORE, place


@pytest.mark.parametrize("folder", ["dojoir/cli", "dojoir/schedules", "examples", "benchmarks"])
def test_users_of_the_api_know_only_the_api(folder: str) -> None:
    package = folder.replace("/", ".").removeprefix("dojoir.")
    for path in sources(folder):
        for place, below in ours(path):
            first = below.partition(".")[0]
            assert first in {"", package, "__version__", *dojoir.__all__}, place
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
    assert loaded("", ["lark", "sympy", "islpy", "llvmlite", "numpy"]) == "[]"


def test_what_llvm_does_not_need_is_not_loaded() -> None:
    """Neither computer algebra nor the targets that call a C compiler."""
    code = 'dojoir.compile(dojoir.optimize(dojoir.kernels.load("softmax")).kernel)'
    others = ["sympy", "dojoir.codegen.c", "dojoir.codegen.simd", "dojoir.runtime.emulation"]
    assert loaded(code, others) == "[]"


def test_the_targets_with_intrinsics_are_known_by_name() -> None:
    assert tuple(ISAS) == INTRINSICS
