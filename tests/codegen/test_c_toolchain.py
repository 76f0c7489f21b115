"""Finding a C compiler, what it is asked, and what is said when it is missing or fails."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from able import can_run

import dojoir
from dojoir.backends.host import architecture, native
from dojoir.errors import ToolchainError
from dojoir.runtime.build import c_toolchain
from dojoir.runtime.build.c_toolchain import Toolchain, build_shared, find, probe
from dojoir.runtime.build.headers import read_ahead

SOURCE = "int answer(void) { return 42; }\n"

Fake = Callable[[str, str], Path]


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """Makes a compiler out of a shell script, in `$folder/bin`."""

    def make(name: str, script: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def real() -> Toolchain:
    try:
        return find()
    except ToolchainError as error:
        pytest.skip(error.diagnostic.message)


def search(monkeypatch: pytest.MonkeyPatch, path: str, chosen: str | None = None) -> None:
    monkeypatch.setenv("PATH", path)
    if chosen is None:
        monkeypatch.delenv("CC", raising=False)
    else:
        monkeypatch.setenv("CC", chosen)


# A compiler that leaves an empty file where one is asked for, and refuses what the word in its name says.
TAKES_ALL = 'while [ $# -gt 0 ]; do [ "$1" = -o ] && : > "$2"; shift; done; echo "fake 1.0"'


def refusing(*options: str) -> str:
    cases = "|".join(options)
    return f'for option; do case "$option" in {cases}) exit 1;; esac; done\n{TAKES_ALL}'


def test_no_compiler_is_an_error_with_a_cure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    search(monkeypatch, str(tmp_path))
    with pytest.raises(ToolchainError) as caught:
        find()
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "no-compiler"
    assert "apt install gcc" in diagnostic.message and "target llvm needs none" in diagnostic.message
    notes = [note.message for note in diagnostic.notes]
    assert notes == [f"{name} is not on the path" for name in ("cc", "gcc", "clang")]


def test_what_cc_names_is_taken_and_nothing_else(monkeypatch: pytest.MonkeyPatch, fake: Fake) -> None:
    folder = fake("cc", TAKES_ALL).parent
    fake("mine", TAKES_ALL)
    search(monkeypatch, str(folder), "mine -m64")
    assert find().command == (str(folder / "mine"), "-m64")
    search(monkeypatch, str(folder), "missing")
    with pytest.raises(ToolchainError, match="the compiler that CC names, 'missing', does not work"):
        find()


def test_the_first_that_works_is_taken(monkeypatch: pytest.MonkeyPatch, fake: Fake) -> None:
    fake("cc", "echo broken >&2; exit 1")
    folder = fake("gcc", TAKES_ALL).parent
    fake("clang", TAKES_ALL)
    search(monkeypatch, str(folder))
    assert find().command == (str(folder / "gcc"),)


def test_options_that_a_compiler_does_not_take_are_left_out(fake: Fake) -> None:
    everything = probe((str(fake("a", TAKES_ALL)),))
    assert {f"-march={native()}", "-fno-math-errno", "-fno-trapping-math", "-fopenmp"} <= set(everything.options)
    assert everything.openmp and everything.version == "fake 1.0"
    some = probe((str(fake("b", refusing(f"-march={native()}", "-fopenmp"))),))
    assert f"-march={native()}" not in some.options
    assert "-fopenmp-simd" in some.options and not some.openmp
    none = probe((str(fake("c", refusing("-march=*", "-f*s*", "-fopenmp*"))),))
    assert not none.openmp and not any(option.startswith("-fopenmp") for option in none.options)
    for toolchain in (everything, some, none):
        assert {"-std=c11", "-O3", "-ffp-contract=off"} <= set(toolchain.options)
        assert not any(option in toolchain.options for option in ("-ffast-math", "-Ofast"))


def test_the_identity_tells_toolchains_apart() -> None:
    base = Toolchain(("cc",), "cc 1", ("-O3",), "x")
    others = [
        Toolchain(("gcc",), "cc 1", ("-O3",), "x"),
        Toolchain(("cc",), "cc 2", ("-O3",), "x"),
        Toolchain(("cc",), "cc 1", ("-O3", "-fopenmp"), "x"),
        Toolchain(("cc",), "cc 1", ("-O3",), "y"),
    ]
    assert len({toolchain.identity for toolchain in (base, *others)}) == 5
    assert base.identity == Toolchain(("cc",), "cc 1", ("-O3",), "x").identity


def test_a_library_is_built_and_replaces_the_old_one(real: Toolchain, tmp_path: Path) -> None:
    out = tmp_path / "a library.so"
    out.write_bytes(b"old")
    build_shared(SOURCE, out, toolchain=real)
    assert ctypes.CDLL(str(out)).answer() == 42
    assert os.listdir(tmp_path) == ["a library.so"]


def test_a_source_that_does_not_compile(real: Toolchain, tmp_path: Path) -> None:
    out = tmp_path / "x.so"
    out.write_bytes(b"old")
    with pytest.raises(ToolchainError) as caught:
        build_shared("int answer(void) { return missing; }", out, toolchain=real)
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "compiler-failed"
    assert "bug in dojoir, please send us" in diagnostic.message
    notes = [note.message for note in diagnostic.notes]
    assert notes[0].startswith(f"the command was: {real.command[0]}") and "-ffp-contract=off" in notes[0]
    assert any("missing" in note for note in notes[1:])
    assert len(notes) <= 10
    assert out.read_bytes() == b"old" and os.listdir(tmp_path) == ["x.so"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")
def test_a_compiler_that_hangs_is_killed_with_what_it_started(fake: Fake, tmp_path: Path) -> None:
    # A pipe has an end only when all that hold it open for writing are gone.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    command = (str(fake("cc", f"exec 3> '{pipe}'; echo started >&3; sleep 1000 & wait")),)
    with pytest.raises(ToolchainError, match=r"was stopped after 2 s") as caught:
        build_shared(SOURCE, tmp_path / "x.so", toolchain=Toolchain(command, "slow", (), ""), limit=2)
    assert caught.value.diagnostic.code == "compiler-timeout"
    assert os.read(reader, 100) == b"started\n"
    assert os.read(reader, 100) == b""
    os.close(reader)
    assert not (tmp_path / "x.so").exists()


def test_a_compiler_that_vanished(tmp_path: Path) -> None:
    gone = Toolchain((str(tmp_path / "gone"),), "", (), "")
    with pytest.raises(ToolchainError, match="failed"):
        build_shared(SOURCE, tmp_path / "x.so", toolchain=gone)


def test_a_compiler_is_asked_once_in_a_process(monkeypatch: pytest.MonkeyPatch, fake: Fake, tmp_path: Path) -> None:
    log = tmp_path / "log"
    folder = fake("cc", f"echo asked >> '{log}'\n{TAKES_ALL}").parent
    search(monkeypatch, str(folder))
    first = find()
    asked = log.read_text()
    assert find() is first
    assert log.read_text() == asked


@pytest.mark.skipif(sys.platform == "win32", reason="the path of the tests' own compiler is that of Unix")
def test_the_compiler_of_this_machine_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    known = [name for name in c_toolchain.NAMES if shutil.which(name)]
    if known:
        assert Path(find().command[0]).name == known[0]
    else:
        with pytest.raises(ToolchainError, match="no C compiler was found"):
            find()


ROWS = """kernel rows(K)
out s: i64[32]
out y: i64[16, 16]

