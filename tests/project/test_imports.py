"""Imports point one way: a room uses only those before it, and the users of the API know only the API."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys

import pytest
from folders import ROOT
from rooms import MODULES, PARTS, ROOMS, circles, imported, module_of, ours, picture, room_of, sources
from stub import STUB, stub
from styled import names_of_dojoir

import dojoir
from dojoir.backends.backend import code
from dojoir.backends.registry import OURS
from dojoir.codegen.simd.isas import ISAS

TOP = ("records", "cli", "search", "game", "evidence", "tasks", "data", "know", "llm", "editor", "verbs")
"""The rooms on top: users of the API, each of which may also use those before it."""

USERS = ("dojoir/torch", "dojoir/schedules", *(f"dojoir/{room}" for room in TOP), "examples", "benchmarks")
"""What knows only the names that a user types."""

SHARED = ("support.lazily.", "support.public.")
"""Modules of a room below that every room may use."""

PRINTERS = {
    "search/__init__.py": {"costs", "passes"},  # it has the names of theirs that searches need
    "numba_text.py": {"ir", "meaning", "types"},
    "sources.py": {"codes", "passes"},
    "choice.py": {"passes"},
    "choices.py": {"passes"},
    "planning.py": {"passes", "ir"},
    "structures.py": {"passes"},
    "ordering.py": {"costs", "passes"},
    "tuned.py": {"ir"},
    "of_text.py": {"codes"},
    "builder.py": {"ir"},  # the words of the language: no buffer of an imported text is called so
    "elementwise.py": {"ir"},  # a function of the language stands for one of PyTorch of the same name
    "element_values.py": {"ir", "types"},  # the values of an imported program are typed expressions
    "words.py": {"ir"},
    "player.py": {"runtime"},
    "isolated_agent.py": {"runtime"},
}
"""But for what prints kernels in a way of its own: it reads the tree, as a target does; for cells of notebooks; for
what makes documents or messages of the table of codes and of the docstrings of the planner's structures; for what
explains the words of the language; for what asks the planner for all that it found, and measures its model;
for what contains the processes of agents."""


def test_a_room_uses_those_before_it() -> None:
    paths = {module_of(path): path for part in PARTS for path in sources(part)}
    assert paths.keys() >= MODULES - {"dojoir"} and len(MODULES) > 800
    for module in sorted(MODULES - {"dojoir"}):
        room = room_of(module)
        assert room is not None, f"{module} stands in no room"
        for place, other in ours(paths[module]):
            if other == "dojoir":
                assert str(paths[module].relative_to(ROOT)).startswith(USERS), f"{place}: this is for users"
            else:
                used = room_of(other)
                assert used is not None, place
                assert ROOMS.index(used) <= ROOMS.index(room), f"{place}: {used} stands after {room}"


@pytest.mark.parametrize("pair", ["cpu gpu", "cpu.tiles cpu.rows", "gpu.tiles gpu.rows"])
def test_schedules_of_a_kind_stand_by_themselves(pair: str) -> None:
    """Neither of two rooms of schedules uses the other, whatever their order in the list is."""
    one, other = (f"dojoir.passes.schedule.{kind}." for kind in pair.split())
    used = {(module_of(path), name) for path in sources("passes") for _, name in ours(path)}
    assert any(module.startswith(one) for module, _ in used)
    assert not [(m, n) for m, n in used if m.startswith(one) and n.startswith(other)]
    assert not [(m, n) for m, n in used if m.startswith(other) and n.startswith(one)]


def test_no_files_import_one_another() -> None:
    """Also for types, inside of functions and by what a room names: `dojoir` itself, whose names are imported when
    they are first used, is the one exception."""
    files = {module_of(path): path for part in PARTS for path in sources(part)}
    graph = {module: {name for _, name in ours(path)} - {module} for module, path in files.items()}
    assert circles({module: used for module, used in graph.items() if module != "dojoir"}) == []


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}
    assert circles(graph) == [["b", "c"]]
    assert circles({"a": {"b"}, "b": set()}) == []


def test_the_page_on_the_architecture_has_the_rooms_in_their_order() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", text, re.MULTILINE)
    shown = [name for row in rows for name in re.findall(r"\w+", row)]
    assert [name for name in shown if name != "support"] == [
        room for room in dict.fromkeys(room.partition(".")[0] for room in ROOMS) if room != "support"
    ]
    for top in ("proof", "passes", "codegen", "runtime"):
        inside = [room.partition(".")[2] for room in ROOMS if room.startswith(f"{top}.")]
        line = re.search(rf"^- `{top}`: (.*?)\.$", text, re.MULTILINE | re.DOTALL)
        assert line and re.findall(r"[\w.]+", line[1]) == inside, top


def test_the_page_on_the_architecture_has_the_picture_of_the_imports() -> None:
    """`python tests/helpers/rooms.py` prints it; there is none where rooms import one another."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"```dot\n{picture()}\n```" in text


