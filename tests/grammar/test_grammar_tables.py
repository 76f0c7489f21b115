"""The tables of the grammars are kept between processes; what is wrong with the files of them changes nothing."""

from __future__ import annotations

import runpy
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from lark import Lark, Token, Transformer

from dojoir.grammar import tables
from dojoir.grammar.tables import parser

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOJOIR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "grammar"


def parses(lark: Lark) -> bool:
    return [str(child.children[0]) for child in lark.parse("split(@j, 16)").children] == ["split"]


def test_tables_are_kept_and_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parses(parser("pipeline", start="pipeline"))
    assert [path.name for path in folder.iterdir()] == ["pipeline.tables"]
    assert not stat.S_IMODE(folder.stat().st_mode) & 0o077

    def computed(*_: object) -> None:
        raise AssertionError("the tables were computed again")

    monkeypatch.setattr("lark.lark.load_grammar", computed)
    assert parses(parser("pipeline", start="pipeline"))
    with pytest.raises(AssertionError):
        parser("pipeline", start="pipeline", maybe_placeholders=False)


@pytest.mark.parametrize("content", [b"", b"nothing", b"half"])
def test_a_broken_file_is_made_anew(
    folder: Path, content: bytes, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parser("pipeline", start="pipeline")
    path = folder / "pipeline.tables"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content == b"half" else content)
    assert parses(parser("pipeline", start="pipeline"))
    assert path.read_bytes()[:64] == whole[:64]
    monkeypatch.setattr("lark.lark.load_grammar", None)
    assert parses(parser("pipeline", start="pipeline"))
    assert capfd.readouterr() == ("", "")


def test_no_folder_is_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOJOIR_CACHE", "")
    assert parses(parser("pipeline", start="pipeline"))
    file = tmp_path / "file"
    file.write_text("in the way")
    monkeypatch.setenv("DOJOIR_CACHE", str(file))
    assert parses(parser("pipeline", start="pipeline"))
    assert file.read_text() == "in the way"
    assert capfd.readouterr() == ("", "")


def test_tables_that_come_with_the_package_are_read(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As setup.py makes them, of a package as it is installed; with no cache they are all that is asked."""
    built = tmp_path / "built"
    (built / "dojoir").mkdir(parents=True)
    for part in (ROOT / "dojoir").iterdir():
        (built / "dojoir" / part.name).symlink_to(part)
    for part in ("passes", "codegen", "runtime"):
        (built / "dojoir" / part).symlink_to(ROOT / part)
    shutil.copytree(ROOT / "grammar", built / "dojoir" / "grammar")
    runpy.run_path(str(ROOT / "setup.py"), run_name="setup")["tables"](built)
    made = {path.stem for path in (built / "dojoir" / "grammar").glob("*.tables")}
    assert made == {"dojo", "pipeline", "query"}
    monkeypatch.setenv("DOJOIR_CACHE", "")
    monkeypatch.setattr(tables, "files", lambda _: built / "dojoir" / "grammar")
    monkeypatch.setattr("lark.lark.load_grammar", None)
    assert parses(parser("pipeline", start="pipeline", propagate_positions=True))
    with pytest.raises(TypeError):  # tables of other options
        parser("pipeline", start="pipeline")


def test_tables_hold_no_object_of_the_process(folder: Path) -> None:
    """What reads a tree, and what reads its lines, is the reader's own, not a copy out of the file."""

    class Upper(Transformer[Token, Any]):
        def pipeline(self, children: list[Any]) -> str:
            return word

    for word in ("first", "second"):
        read: Any = parser("pipeline", start="pipeline", transformer=Upper())
        assert read.parse("split(0, 2)") == word
