"""What later processes find: never for another question, and never a damaged or foreign entry."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dojoir
from dojoir import ParseError
from dojoir.grammar import problems
from dojoir.grammar.instructions import VARIABLE, read_instruction
from dojoir.ir.instruction import Use
from dojoir.ir.stored import from_bytes, to_bytes, whole_text
from dojoir.proof.checker_mode import check_with
from dojoir.support import identity as identity_module
from dojoir.support import shelf
from dojoir.support.identity import identity, is_unchanged

FIRST = """
import sys
import numpy, dojoir
x = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
kernel = dojoir.kernels.load("softmax")
trace = dojoir.optimize(kernel, sizes={"N": 3, "M": 4})
y = dojoir.compile(trace.kernel).run({"x": x})["y"]
assert numpy.allclose(y.sum(1), 1)
heavy = ("lark", "islpy", "sympy", "dojoir.proof.check", "dojoir.codegen.lower.pipeline", "dojoir.passes.base.move")
print([name for name in heavy if name in sys.modules], trace.kernel.hash, [str(move) for move in trace.moves])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("DOJOIR_CACHE", str(tmp_path))
    return tmp_path


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "build").rglob("*") if path.is_file())


def ran(code: str) -> str:
    """What a new process prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_a_second_process_needs_no_parser_checker_or_lowering(folder: Path) -> None:
    made, found = ran(FIRST), ran(FIRST)
    assert found.startswith("[] ")
    assert made.partition("] ")[2] == found.partition("] ")[2]


def test_a_certificate_finds_nothing_in_the_cache(folder: Path) -> None:
    # A text that no other test has: this process keeps what was parsed here.
    own = dojoir.to_text(dojoir.kernels.load("relu")).replace("kernel relu", "kernel found_elsewhere")
    trace = dojoir.Trace(dojoir.parse(own, "its start"))
    trace.apply("split(0, 8)")
    other = to_bytes(dojoir.kernels.load("softmax"))
    for kernel in (trace.start, trace.kernel):
        text = dojoir.to_text(kernel)
        for name in ("<string>", "<certified>"):
            shelf.keep(shelf.shelf_key("kernel", name, text), other)
            assert dojoir.parse(text, name).name == "softmax"  # what is kept is believed, but not by `certify`
    assert dojoir.certify(trace)


def test_what_is_damaged_is_made_again(folder: Path) -> None:
    made = ran(FIRST)
    before = {path: path.read_bytes() for path in entries(folder)}
    assert len(before) >= 5  # the text, the trace, that its kernel is well-formed, its source, its code
    for number, (path, data) in enumerate(before.items()):
        bad = bytearray(data)
        bad[(7919 * (number + 1)) % len(data)] ^= 1 << number % 8
        path.write_bytes(bad if number % 2 else data[: len(data) // 2])
    assert ran(FIRST).partition("] ")[2] == made.partition("] ")[2]
    assert {path: path.read_bytes() for path in entries(folder)}.keys() == before.keys()
    assert ran(FIRST).startswith("[] ")


def test_entries_under_wrong_keys_are_not_taken(folder: Path) -> None:
    made = ran(FIRST)
    paths = entries(folder)
    data = [path.read_bytes() for path in paths]
    for path, other in zip(paths, [*data[1:], data[0]], strict=True):
        path.write_bytes(other)
    assert ran(FIRST).partition("] ")[2] == made.partition("] ")[2]


@pytest.mark.parametrize("name", ["softmax", "conv2d", "attention", "jacobi2d"])
def test_a_kernel_as_bytes(name: str) -> None:
    kernel = dojoir.kernels.load(name)
    found = from_bytes(to_bytes(kernel))
    assert found == kernel and found.source == kernel.source
    assert dojoir.to_text(found) == dojoir.to_text(kernel)
    assert [site.statement.loc for site in found.sites] == [site.statement.loc for site in kernel.sites]


class Bad:
    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return os.system, ("exit 1",)


@pytest.mark.parametrize("data", [b"", b"\x80\x05.", pickle.dumps(Bad()), pickle.dumps(7), pickle.dumps(os.system)])
def test_bytes_of_anything_else_are_no_kernel(data: bytes) -> None:
    assert from_bytes(data) is None


def kept(kernel: dojoir.Kernel, made_for: str, move: str, calls: list[str]) -> dojoir.Trace:
    def make() -> dojoir.Trace:
        calls.append(move)
        return dojoir.Trace(kernel).then(move)

    return dojoir.Trace.kept(kernel, made_for, make)


def test_a_trace_is_found_for_the_same_question_alone(folder: Path) -> None:
    kernel, calls = dojoir.kernels.load("relu"), list[str]()
    made = kept(kernel, "a", "split(0, 8)", calls)
    found = kept(kernel, "a", "split(0, 16)", calls)
    assert calls == ["split(0, 8)"]
    assert found.kernel == made.kernel and found.moves == made.moves and repr(found) == repr(made)
    kept(kernel, "b", "split(0, 16)", calls)
    labelled = dojoir.parse(dojoir.to_text(kernel).replace("@i", "@rows"))
    assert labelled == kernel
    kept(labelled, "a", "split(@rows, 4)", calls)
    elsewhere = dojoir.parse(dojoir.to_text(kernel), "elsewhere.dojo")
    kept(elsewhere, "a", "split(0, 2)", calls)
    assert calls == ["split(0, 8)", "split(0, 16)", "split(@rows, 4)", "split(0, 2)"]


def test_a_trace_that_was_found_is_like_any_other(folder: Path) -> None:
    kernel, calls = dojoir.kernels.load("softmax"), list[str]()
    made = kept(kernel, "", "join_scopes(0, 1)", calls)
    found = kept(kernel, "", "join_scopes(0, 1)", calls)
    assert len(calls) == 1 and found.is_safe and found.to_json() == made.to_json()
    copy = found.copy()
    assert found.then("swap_siblings(0.1)").moves[0] == made.moves[0]
    assert found.follow("1.0") == made.follow("1.0") and found.steps == made.steps
    assert copy.undo() == kernel and copy.moves == () and len(found.moves) == 1
    assert dojoir.certify(kept(kernel, "", "nothing(0)", calls))


def test_a_proof_by_the_core_is_made_anew(folder: Path) -> None:
    kernel, calls = dojoir.kernels.load("relu"), list[str]()
    with check_with("core"):
        for _ in range(2):
            kept(kernel, "", "split(0, 8)", calls)
    assert len(calls) == 2


def test_an_unsafe_trace_is_not_kept(folder: Path) -> None:
    kernel = dojoir.kernels.load("softmax")
    for _ in range(2):
        trace = dojoir.Trace.kept(kernel, "", lambda: dojoir.Trace(kernel).then("swap_siblings(0)", unsafe=True))
        assert not trace.is_safe


def test_optimize_by_sizes_threads_and_processor(folder: Path) -> None:
    kernel = dojoir.kernels.load("softmax")

    def texts() -> list[str]:
        small = dojoir.optimize(kernel, sizes={"N": 64, "M": 64})
        large = dojoir.optimize(kernel, sizes={"N": 4096, "M": 4096})
        one = dojoir.optimize(kernel, sizes={"N": 4096, "M": 4096}, threads=1)
        wide = dojoir.optimize(kernel, cpu="znver4")
        return [dojoir.to_text(trace.kernel) for trace in (small, large, one, wide)]

    first = texts()
    assert texts() == first and len(set(first)) >= 3


def test_instructions_of_ones_own_are_read_each_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOJOIR_INSTRUCTIONS", str(folder))
    dojoir.parse("kernel here()\nout y: f32[1]\n1\n| y[{0}] = 0\n")
    assert entries(folder) == []
    assert VARIABLE in shelf.OWN_FILES


def test_an_instruction_is_part_of_its_kernel() -> None:
    text = (Path(dojoir.__file__).parent / "instructions" / "avx512_fmadd_ps.dojo").read_text()
    one, other = read_instruction(text), read_instruction(text.replace("_mm512_fmadd_ps", "_mm512_fnmadd_ps"))
    kernels = [dojoir.parse("kernel k()\nout y: f32[1]\n1\n| y[{0}] = 0\n") for _ in range(2)]
    one_by_one = [
        replace(kernel, body=tuple(replace(node, hints=(Use(instruction),)) for node in kernel.body))
        for kernel, instruction in zip(kernels, (one, other), strict=True)
    ]
    assert dojoir.to_text(one_by_one[0]) == dojoir.to_text(one_by_one[1])
    assert whole_text(one_by_one[0]) != whole_text(one_by_one[1])
    assert from_bytes(to_bytes(one_by_one[1])) == one_by_one[1]


@pytest.mark.parametrize("half", ["\ud800", "\udcff"])
def test_half_of_a_character_has_a_key_too(folder: Path, half: str) -> None:
    """What Python reads from a file in another encoding, or from a name of one: a text that UTF-8 cannot hold."""
    text = f"kernel a(N) # {half}\nout y: f32[N]\n\nN\n| y[{{0}}] = 0\n"
    first, again = dojoir.parse(text, half), dojoir.parse(text, half)
    assert first == again == dojoir.parse(text.replace(half, ""))
    assert dojoir.compile(dojoir.optimize(again).kernel).run({}, N=2)["y"].tolist() == [0, 0]
    with pytest.raises(ParseError, match="unexpected-character"):
        dojoir.parse(half, half)
    assert problems(half)[0].code == "unexpected-character"


def test_no_cache_no_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOJOIR_CACHE", "")
    assert shelf.shelf_key("kernel", "text") is None
    kernel, calls = dojoir.kernels.load("relu"), list[str]()
    for _ in range(2):
        kept(kernel, "", "split(0, 8)", calls)
    assert len(calls) == 2


def test_a_wrong_index_is_told_from_what_was_kept(folder: Path) -> None:
    text = "kernel pick(N, M)\nin i: i32[N]\nin x: f32[M]\nout y: f32[N]\nN\n| y[{0}] = x[i[{0}]]\n"
    for _ in range(2):
        compiled = dojoir.compile(dojoir.parse(text))
        with pytest.raises(dojoir.RunError, match=r"an index read from data is out of range: x\[i\[\{0\}\]\]"):
            compiled.run({"i": np.array([5], np.int32), "x": np.zeros(2, np.float32)})


# -- which dojoir it is --------------------------------------------------------------------------------------
@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dojoir of one file, older than this process."""
    home = tmp_path / "package"
    home.mkdir()
    (home / "a.py").write_text("one")
    os.utime(home / "a.py", (1, 1))
    monkeypatch.setattr(identity_module, "_folders", lambda: [str(home)])
    identity.cache_clear()
    monkeypatch.setenv("DOJOIR_CACHE", str(tmp_path / "cache"))
    return home