LARGEST_FOLDER = 25


def test_no_folder_has_more_files_than_a_reader_keeps_in_mind() -> None:
    counts = {
        str(folder.relative_to(ROOT)): len(list(folder.glob("*.py")))
        for part in PARTS
        for folder in [ROOT / part, *(path for path in (ROOT / part).rglob("*") if path.is_dir())]
    }
    most = {name: 15 if name.startswith("codegen/lower") else LARGEST_FOLDER for name in counts}
    assert {name: count for name, count in counts.items() if count > most[name]} == {}


@pytest.mark.parametrize("folder", USERS)
def test_users_of_the_api_know_only_the_api(folder: str) -> None:
    package = folder.replace("/", ".").removeprefix("dojoir.")
    for path in sources(folder):
        for line, name in imported(path):
            first, _, below = name.partition(".")
            if package in TOP:
                below_it = TOP[: TOP.index(package)]
            else:
                below_it = (
                    tuple(room for room in TOP if room != "cli") if folder in ("examples", "benchmarks") else ()
                )
            known = {"", package, "__version__", "highlight", *dojoir.__all__, *below_it}
            known |= PRINTERS.get(path.name, set()) | PRINTERS.get(f"{path.parent.name}/{path.name}", set())
            module, _, own = below.rpartition(".")
            is_known = own in dojoir.MOVED.get(module, "").split() or below.partition(".")[0] in known
            is_known = is_known or below == "runtime" or below.startswith(SHARED)
            assert first != "dojoir" or is_known, f"{path.name}:{line}: import of {name}"
        rooms = {module.partition(".")[0] for module in dojoir.MOVED}
        for number, name in names_of_dojoir(path):
            assert name in {"__version__", "highlight", *rooms, *dojoir.__all__}, f"{path}:{number}: dojoir.{name}"


def test_every_public_name_is_there() -> None:
    for name in dojoir.__all__:
        assert getattr(dojoir, name) is not None
    assert len(set(dojoir.__all__)) == len(dojoir.__all__)
    assert set(dojoir.__all__) <= set(dir(dojoir))


@pytest.mark.parametrize("room", ["records", "game", "evidence", "tasks", "data", "know", "llm"])
def test_the_names_of_a_room_on_top_are_there(room: str) -> None:
    """They are imported when they are first used, and stand in one place each."""
    needs = {"game": "gymnasium"}.get(room, "sqlalchemy")
    pytest.importorskip(needs, reason="needs the extra agents")
    if room == "game":
        pytest.importorskip("torch", reason="Max-Q needs the extra learn")
    package = importlib.import_module(f"dojoir.{room}")
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert getattr(package, name) is vars(package)[name]
    with pytest.raises(AttributeError, match=f"'dojoir.{room}' has no attribute 'nonsense'"):
        package.nonsense  # noqa: B018


def test_type_checkers_see_the_same_names() -> None:
    assert STUB.read_text(encoding="utf-8") == stub(), "run python tests/helpers/stub.py"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(dojoir, "nonsense")  # noqa: B009


def loaded(code: str, modules: list[str]) -> str:
    """Which of the modules a new process has loaded after some code."""
    code = f"import sys, dojoir\n{code}\nprint([m for m in {modules} if m in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_a_function_stays_where_a_module_has_its_name() -> None:
    """`dojoir.gradient` is the function also where the module of that name was imported first."""
    code = "import dojoir.gradient.made\nprint(callable(dojoir.gradient))"
    assert loaded(code, []).splitlines() == ["True", "[]"]


def test_a_bare_import_is_light() -> None:
    rooms = ["dojoir.records", "dojoir.search", "dojoir.game"]
    assert loaded("", ["lark", "sympy", "islpy", "llvmlite", "numpy", *rooms]) == "[]"


def test_import_brings_no_package_of_an_extra() -> None:
    extras = ["sqlalchemy", "gymnasium", "torch", "transformers", "distributed", "safetensors", "openai"]
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
