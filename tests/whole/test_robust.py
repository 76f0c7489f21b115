"""What attackers and newcomers tripped on (issue 18, points 1, 2, 3, 6 and 10): a section for each point."""

from __future__ import annotations

import ast
import copy
import json
import os
import pickle
import random
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from folders import ROOT

import dojoir
from dojoir.support.files import UNFINISHED

PAIR = """\
kernel pair(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N]

N @i
| t[{0}] = x[{0}] * 2
N @j
| y[{0}] = t[{0}] + 1
"""
ILLEGAL = "reuse_dims(t, 0)"


SKEWED = """\
kernel skewed(N, M)
inout a: f32[N, M]

N - 1
| M - 1
| | a[{0} + 1, {1}] = a[{0}, {1} + 1] + 1
"""


def unsafe_trace() -> dojoir.Trace:
    """A trace whose second move is illegal, and whose last kernel is well-formed all the same."""
    trace = dojoir.Trace(dojoir.parse(SKEWED))
    trace.apply("label(0, i)")
    trace.apply("swap_scopes(@i)", unsafe=True)
    return trace


def shell(*arguments: str, stdin: str | None = "", **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs dojoir-opt as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "dojoir.cli", *arguments], input=stdin, capture_output=True, text=True, **options
    )


# -- 1: a trace cannot switch the checker off ----------------------------------------------------------------
def test_1_an_unsafe_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    unsafe_trace().save(path)
    with pytest.raises(dojoir.ArgumentError, match=r"without the checker \(move 2\).*unsafe=True") as error:
        dojoir.Trace.load(path)
    assert error.value.diagnostic.code == "unsafe-trace"
    again = dojoir.Trace.load(path, unsafe=True)
    assert not again.is_safe and again.steps[1].unsafe and "unsafe" in repr(again)
    assert again.unchecked is not None and "move 2" in again.unchecked
    assert dojoir.Trace(dojoir.parse(PAIR)).unchecked is None
    assert not dojoir.certify(again)


def test_1_a_forged_mark_does_not_let_an_illegal_move_in(tmp_path: Path) -> None:
    data = unsafe_trace().to_json()
    for forged in ([], [0], [True], [1.0], ["1"], [-1], [7], [[1]], None, {"1": 1}, [0, 0, 1]):
        with pytest.raises(dojoir.DojoError):
            dojoir.Trace.from_json({**data, "unsafe": forged})


@pytest.mark.parametrize("question", [("--emit", "c"), ("--run", "-s", "N=8", "-s", "M=8"), ("--cost",), ()])
def test_1_the_shell_refuses_it_and_says_so_wherever_it_is_used(tmp_path: Path, question: tuple[str, ...]) -> None:
    path = tmp_path / "t.json"
    unsafe_trace().save(path)
    refused = shell("--replay", str(path), *question)
    assert refused.returncode == 1 and "error[unsafe-trace]" in refused.stderr and not refused.stdout
    taken = shell("--replay", str(path), "--unsafe", *question)
    assert (
        taken.returncode == 0
        and "warning[unsafe-trace]: skewed was made without the checker by move 2" in taken.stderr
    )


def test_1_moves_made_unsafe_in_the_shell_are_told(tmp_path: Path) -> None:
    made = shell("-", "-p", ILLEGAL, "--unsafe", "--json", "--emit", "c", stdin=PAIR)
    assert made.returncode == 0 and json.loads(made.stderr)["warning"]["code"] == "unsafe-trace"


def test_1_the_start_is_compared() -> None:
    trace = dojoir.Trace(dojoir.parse(PAIR))
    data = trace.to_json()
    other = dojoir.parse(PAIR.replace("* 2", "* 3"))
    for key, value in (("start", other.hash), ("start", ""), ("kernel", dojoir.to_text(other).splitlines())):
        with pytest.raises(dojoir.ArgumentError) as error:
            dojoir.Trace.from_json({**data, key: value})
        assert error.value.diagnostic.code == "stale-trace"
    with pytest.raises(dojoir.ArgumentError, match="not a dojoir trace"):
        dojoir.Trace.from_json({key: value for key, value in data.items() if key != "start"})


