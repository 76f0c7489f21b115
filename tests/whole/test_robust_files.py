"""What attackers and newcomers tripped on with files: one writer for all of them."""

from __future__ import annotations

import ast
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from folders import ROOT
from hostile_values import PAIR
from robust import shell

import dojoir
from dojoir.support.files import UNFINISHED, write_file

# -- 2: one writer for all files -----------------------------------------------------------------------------
WRITERS: dict[str, Callable[[str], object]] = {
    "write_file": lambda path: write_file(path, "text\n"),
    "Trace.save": lambda path: dojoir.Trace(dojoir.parse(PAIR)).save(path),
    "-o": lambda path: in_process("library:relu", "-o", path),
    "--run -o": lambda path: in_process("library:relu", "--run", "-s", "N=2", "-o", path),
    "--save-trace": lambda path: in_process("library:relu", "--save-trace", path, "--cost"),
}


def in_process(*arguments: str) -> None:
    from dojoir.cli import main

    if main(arguments):
        raise dojoir.ArgumentError("failed", "failed")


@pytest.mark.parametrize("name", WRITERS)
def test_2_links_are_followed_and_stay(tmp_path: Path, name: str) -> None:
    (tmp_path / "far").mkdir()
    real, link, chain = tmp_path / "far" / "real", tmp_path / "link", tmp_path / "chain"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to("far/real")
    chain.symlink_to(link)
    WRITERS[name](str(chain))
    assert link.is_symlink() and chain.is_symlink() and real.read_bytes() not in (b"old", b"")
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    dangling = tmp_path / "dangling"
    dangling.symlink_to("far/new")
    WRITERS[name](str(dangling))
    assert dangling.is_symlink() and (tmp_path / "far" / "new").is_file()
    assert {path.name for path in (tmp_path / "far").iterdir()} == {"real", "new"}


@pytest.mark.parametrize("name", WRITERS)
def test_2_devices_and_pipes_are_written_through(tmp_path: Path, name: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    WRITERS[name](str(pipe))
    reader.join()
    assert read[0] and stat.S_ISFIFO(pipe.stat().st_mode)
    before = os.stat("/dev/full")
    with pytest.raises(dojoir.ArgumentError):
        WRITERS[name]("/dev/full")
    assert os.stat("/dev/full").st_rdev == before.st_rdev and stat.S_ISCHR(os.stat("/dev/full").st_mode)
    WRITERS[name]("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("name", WRITERS)
def test_2_what_cannot_be_written_is_told_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    file = tmp_path / "file"
    file.write_text("old")
    before = sorted(tmp_path.iterdir())
    for path in (str(tmp_path), f"{file}/below", f"{tmp_path}/none/below", str(loop), "a\0b", "", "x" * 300):
        with pytest.raises(dojoir.ArgumentError):
            WRITERS[name](path)
    assert sorted(tmp_path.iterdir()) == before and file.read_text() == "old"
    longest = tmp_path / ("x" * 255)
    WRITERS[name](str(longest))
    assert longest.stat().st_size


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs permissions")
def test_2_permissions_are_those_that_the_process_grants(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        dojoir.Trace(dojoir.parse(PAIR)).save(tmp_path / "t.json")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "t.json").stat().st_mode) == 0o640


def test_2_stdout_by_name_reaches_who_reads_it(tmp_path: Path) -> None:
    for path in ("/dev/stdout", "/proc/self/fd/1"):
        piped = shell("library:relu", "--canonical", "-o", path)
        assert piped.returncode == 0 and piped.stdout.startswith("kernel relu")
        with open(tmp_path / "out", "w") as file:
            command = [sys.executable, "-m", "dojoir.cli", "library:relu", "--canonical", "-o", path]
            assert subprocess.run(command, stdout=file).returncode == 0
        assert (tmp_path / "out").read_text().startswith("kernel relu")


def test_2_a_library_follows_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    trace = dojoir.Trace(dojoir.kernels.load("relu"))
    written = dojoir.write_library([trace], tmp_path / "link", check=False)
    again = dojoir.write_library([trace], tmp_path / "link", check=False)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real" / "kernels.h").is_file()
    assert written.files == again.files and {p.name for p in tmp_path.iterdir()} == {"real", "link"}


TEMPORARY = {
    "runtime/build/headers.py": "what a compiler makes of a header, in a temporary folder",
    "runtime/build/c_toolchain.py": "sources and results of a compiler, in a temporary folder",
    "runtime/build/emulation.py": "what a program under an emulator reads, in a temporary folder",
    "runtime/evaluation/pool.py": "what workers compare with, in a temporary folder",
    "dojoir/llm/models/chat.py": "a chat grows by a line an exchange, so that a run that is killed loses none",
    "runtime/build/native.py": "a shared library while it is loaded",
    "runtime/library/library.py": "a whole folder is renamed",
    "runtime/verification/trial.py": "arrays between processes, in a temporary folder",
    "dojoir/cli/error_report.py": "the details of a bug, in the folder for temporary files",
    "runtime/build/llvm_passes.py": "the pipe that the parent process reads",
    "runtime/simt/toolchain.py": "sources and results of a compiler, in a temporary folder",
    "runtime/simt/harness.py": "a program while it runs, in a temporary folder",
    "dojoir/evidence/writing.py": "lines at the end of a record, as they happen: a killed run leaves them",
    "dojoir/support/files.py": "the writer itself",
}
"""Files of the package that write by other means than `write_file`, and why they may."""


def writes(path: Path) -> list[int]:
    """The lines on which a module writes a file, or gives one another name."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(ast.Attribute(_, "write_text" | "write_bytes" | "mkstemp" | "NamedTemporaryFile")):
                if not any(isinstance(k, ast.keyword) and k.arg in {"storage", "name"} for k in node.keywords):
                    found.append(node.lineno)
            case ast.Call(ast.Attribute(ast.Name("os" | "shutil"), "replace" | "rename" | "move" | "copyfile")):
                found.append(node.lineno)
            case ast.Call(ast.Name("open"), [_, ast.Constant(str(mode)), *_]) if set(mode) & set("wax+"):
                found.append(node.lineno)
    return found


def test_2_all_files_are_written_by_the_one_writer() -> None:
    for folder in ("dojoir", "grammar", "passes", "codegen", "runtime"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if name.startswith("dojoir/sets/") or "sets.write_text" in path.read_text(encoding="utf-8"):
                continue  # sets written as text for isl
            assert name in TEMPORARY or not writes(path), f"{name}:{writes(path)}: write files by write_file"


def test_2_a_writer_that_was_killed_leaves_the_old_file(tmp_path: Path) -> None:
    code = (
        "import os, dojoir.support.files as files\n"
        "files.os.replace = lambda *names: os._exit(9)\n"
        f"files.write_file({str(tmp_path / 'file')!r}, 'new')"
    )
    (tmp_path / "file").write_text("old")
    assert subprocess.run([sys.executable, "-c", code]).returncode == 9
    assert (tmp_path / "file").read_text() == "old"
    left = [path.name for path in tmp_path.iterdir() if path.name != "file"]
    assert len(left) == 1 and left[0].startswith(UNFINISHED)
