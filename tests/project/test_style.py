"""Lint, format and types of the whole tree, as CI holds them."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from asked import PRODUCT
from folders import ROOT
from habits import habits, targets_not_asked_for, times_asserted
from raised import words
from rooms import ROOMS
from styled import functions, takes_dataclass, temporary_files, values_in_errors

from dojoir.codes import CODES

ON_TOP = tuple(
    f"dojoir/{room}/"
    for room in (
        "cli",
        "torch",
        "schedules",
        "records",
        "search",
        "game",
        "evidence",
        "tasks",
        "data",
        "know",
        "llm",
        "editor",
        "verbs",
    )
)
"""What knows only the public names."""


def run(*command: str, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=cwd, env=os.environ | (env or {}), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_check() -> None:
    run("ruff", "check", ".")


def test_ruff_format() -> None:
    run("ruff", "format", "--check", ".")


@pytest.fixture
def one_package() -> Path:
    """A folder that holds `dojoir` laid out as it is installed, by links. It is the same for each run, as mypy
    keeps what it found under the paths of the files."""
    folder = ROOT / ".mypy_cache" / "installed"
    package = folder / "dojoir"
    package.mkdir(parents=True, exist_ok=True)
    links = {path.name: path for path in (ROOT / "dojoir").iterdir()}
    links |= {part: ROOT / part for part in ("grammar", "passes", "codegen", "runtime")}
    for entry in package.iterdir():
        if entry.name not in links:
            entry.unlink()
    for name, path in links.items():
        if not (package / name).is_symlink():
            (package / name).symlink_to(path)
    return folder


def test_mypy_strict(one_package: Path) -> None:
    pytest.importorskip("torch", reason="calls of PyTorch are checked against its types: needs the extra torch")
    config = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    run("mypy", *config, "-p", "dojoir", cwd=one_package, env={"MYPYPATH": str(one_package)})


def test_no_escape_from_the_types() -> None:
    for folder in ("dojoir", "grammar", "passes", "codegen", "runtime"):
        for path in (ROOT / folder).rglob("*.py"):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                assert "type: ignore" not in line, f"{path.relative_to(ROOT)}:{number}"


def test_every_code_that_is_raised_has_an_entry() -> None:
    """Here, where every change is held to it: the table is what users are told of an error."""
    missing = {word: where for word, where in words().items() if word not in CODES}
    assert not missing, "write an entry for each in dojoir/codes.toml"


def test_temporary_files_are_made_in_one_place() -> None:
    """Where it is told in plain words that they find no room."""
    for folder in ("codegen", "passes", "runtime", "dojoir/proof", "dojoir/search"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            lines = temporary_files(path) if path.name != "pool.py" else []
            assert not lines, f"{path.relative_to(ROOT)}:{lines[0]}: dojoir.support.temporary has it"


def in_tests(which: int) -> list[str]:
    """What is found in the files of tests and helpers, with their names."""
    files = sorted((ROOT / "tests").rglob("*.py"))
    return [f"{path.relative_to(ROOT)}:{one}" for path in files for one in habits(path)[which]]


def test_no_test_runs_a_target_that_it_has_not_asked_for() -> None:
    """The tests are to pass on a processor without AVX-512, and on one that is no x86."""
    assert in_tests(0) == [], "ask first: able.runs(target) skips, able.can_run(target) tells"


def test_no_test_asserts_a_time() -> None:
    """What takes a second here takes a minute on a busy machine: count steps or states, or give a clock."""
    assert in_tests(1) == []


HABITS = {
    "def test_x():\n    dojoir.compile(k, 'avx2')\n": ["2: avx2"],
    "T = ('llvm', 'neon@4')\ndef test_x():\n    for t in T:\n        dojoir.verify(k, target=t)\n": ["4: neon"],
    "@mark.parametrize(('a', 'b'), [(1, 'rvv')])\ndef test_x(a, b):\n    compile(k, b)\n": ["3: rvv"],
    "def test_x():\n    Walk(r, k, True, 0.3, ('llvm', 'avx512') if n else ())\n": ["2: avx512"],
    "def test_x():\n    runs('avx2')\n    compile(k, 'avx2')\n": [],
    "def test_x():\n    with pytest.raises(E):\n        compile(k, 'avx2')\n": [],
    "def test_x():\n    compile(rules.given('avx2').on(k), 'llvm')\n": [],
}
TIMES = {
    "assert tuned.spent['seconds'] < 2.0": True,
    "start = time.process_time()\n    assert time.process_time() - start < 20": True,
    "end = time.monotonic() + 3\n    assert go() and end > now()": True,
    "assert both.ratio.median > 1.2": True,
    "assert 0 < found.low <= found.seconds": False,
    "assert found.seconds == 1e-3": False,
    "assert count < 20": False,
}


def test_both_habits_are_seen() -> None:
    assert {text: targets_not_asked_for(ast.parse(text)) for text in HABITS} == HABITS
    seen = {text: bool(times_asserted(ast.parse(f"def test_x():\n    {text}\n"))) for text in TIMES}
    assert seen == TIMES


def test_a_number_of_isl_is_read_in_one_place() -> None:
    """islpy's own conversion is a TypeError where the steps of a question are spent."""
    files = [path for folder in ("dojoir", "passes", "codegen") for path in (ROOT / folder).rglob("*.py")]
    found = [str(path.relative_to(ROOT)) for path in files if ".to_python()" in path.read_text(encoding="utf-8")]
    assert found == [], "write: dojoir.sets.limits.integer(value)"