def test_1_an_unsafe_trace_is_no_schedule(tmp_path: Path) -> None:
    with pytest.raises(dojoir.ArgumentError, match="made without the checker by move 2"):
        dojoir.schedules.store(unsafe_trace(), "c", tmp_path)
    assert not list(tmp_path.iterdir())


def hostile_json(data: Any, rng: random.Random) -> Any:
    """Plain data like a trace, one piece of it replaced by something else."""
    junk: Any = rng.choice(
        [
            None,
            True,
            -1,
            1 << 70,
            1e400,
            "",
            "\0",
            "x" * 999,
            [],
            [[]],
            {},
            {"unsafe": [0]},
            "split(0, 4)",
            "reuse_dims(t, 0)",
            ["kernel"],
            "try(" * 300 + ")" * 300,
        ]
    )
    if isinstance(data, dict) and data and rng.random() < 0.8:
        key = rng.choice(sorted(data))
        return {**data, key: hostile_json(data[key], rng)}
    if isinstance(data, list) and data and rng.random() < 0.8:
        i = rng.randrange(len(data))
        return [*data[:i], hostile_json(data[i], rng), *data[i + 1 :]]
    return junk


def test_1_no_damaged_trace_is_taken_for_another_kernel() -> None:
    """Whatever a file says, it is refused with a clear error or gives the kernel that was saved, by legal moves."""
    rng = random.Random(18)
    trace = dojoir.Trace(dojoir.parse(PAIR))
    for move in ("join_scopes(0, 1)", ILLEGAL, "split(0, 16)"):
        trace.apply(move)
    taken = 0
    for _ in range(400):
        data = hostile_json(trace.to_json(), rng)
        try:
            again = dojoir.Trace.from_json(data)
        except dojoir.DojoError:
            continue
        taken += 1
        assert again.is_safe and again.start == trace.start and again.kernel == trace.kernel
    assert taken < 40


# -- 2: one writer for all files -----------------------------------------------------------------------------
WRITERS: dict[str, Callable[[str], object]] = {
    "write_file": lambda path: dojoir.write_file(path, "text\n"),
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
    "runtime/build/c_toolchain.py": "sources and results of a compiler, in a temporary folder",
    "runtime/build/emulation.py": "what a program under an emulator reads, in a temporary folder",
    "runtime/evaluation/pool.py": "what workers compare with, in a temporary folder",
    "runtime/build/native.py": "a shared library while it is loaded",
    "runtime/library/library.py": "a whole folder is renamed",
    "runtime/verification/trial.py": "arrays between processes, in a temporary folder",
    "dojoir/cli/report.py": "the details of a bug, in the folder for temporary files",
    "runtime/build/llvm_passes.py": "the pipe that the parent process reads",
    "runtime/simt/toolchain.py": "sources and results of a compiler, in a temporary folder",
    "runtime/simt/harness.py": "a program while it runs, in a temporary folder",
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
        "import os, dojoir, dojoir.support.files as files\n"
        "files.os.replace = lambda *names: os._exit(9)\n"
        f"dojoir.write_file({str(tmp_path / 'file')!r}, 'new')"
    )
    (tmp_path / "file").write_text("old")
    assert subprocess.run([sys.executable, "-c", code]).returncode == 9
    assert (tmp_path / "file").read_text() == "old"
    left = [path.name for path in tmp_path.iterdir() if path.name != "file"]
    assert len(left) == 1 and left[0].startswith(UNFINISHED)


# -- 10: traces that share steps -----------------------------------------------------------------------------
COPIES: dict[str, Callable[[dojoir.Trace], dojoir.Trace]] = {
    "Trace.copy": dojoir.Trace.copy,
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda trace: pickle.loads(pickle.dumps(trace)),
}


@pytest.mark.parametrize("how", COPIES)
def test_10_a_copy_is_a_trace_of_its_own(how: str) -> None:
    trace = dojoir.Trace(dojoir.parse(PAIR))
    trace.apply("split(@i, 4)")
    other = COPIES[how](trace)
    assert type(other) is dojoir.Trace and other.moves == trace.moves and other.kernel == trace.kernel
    other.apply("split(@j, 8)")
    assert len(trace.moves) == 1 and len(other.moves) == 2
    trace.undo()
    trace.undo() if trace.moves else None
    assert len(trace.moves) == 0 and len(other.moves) == 2 and other.replay() == other.kernel


