"""The pages of docs/ tell the truth: their examples run, the names and files that they mention are there, and no
link leads nowhere. `test_docs.py` does the same for the README and the docstrings.

`dojo` blocks are whole kernels, parsed and proved. `python` blocks run, those of a page one after another in one
namespace: as a doctest where they have prompts, else as a program, and a `text` block right after is what it
prints.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import io
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from folders import ROOT

import dojoir

DOCS = ROOT / "docs"
MADE = {"moves.md", "api.md", "errors.md"}
"""Pages that are made from the code."""

PAGES = sorted(path.name for path in DOCS.glob("*.md") if path.name not in MADE)
FENCE = re.compile(r"^([ \t]*)```(\w+)\n(.*?)^\1```\n(?:\s*^```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> Iterator[tuple[int, str, str | None]]:
    """The fenced blocks of a language on a page: the line each starts on, its text, and what it prints."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        if match[2] == language:
            inside = "".join(line.removeprefix(match[1]) for line in match[3].splitlines(keepends=True))
            yield text.count("\n", 0, match.start()) + 2, inside, match[4]


def agree(got: str, want: str) -> bool:
    return doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


@pytest.mark.parametrize("page", [page for page in PAGES if list(blocks(page, "dojo"))])
def test_a_kernel_on_a_page_is_well_formed(page: str) -> None:
    for line, text, _ in blocks(page, "dojo"):
        dojoir.prove(dojoir.parse(text, f"{page}, line {line}"))


@pytest.mark.parametrize("page", [page for page in PAGES if list(blocks(page, "python"))])
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for line, text, prints in blocks(page, "python"):
        if re.search(r"^(?:>>> )?(?:import|from) torch", text, re.MULTILINE):
            pytest.importorskip("torch", reason="needs the extra torch")
        if re.search(r"^import gymnasium", text, re.MULTILINE):
            pytest.importorskip("gymnasium", reason="needs the extra agents")
        if ">>>" in text:
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            found = doctest.DocTestParser().get_doctest(text, names, f"{page}:{line}", page, line)
            runner = doctest.DocTestRunner(optionflags=flags)
            said = io.StringIO()
            runner.run(found, out=said.write, clear_globs=False)
            assert runner.failures == 0, said.getvalue()
            names = found.globs
        else:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * (line - 1) + text, str(DOCS / page), "exec", dont_inherit=True), names)
            assert prints is None or agree(printed.getvalue(), prints), f"line {line} prints\n{printed.getvalue()}"


def test_the_page_on_installing_lists_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    text = (DOCS / "install.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE) == list(extras)


def test_the_light_extra_brings_no_pytorch() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert not [need for need in extras["test"] if re.match(r"torch|cuda|nvidia|triton|transformers", need)]
    assert [need for need in extras["torch"] if need.startswith("torch")]


# -- names and files -----------------------------------------------------------------------------------------
NAME = re.compile(r"`(dojoir(?:\.\w+)+)(?:\([^`]*\))?`")
FILE = re.compile(r"`((?:dojoir|grammar|passes|codegen|runtime|tests|benchmarks|examples|docs)/[a-z_0-9./-]+)`")


def texts() -> list[Path]:
    """Everything that mentions names: the pages, and the docstrings and comments of all sources."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(DOCS / page for page in PAGES)]
    for folder in ("dojoir", "grammar", "passes", "codegen", "runtime", "tests", "benchmarks", "examples"):
        found += sorted((ROOT / folder).rglob("*.py"))
    return found


def is_there(dotted: str) -> bool:
    """Whether a dotted name is a module, or something in one. So is one behind an extra that is not installed, of
    which only the module can be seen."""
    words = dotted.split(".")
    for n in range(len(words), 0, -1):
        with contextlib.suppress(ImportError):
            try:
                value: Any = importlib.import_module(".".join(words[:n]))
                for word in words[n:]:
                    if not hasattr(value, word):
                        return False
                    value = getattr(value, word)
            except dojoir.ToolchainError as error:
                assert error.diagnostic.code == "missing-package", dotted
            return True
    return False


def test_every_name_that_a_text_mentions_is_there() -> None:
    mentioned = {(match[1], path) for path in texts() for match in NAME.finditer(path.read_text(encoding="utf-8"))}
    assert len(mentioned) > 60
    names = {name for name, _ in mentioned}
    gone = {name for name in names if not is_there(name)}
    assert not gone, [f"{path.relative_to(ROOT)}: {name}" for name, path in sorted(mentioned) if name in gone]


def test_every_file_that_a_text_mentions_is_there() -> None:
    for path in texts():
        for match in FILE.finditer(path.read_text(encoding="utf-8")):
            below = [folder / match[1] for folder in (ROOT, ROOT / "dojoir")]
            assert any(file.exists() for file in below), f"{path.relative_to(ROOT)} mentions {match[1]}"


# -- the site ------------------------------------------------------------------------------------------------
def test_no_link_of_the_site_leads_nowhere(tmp_path: Path) -> None:
    """Also that the pages made from the code are made: moves, errors and the reference of the names."""
    if any(importlib.util.find_spec(name) is None for name in ("sphinx", "myst_parser", "furo")):
        pytest.skip("the site is built with what `pip install '.[docs]'` brings")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "dummy"]
    command += ["-d", str(tmp_path / "trees"), str(DOCS), str(tmp_path / "site")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def module_of_docs(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_stands_in_one_group_with_an_example() -> None:
    pages = module_of_docs("dojoir_pages")
    names = [name for _, _, entries in pages.api_groups() for names, _ in entries for name in names]
    moved = [f"{module}.{name}" for module, names in dojoir.MOVED.items() for name in names.split()]
    assert sorted(names) == sorted([*dojoir.__all__, *moved, "highlight"])
    for _, _, entries in pages.api_groups():
        for named, example in entries:
            assert example.startswith(">>> ") or re.search(r"\]\(\w+\.md\)", example), named


def test_the_examples_of_the_public_names_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "api_examples.txt").read_text(encoding="utf-8")
    found = doctest.DocTestParser().get_doctest(text, {}, "api_examples.txt", None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    said = io.StringIO()
    runner.run(found, out=said.write)
    assert runner.failures == 0, said.getvalue()
    assert runner.tries > 40


def test_kernels_in_strings_have_the_colours_of_kernels() -> None:
    from pygments.token import Name, String

    lexer = module_of_docs("kernel_colours").PythonWithKernels()
    for page in PAGES:
        for _, text, _ in blocks(page, "python"):
            assert "".join(value for _, _, value in lexer.get_tokens_unprocessed(text)) == text
    code = 'k = parse("""\nkernel f(N)\nout y: f32[N]\n""")\nz = "kernel"\n'
    kinds = {value: kind for _, kind, value in lexer.get_tokens_unprocessed(code)}
    assert kinds["f"] in Name and kinds["kernel"] not in Name and any(kind in String for kind in kinds.values())


def test_no_page_is_hidden_by_one_of_the_generator() -> None:
    """`search.md` was: the site had the generator's own page of that name in its place."""
    assert not {path.stem for path in DOCS.glob("*.md")} & {"search", "genindex", "py-modindex", "modindex"}


def test_the_first_page_names_every_other_twice() -> None:
    """In the list that is read, and in that of the side bar."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    for page in sorted({path.stem for path in DOCS.glob("*.md")} - {"index"}):
        assert f"({page}.md)" in text and f"\n{page}\n" in text, page