24
| 32 : p
| | s[{1}] = 1
16 : p
| 16
| | y[{1}, -{0} + 15] = 1
| | if {1} + 1 < 16
| | | y[{1}, -{0} + 15] += K + {1}
"""


@pytest.mark.parametrize("target", ["c", "llvm"])
def test_no_thread_writes_back_what_another_one_wrote(target: str) -> None:
    """GCC 12 stored again, behind a loop, what it had read of the columns of the other thread before it."""
    if not can_run(target):
        pytest.skip(f"no {target} here")
    kernel = dojoir.parse(ROWS)
    want = dojoir.interpret(kernel, {}, K=17)["y"]
    s, y = np.empty(32, np.int64), np.empty((16, 16), np.int64)
    call = dojoir.compile(kernel, target, threads=2).bind(s, y, K=17)
    for _ in range(20_000):  # of which 70 were wrong
        y[:] = -7
        call()
        assert np.array_equal(y, want)


def test_a_header_that_is_asked_for_again_is_read_ahead(
    real: Toolchain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The code is the same; one that is damaged is read as it stands."""
    if "clang" in real.version or architecture() != "x86_64":
        pytest.skip("GCC reads the header of x86")
    monkeypatch.setenv("DOJOIR_CACHE", str(tmp_path / "kept"))
    source = "// a kernel\n\n#include <immintrin.h>\n__m128 f(__m128 x) { return _mm_add_ps(x, x); }\n"
    found = []
    for _ in range(3):
        build_shared(source, tmp_path / "f.so", toolchain=real)
        found.append((tmp_path / "f.so").read_bytes())
    (header,) = (tmp_path / "kept" / "headers").rglob("*.gch")
    header.write_bytes(header.read_bytes()[:5000])
    build_shared(source, tmp_path / "f.so", toolchain=real)
    assert {(tmp_path / "f.so").read_bytes(), *found} == {found[0]}


def test_a_cache_of_another_user_fails_no_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setenv("DOJOIR_CACHE", str(tmp_path))
    monkeypatch.setattr(Path, "exists", refused)
    for _ in range(3):
        assert read_ahead("#include <immintrin.h>\n", "one", False, lambda header, made: True) == []