def test_10_then_gives_a_new_trace() -> None:
    trace = dojoir.Trace(dojoir.parse(PAIR))
    one = trace.then("split(@i, 4)")
    two = one.then("split(@j, 8)")
    assert [len(t.moves) for t in (trace, one, two)] == [0, 1, 2]
    assert two.steps[0] is one.steps[0]
    with pytest.raises(dojoir.IllegalMove):
        trace.then(ILLEGAL)
    assert not trace.moves and not trace.then(ILLEGAL, unsafe=True).is_safe


def test_10_steps_are_immutable() -> None:
    trace = dojoir.Trace(dojoir.parse(PAIR)).then("split(@i, 4)")
    with pytest.raises(AttributeError):
        setattr(trace.steps[0], "unsafe", True)  # noqa: B010
    assert isinstance(trace.steps, tuple)


# -- 3: numbers within 64 bits -------------------------------------------------------------------------------
LARGE_MOVES = [
    f"{move.format(number)}"
    for number in (2**31, 2**62 + 1, 2**63 - 1, 2**63, 2**64, 2**70, "1" + "0" * 5000)
    for move in (
        "split(0, {0})",
        "split(1, {0})",
        "cut(0, {0})",
        "cut(1, N - {0})",
        "skew(0, 0.0, {0})",
        "shift(0, {0})",
        "pad_dims(t, 0, {0})",
        "tile(0, 0.0, {0}, {0})",
        "set_extent(0, N + {0})",
        'add_guard(0.0, "{0} > {{0}}")',
        "prefetch(0, x, {0})",
        "unroll_by(0, {0})",
    )
]

NEST = """\
kernel nest(N, M)
in  x: f32[N, M]
out y: f32[N, M]
tmp t: f32[N, M]

N
| M
| | t[{0}, {1}] = x[{0}, {1}] * 2
N
| M
| | y[{0}, {1}] = t[{0}, {1}] + 1
"""


def reads_again(kernel: dojoir.Kernel) -> None:
    for names in (False, True):
        assert dojoir.parse(dojoir.to_text(kernel, names=names)) == kernel


def test_3_what_a_move_makes_can_be_read_again() -> None:
    """Pairs of moves with numbers about the bounds of 64 bits: each is refused, or its kernel parses again."""
    rng = random.Random(3)
    legal = 0
    for text in (PAIR, NEST):
        kernel = dojoir.parse(text)
        for _ in range(80):
            after = kernel
            for move in rng.sample(LARGE_MOVES, 2):
                try:
                    after = dojoir.apply(after, move)
                except dojoir.DojoError:
                    continue
                legal += 1
                reads_again(after)
    assert legal > 20


@pytest.mark.parametrize("move", ["split(1, 9223372036854775808)", f"split(0, {2**64})"])
def test_3_a_number_beyond_64_bits_is_refused(move: str) -> None:
    verdict = dojoir.check(dojoir.parse(PAIR), move)
    assert not verdict and verdict.code == "number-too-large" and "64 bits" in verdict.reason


def test_3_numbers_add_up_over_several_moves() -> None:
    trace = dojoir.Trace(dojoir.parse(PAIR))
    with pytest.raises(dojoir.IllegalMove) as error:
        for _ in range(5):
            trace.apply(f"split(0, {2**31})")
            reads_again(trace.kernel)
    assert error.value.verdict.code == "number-too-large"


def test_3_a_nest_too_deep_to_be_read_again_is_refused() -> None:
    trace = dojoir.Trace(dojoir.parse(PAIR))
    with pytest.raises(dojoir.IllegalMove) as error:
        for _ in range(70):
            trace.apply('add_guard(0, 1, "N >= 1")')
    assert error.value.verdict.code == "too-deep"
    reads_again(trace.kernel)


WIDE = """\
kernel wide(N, M)
in  x: i64[1]
out y: i64[1]

1
| y[{0}] = x[{0}] + (SOMETHING)
"""