@pytest.fixture(autouse=True)
def forgotten() -> object:
    yield
    identity.cache_clear()


def test_another_file_is_another_dojoir(parts: Path) -> None:
    first = identity()
    assert first is not None and is_unchanged()
    (parts / "b.moves").write_text("more")
    os.utime(parts / "b.moves", (1, 1))
    assert not is_unchanged() and identity() == first  # what this process is stays what it was
    identity.cache_clear()
    assert identity() not in (None, first)


@pytest.mark.parametrize("change", [("two", 2), ("more", 1)])
def test_a_changed_file_is_another_dojoir(parts: Path, change: tuple[str, int]) -> None:
    first = identity()
    (parts / "a.py").write_text(change[0])
    os.utime(parts / "a.py", (change[1], change[1]))
    identity.cache_clear()
    assert identity() not in (None, first)


def test_compiled_python_does_not_count(parts: Path) -> None:
    first = identity()
    (parts / "__pycache__").mkdir()
    (parts / "__pycache__" / "a.pyc").write_text("x")
    assert is_unchanged() and identity() == first


def test_nothing_is_kept_while_files_change(parts: Path) -> None:
    key = shelf.shelf_key("kind", "question")
    (parts / "a.py").write_text("edited while the process runs")
    shelf.keep(key, b"answer")
    assert key is not None and shelf.taken(key) is None
    identity.cache_clear()
    assert identity() is None and shelf.shelf_key("kind", "question") is None


WORKERS = """
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from dojoir.support.shelf import keep, shelf_key, taken

def kept(n):
    keep(shelf_key("test", str(n)), b"an answer")

if __name__ == "__main__":
    with ProcessPoolExecutor(2, get_context(sys.argv[1])) as pool:
        list(pool.map(kept, range(10)))
    print([taken(shelf_key("test", str(n))) for n in range(10)].count(None))
"""


@pytest.mark.parametrize("kind", ["fork", "spawn", "forkserver"])
def test_workers_leave_all_their_answers(kind: str, tmp_path: Path) -> None:
    script = tmp_path / "workers.py"
    script.write_text(WORKERS, encoding="utf-8")
    env = {**os.environ, "DOJOIR_CACHE": str(tmp_path / "kept")}
    done = subprocess.run([sys.executable, str(script), kind], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