def below_the_top() -> list[Path]:
    """The sources of what does not know the public names alone."""
    files = sorted(path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py"))
    return [path for path in files if not str(path.relative_to(ROOT)).startswith(ON_TOP)]


def test_an_error_shows_a_value_that_may_be_anything_by_one_function() -> None:
    """A value of a caller may raise where it is to be shown, or be a megabyte long."""
    found = [f"{path.relative_to(ROOT)}:{line}" for path in below_the_top() for line in values_in_errors(path)]
    assert found == [], "write: {repr_of(value)}, of dojoir.errors"


def test_nothing_takes_the_dataclass_of_the_standard_library() -> None:
    """What everybody imports is not to compile methods; what knows only the public names has few classes."""
    found = [
        str(path.relative_to(ROOT))
        for path in below_the_top()
        if takes_dataclass(path) and path.name != "frozen.py"
    ]
    assert found == [], "write: from dojoir.support.frozen import dataclass"


def test_the_top_level_holds_what_it_should() -> None:
    """What a test or an attack wrote into its folder has been committed before."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    tracked = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    top = {name.split("/")[0] for name in tracked.split("\0") if name}
    files = {".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in"}
    files |= {"README.md", "pyproject.toml", "setup.py"}
    folders = {".ci", "benchmarks", "codegen", "docs", "dojoir", "editors", "examples", "grammar", "passes"}
    folders |= {"runtime", "tests"}
    assert top == files | folders


MOST_LINES = 500


def test_no_file_is_longer_than_one_reads_at_once() -> None:
    """One idea a file; there are no exceptions."""
    for folder in ("dojoir", "grammar", "passes", "codegen", "runtime", "tests", "examples", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            lines = len(path.read_text(encoding="utf-8").splitlines())
            assert lines <= MOST_LINES, f"{path.relative_to(ROOT)} has {lines} lines"


DATA = {
    "bundles": {".json", ".jsonl", ".dojo", ".ll", ".s"},
    "cheats": {".c", ".py"},
    "datasets": {".json", ".jsonl", ".dojo"},
    "goldens": {".c"},
    "kept": {".dojo", ".json", ".moves", ".txt"},
}
"""The folders of `tests` that hold what tests are compared with, and the endings of such files."""


def test_tests_stand_in_rooms() -> None:
    """Each file of `tests` is a test in a room, a helper, or data in a folder for it. The tests of a room of the
    product stand in the room of the same name (of `torch` in `pytorch`: a folder `torch` on the path would be taken
    for PyTorch where that is not installed), those of the repository itself in `project`, of the product as a
    whole in `whole`; what they use is in `helpers`, modules of PyTorch in
    `pytorch/modules`. Names of tests are unique, as pytest asks."""
    rooms = {room.partition(".")[0] for room in ROOMS} | {"codegen", "runtime", "project", "pytorch", "whole"}
    made = {"__pycache__", ".pytest_cache"}
    files = [path for path in (ROOT / "tests").rglob("*") if path.is_file() and made.isdisjoint(path.parts)]
    tests = []
    for path in sorted(files):
        top, *below = path.relative_to(ROOT / "tests").parts
        match top:
            case "conftest.py":
                fits = not below
            case "helpers":
                is_script = path.suffix == ".py" or path.name in {
                    "on_arm.sh",
                    "hip_words.h",
                    "PRECISION.md",
                    "GPU.md",
                    "MUTANTS.md",
                    "long.txt",
                }
                fits = (len(below) == 1 or below[0] == "drawing") and is_script and not path.match("test_*")
            case "bundles" | "cheats" | "datasets" | "goldens" | "kept":
                fits = path.suffix in DATA[top]
            case "pytorch" if below[0] in ("modules", "kernelbench"):
                fits = len(below) == 2 and path.suffix == ".py"
            case _:
                fits = top in rooms and len(below) == 1 and path.match("test_*.py")
                tests.append(path.name)
        assert fits, f"{path.relative_to(ROOT)} is no test in a room, no helper, and no data in a folder for it"
    assert len(set(tests)) == len(tests)


MOST_NAMESAKES = 8
"""How many private functions of the product may have one name."""

HOOKS = {"_further", "_repr_html_"}
"""Private names that a base class or notebooks give: they are the same everywhere by design."""


def test_private_functions_say_which() -> None:
    """`_read` in seventeen files says nothing where it stands in a traceback or a search."""
    found: Counter[str] = Counter()
    for folder in ("dojoir", "passes", "codegen", "runtime", "grammar"):
        for path in (ROOT / folder).rglob("*.py"):
            private = (name for name in functions(path) if name.startswith("_") and not name.startswith("__"))
            found.update(name for name in private if name not in HOOKS)
    often = {name: count for name, count in found.items() if count > MOST_NAMESAKES}
    assert not often, often