@pytest.mark.parametrize("value", ["4*N", "N + M", "3*(N // 2) - M", "N*2 - N % 3", "(4*N) // 8"])
def test_3_sizes_that_would_wrap_are_refused(value: str) -> None:
    import numpy as np

    kernel = dojoir.parse(WIDE.replace("SOMETHING", value))
    x = {"x": np.zeros(1, np.int64)}
    compiled = dojoir.compile(kernel)
    for n in (1, 5, 2**40, 2**60, 2**61, 2**62, 2**63 - 1):
        try:
            found = compiled.run(x, N=n, M=n)["y"][0]
        except dojoir.ArgumentError as error:
            assert error.diagnostic.code == "size-too-large"
            with pytest.raises(dojoir.ArgumentError, match="smaller sizes"):
                dojoir.interpret(kernel, x, N=n, M=n)
        else:
            assert found == eval(value, {"N": n, "M": n}) == dojoir.interpret(kernel, x, N=n, M=n)["y"][0]
            continue
        assert n >= 2**60
    with pytest.raises(dojoir.ArgumentError, match=r"64 bits|integer of at least 1"):
        compiled.run(x, N=2**63, M=1)


def test_3_loops_of_wrapping_extents_do_not_run_wild() -> None:
    import numpy as np

    kernel = dojoir.parse("kernel k(N)\nout y: f32[4]\n\n4\n| y[{0}] = 1\n4*N\n| if {0} < 4\n| | y[{0}] += 1\n")
    compiled = dojoir.compile(kernel)
    assert compiled.run({}, N=2)["y"].tolist() == [2.0] * 4
    with pytest.raises(dojoir.ArgumentError, match=r"N=4611686018427387904 a value of `4\*N`"):
        compiled(np.ones(4, np.float32), N=2**62)


# -- 6: nesting, arguments, names ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text", ["try(" * 500 + "simplify" + ")" * 500, "each(<scope>, " * 500 + "simplify" + ")" * 500]
)
def test_6_nesting_is_told(text: str) -> None:
    with pytest.raises(dojoir.ParseError, match="nest more than 64 deep"):
        dojoir.parse_pipeline(text)
    for query in ("not " * 1000 + "scope", "(" * 1000 + "scope" + ")" * 1000, "in " * 500 + "scope"):
        with pytest.raises(dojoir.ParseError, match="at most 64"):
            dojoir.find(dojoir.parse(PAIR), query)


@pytest.mark.parametrize("junk", [None, 1, 1.5, "softmax", b"x", [], ["split(0, 4)"], {}, object(), PAIR])
def test_6_what_is_no_kernel_and_no_move_is_told(junk: Any) -> None:
    kernel = dojoir.parse(PAIR)
    for ask in (
        dojoir.moves,
        dojoir.candidates,
        dojoir.prove,
        dojoir.Trace,
        dojoir.compile,
        dojoir.cost,
        dojoir.to_text,
    ):
        with pytest.raises(dojoir.ArgumentError):
            ask(junk)
    for call in (dojoir.check, dojoir.apply, dojoir.suggest, lambda k, m: dojoir.Trace(k).apply(m)):
        with pytest.raises((dojoir.ArgumentError, dojoir.ParseError)):
            call(kernel, junk)
    if not isinstance(junk, dict):
        with pytest.raises(dojoir.ArgumentError):
            dojoir.compile(kernel).run(junk)


def test_6_check_and_suggest_answer_alike() -> None:
    kernel = dojoir.parse(PAIR)
    for move in (
        "split(9, 4)",
        "split(@none, 4)",
        "reuse_dims(none, 0)",
        "vectorize(<writes none>)",
        "split(0, 0)",
    ):
        assert dojoir.check(kernel, move).code == dojoir.suggest(kernel, move).code
    for move in ("split(", "", "nonsense(1)", "split(0)"):
        for ask in (dojoir.check, dojoir.suggest):
            with pytest.raises(dojoir.ArgumentError):
                ask(kernel, move)


def test_6_no_kernel_takes_the_name_of_a_library_function() -> None:
    from dojoir.codegen.c.symbols import symbol

    for name in ("posix_memalign", "vaddq_f32", "sinf64x", "accept", "strdupa", "arc4random"):
        assert symbol(name) != name
    kernel = dojoir.parse(PAIR.replace("kernel pair", "kernel posix_memalign"))
    assert "int posix_memalign(" not in dojoir.emit(kernel, "avx512")
