"""`dojoir-opt` from the shell: what goes to stdout and stderr, and the exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from forked import dojoir_opt

import dojoir
from dojoir.cli import main
from dojoir.proof import check as checker
from dojoir.proof.checker_mode import check_with
from dojoir.proof.claim import Claim
from dojoir.proof.verdict import Verdict

PAIR = """kernel pair(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N]

N
| t[{0}] = 2 * x[{0}]
N
| y[{0}] = t[{0}] + 1
"""

GATHER = """kernel pick(N, V)
in  table: f32[V]
in  ids: i32[N]
out y: f32[N]

N
| y[{0}] = table[ids[{0}]]
"""


class Shell:
    """Runs `dojoir-opt` in a folder of its own. What it keeps (tables, ceilings) is found by the next one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pair.dojo").write_text(PAIR)

    def __call__(
        self, *arguments: str, stdin: str | bytes = "", status: int = 0, environment: dict[str, str] | None = None
    ) -> tuple[str, str]:
        """stdout and stderr; the exit status must be as given, and nothing may look like a traceback."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        ended, *streams = dojoir_opt(arguments, self.folder, given, {**os.environ, **(environment or {})})
        out, err = (stream.decode() for stream in streams)
        assert ended == status, f"status {ended}\n{out}\n{err}"
        assert "Traceback" not in out + err
        return out, err


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_kernels_are_chained(shell: Shell) -> None:
    (shell.folder / "scale.dojo").write_text(
        "kernel scale(M)\nin  y: f32[M]\nout z: f32[M]\nM\n| z[{0}] = 2 * y[{0}]\n"
    )
    out, _ = shell("pair.dojo", "--chain", "scale.dojo", "--rename", "M=N", "-p", "join_scopes(1, 2)")
    assert out.startswith("kernel pair_scale(N)\nin  x: f32[N]\ntmp y: f32[N]\n")
    assert out.endswith("N\n| y[{0}] = t[{0}] + 1\n| z[{0}] = 2 * y[{0}]\n")
    out, _ = shell("pair.dojo", "--chain", "scale.dojo", "--rename", "M=N", "--keep", "y")
    assert "out y: f32[N]" in out
    _, err = shell("pair.dojo", "--chain", "scale.dojo", status=1)
    assert "scale.dojo:2:5: error[different-extents]" in err
    assert "declared at pair.dojo:3:5" in err
    _, err = shell("pair.dojo", "--keep", "y", status=2)
    assert "--rename and --keep are for --chain" in err
    _, err = shell("pair.dojo", "--chain", "scale.dojo", "--rename", "M", status=2)
    assert "OLD=NEW" in err


def test_without_options_it_formats(shell: Shell) -> None:
    ragged = PAIR.replace("in  x: f32[N]", "in x :f32[ N ]   # the input").replace("2 * x", "2*x")
    assert shell(stdin=ragged) == (PAIR.replace("x: f32[N]", "x: f32[N]  # the input"), "")
    assert shell("-", "--canonical", stdin=ragged) == (PAIR, "")
    assert shell("pair.dojo") == (PAIR, "")


def test_names(shell: Shell) -> None:
    out, _ = shell("pair.dojo", "--names")
    assert "N @i0\n| t[{i0}] = 2 * x[{i0}]" in out
    assert shell(stdin=out)[0] == out and shell("--canonical", stdin=out)[0] == PAIR


def test_the_fp_mode(shell: Shell) -> None:
    assert shell("pair.dojo", "--fp", "fast")[0] == PAIR.replace("(N)\n", "(N)\nfp fast\n")
    assert shell("pair.dojo", "--fp", "reassoc") == (PAIR, "")
    out, _ = shell("library:log_softmax", "--fp", "fast", "-p", "use_rule(0.0, online_softmax, n, z)")
    assert "s[{i}] = s[{i}] * exp(m[{i}] - z) + exp(x[{i}, {j}] - z)" in out
    _, err = shell("library:log_softmax", "-p", "use_rule(0.0, online_softmax, n, z)", status=1)
    assert "error[needs-fast]" in err
    _, err = shell("pair.dojo", "--fp", "loose", status=2)
    assert "'loose'" in err
    _, err = shell("--replay", "trace.json", "--fp", "fast", status=2)
    assert "leave --fp out" in err


def test_errors_have_a_place_and_a_caret(shell: Shell) -> None:
    out, err = shell(stdin=PAIR.replace("t[{0}] + 1", "tt[{0}] + 1"), status=1)
    assert out == ""
    assert err.splitlines() == [
        "<stdin>:9:12: error[unknown-buffer]: there is no buffer 'tt'; did you mean 't'?",
        "  | y[{0}] = tt[{0}] + 1",
        "             ^~",
    ] or err.startswith("<stdin>:9:12: error[unknown-")
    assert "did you mean 't'?" in err
    assert "  | y[{0}] = tt[{0}] + 1\n             ^~\n" in err


def test_a_wrong_kernel_is_refused_with_a_witness(shell: Shell) -> None:
    _, err = shell(stdin=PAIR.replace("t[{0}] + 1", "t[{0} + 1]"), status=1)
    assert err.startswith("<stdin>:9:")
    assert "N=1" in err
    assert "{0}=0" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bogus"], "unrecognized arguments: --bogus"),
        (["-s", "N"], "'N' is not a size"),
        (["-s", "N=0"], "'N=0' is not a size"),
        (["--threads", "0"], "'0' is not an integer of at least 1"),
        (["--time-limit", "soon"], "'soon' is not a number of seconds"),
        (["pair.dojo", "--replay", "t.json"], "leave FILE out"),
        (["pair.dojo", "--inputs", "x=a.npy"], "--inputs is for --run"),
    ],
)
def test_usage(shell: Shell, arguments: list[str], message: str) -> None:
    out, err = shell(*arguments, status=2)
    assert out == ""
    assert message in err


def test_help_and_version(shell: Shell) -> None:
    assert "exit status: 0 fine" in shell("--help")[0]
    assert shell("--version")[0].startswith("dojoir ")


def test_missing_and_binary_files(shell: Shell) -> None:
    assert "cannot read none.dojo: No such file" in shell("none.dojo", status=1)[1]
    assert "cannot read ." in shell(".", status=1)[1]
    assert "not UTF-8" in shell(stdin=b"kernel \xff", status=1)[1]
    assert "error[" in shell(stdin="", status=1)[1]


def test_pipelines(shell: Shell) -> None:
    out, err = shell("pair.dojo", "-p", "join_scopes(0, 1); reuse_dims(t, 0)")
    assert "tmp t: f32[N~]" in out
    assert err == ""
    (shell.folder / "moves").write_text("join_scopes(0, 1)  # one loop\n\nreuse_dims(t, 0)\n")
    assert shell("pair.dojo", "-p", "@moves")[0] == out
    assert shell("pair.dojo", "-p", "join_scopes(0, 1), reuse_dims(t, 0)")[0] == out


def test_an_illegal_move_says_why(shell: Shell) -> None:
    out, err = shell("pair.dojo", "-p", "reuse_dims(t, 0)", status=1)
    assert out == ""
    assert err.startswith("pair.dojo:9:12: error[wrong-value]: reuse_dims(t, 0): with N=2: ")
    assert "^~" in err


def test_bad_pipelines(shell: Shell) -> None:
    assert "did you mean 'split'?" in shell("pair.dojo", "-p", "splat(0, 2)", status=1)[1]
    assert "<pipeline>:1:" in shell("pair.dojo", "-p", "split(0, 2", status=1)[1]
    assert "cannot read none" in shell("pair.dojo", "-p", "@none", status=1)[1]
    (shell.folder / "moves").write_text("join_scopes(0, 1)\nsplit(0, x)\n")
    assert shell("pair.dojo", "-p", "@moves", status=1)[1].startswith("moves:2:1: error[bad-arguments]")


def test_output_is_whole_or_absent(shell: Shell) -> None:
    target = shell.folder / "out.dojo"
    assert shell("pair.dojo", "-o", "out.dojo") == ("", "")
    assert target.read_text() == PAIR
    shell("pair.dojo", "-p", "reuse_dims(t, 0)", "-o", "out.dojo", status=1)
    assert target.read_text() == PAIR
    assert "cannot write no/out.dojo" in shell("pair.dojo", "-o", "no/out.dojo", status=1)[1]
    assert {path.name for path in shell.folder.iterdir()} == {"out.dojo", "pair.dojo"}
    shell("pair.dojo", "-o", "pair.dojo", "--names")
    assert "@i0" in (shell.folder / "pair.dojo").read_text()


def test_printing_steps_goes_to_stderr(shell: Shell) -> None:
    pipeline = "join_scopes(0, 1); reuse_dims(t, 0)"
    plain, _ = shell("pair.dojo", "-p", pipeline)
    out, err = shell("pair.dojo", "-p", pipeline, "--print-diff")
    assert out == plain
    assert "# reuse_dims(t, 0)" in err
    assert "-tmp t: f32[N]\n+tmp t: f32[N~]" in err
    out, err = shell("pair.dojo", "-p", pipeline, "--print-ir-after-all")
    assert out == plain
    assert err.count("kernel pair(N)") == 2
    assert shell("pair.dojo", "-p", pipeline, "--print-ir-after-change")[1] == err
    out, err = shell("pair.dojo", "-p", pipeline, "--timing", "--verify-each")
    assert out == plain
    assert "join_scopes(0, 1)" in err
    assert "total" in err


def test_moves(shell: Shell) -> None:
    out, _ = shell("pair.dojo", "--moves")
    assert "join_scopes(0, 1)" in out.splitlines()
    assert "reuse_dims(t, 0)" not in out.splitlines()
    assert json.loads(shell("pair.dojo", "--moves", "--json")[0])["moves"] == out.splitlines()


def test_explain(shell: Shell) -> None:
    assert shell("pair.dojo", "--explain", "join_scopes(0, 1)") == ("legal\n", "")
    out, _ = shell("pair.dojo", "--explain", "reuse_dims(t, 0)", status=1)
    assert "error[wrong-value]" in out
    assert "help: reuse_dims(t, 0) is legal after join_scopes(0, 1)" in out
    data = json.loads(shell("pair.dojo", "--explain", "reuse_dims(t, 0)", "--json", status=1)[0])
    assert (data["status"], data["code"], data["line"]) == ("illegal", "wrong-value", 9)


def test_check_with(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    once = ("pair.dojo", "-p", "join_scopes(0, 1)")
    for way in ("shortcuts", "core"):
        assert shell(*once, "--check-with", way) == shell(*once)
        data = json.loads(
            shell("pair.dojo", "--explain", "reuse_dims(t, 0)", "--json", "--check-with", way, status=1)[0]
        )
        assert data["code"] == "wrong-value"
    _, err = shell(*once, "--check-with", "luck", status=2)
    assert "shortcuts" in err and "core" in err
    monkeypatch.setenv("DOJOIR_CHECK", "luck")
    assert "DOJOIR_CHECK" in shell(*once, status=1)[1]
    shell(*once, "--check-with", "shortcuts")


def test_check_with_asks_the_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Claim] = []
    given = checker.check

    def counted(claim: Claim) -> Verdict:
        asked.append(claim)
        return given(claim)

    monkeypatch.setattr(checker, "check", counted)
    file = tmp_path / "pair.dojo"
    file.write_text(PAIR)
    arguments = [str(file), "-p", "join_scopes(0, 1)", "-o", str(tmp_path / "out.dojo")]
    for way, claims in (("shortcuts", 0), ("core", 1)):
        assert main([*arguments, "--check-with", way]) == 0
        assert len(asked) == claims
    with pytest.raises(dojoir.ArgumentError, match="shortcuts or core"):
        check_with("luck")


def test_lists(shell: Shell) -> None:
    assert "reuse_dims" in shell("--list-passes")[0]
    assert set(json.loads(shell("--list-targets", "--json")[0])) >= {"llvm", "c"}
    assert "softmax" in shell("--list-kernels")[0]
    assert "strip-mines" in shell("--help-pass", "split")[0].lower()
    assert "no move or pass 'spilt'" in shell("--help-pass", "spilt", status=1)[1]


def test_library_kernels(shell: Shell) -> None:
    assert shell("library:softmax", "--canonical")[0].startswith("kernel softmax(N, M)")
    assert "\nkernel softmax(N, M)\n" in shell("library:softmax")[0]
    assert "did you mean 'softmax'?" in shell("library:sotfmax", status=1)[1]


def test_emit(shell: Shell) -> None:
    assert "int32_t pair(const float *restrict x" in shell("pair.dojo", "--emit", "c")[0]
    assert "define" in shell("pair.dojo", "--emit", "llvm")[0]
    assert "there is no target 'lvm'; did you mean 'llvm'?" in shell("pair.dojo", "--emit", "lvm", status=2)[1]


def test_run(shell: Shell) -> None:
    np.save(shell.folder / "x.npy", np.arange(5, dtype=np.float32))
    out, _ = shell("pair.dojo", "--run", "--inputs", "x=x.npy", "-o", "out.npz")
    assert out.startswith("y: float32 5  min 1  max 9  mean 5")
    with np.load(shell.folder / "out.npz") as outputs:
        assert outputs["y"].tolist() == [1, 3, 5, 7, 9]
    np.savez(shell.folder / "all.npz", x=np.arange(5, dtype=np.float32))
    assert shell("pair.dojo", "--run", "--inputs", "all.npz")[0] == out
    first = shell("pair.dojo", "--run", "-s", "N=7", "--seed", "3")[0]
    assert first == shell("pair.dojo", "--run", "-s", "N=7", "--seed", "3")[0]
    assert first != shell("pair.dojo", "--run", "-s", "N=7", "--seed", "4")[0]
    assert json.loads(shell("pair.dojo", "--run", "-s", "N=2", "--json")[0])["y"]["shape"] == [2]


def test_run_writes_outputs_of_any_name(shell: Shell) -> None:
    text = PAIR.replace("kernel pair", "kernel f").replace("y: f32", "file: f32").replace("y[", "file[")
    shell("--run", "-s", "N=3", "-o", "out.npz", stdin=text)
    with np.load(shell.folder / "out.npz") as outputs:
        assert outputs["file"].shape == (3,)


def test_run_with_wrong_inputs(shell: Shell) -> None:
    np.save(shell.folder / "x.npy", np.arange(5, dtype=np.float64))
    assert "f32" in shell("pair.dojo", "--run", "--inputs", "x=x.npy", status=1)[1]
    assert "cannot read none.npy" in shell("pair.dojo", "--run", "--inputs", "x=none.npy", status=1)[1]
    assert "no buffer 'z'" in shell("pair.dojo", "--run", "--inputs", "z=x.npy", status=1)[1]
    assert "pass -s N=" in shell("pair.dojo", "--run", status=1)[1]
    (shell.folder / "bad.npy").write_text("no array")
    assert "not a .npy or .npz" in shell("pair.dojo", "--run", "--inputs", "x=bad.npy", status=1)[1]
    np.savez(shell.folder / "g.npz", table=np.zeros(3, np.float32), ids=np.array([0, 3], np.int32))
    _, err = shell("--run", "--inputs", "g.npz", stdin=GATHER, status=3)
    assert "table[ids[{0}]]" in err


def test_traces(shell: Shell) -> None:
    plain, _ = shell("pair.dojo", "-p", "join_scopes(0, 1); split(0, 4)", "--save-trace", "t.json")
    assert shell("--replay", "t.json")[0] == plain
    assert "# split(0, 4)" in shell("--replay", "t.json", "--print-diff")[1]
    further, _ = shell("--replay", "t.json", "-p", "reuse_dims(t, 0)")
    assert "N~" in further
    text = (shell.folder / "t.json").read_text()
    (shell.folder / "bad.json").write_text(text.replace("join_scopes(0, 1)", "reuse_dims(t, 0)"))
    assert "bad.json: move 1: reuse_dims(t, 0)" in shell("--replay", "bad.json", status=1)[1]
    assert "not JSON" in shell("--replay", "pair.dojo", status=1)[1]


def test_unsafe_moves_mark_the_trace(shell: Shell) -> None:
    shell("pair.dojo", "-p", "reuse_dims(t, 0)", "--unsafe", "--save-trace", "t.json")
    assert json.loads((shell.folder / "t.json").read_text())["unsafe"] == [0]


def test_split_input_file(shell: Shell) -> None:
    bad = PAIR.replace("= 2 *", "= 2 **")
    out, err = shell("--split-input-file", stdin=f"{PAIR}# -----\n{bad}# -----\n{PAIR}", status=1)
    assert out == f"{PAIR}# -----\n{PAIR}"
    line = len(PAIR.splitlines()) + 1 + 7
    assert err.startswith(f"<stdin>:{line}:")


def test_verify_diagnostics(shell: Shell) -> None:
    expected = PAIR.replace("N\n| y", "N\n# expected-error @below {{would read `t[{0}]`}}\n| y")
    assert shell("--verify-diagnostics", "-p", "reuse_dims(t, 0)", stdin=expected) == ("", "")
    missing = shell("--verify-diagnostics", stdin=expected, status=1)[1]
    assert "error[missing-error]" in missing
    other = expected.replace("would read", "could read")
    unexpected = shell("--verify-diagnostics", "-p", "reuse_dims(t, 0)", stdin=other, status=1)[1]
    assert "error[unexpected-error]" in unexpected
    assert "error[missing-error]" in unexpected
    good = "kernel f(N) # expected-error @+1 {{no buffer 'z'}}\nout y: f32[N]\nN\n| y[{0}] = z\n"
    wrong_line = shell("--verify-diagnostics", stdin=good, status=1)[1]
    assert "error[missing-error]" in wrong_line


def test_json_errors(shell: Shell) -> None:
    _, err = shell("pair.dojo", "-p", "reuse_dims(t, 0)", "--json", status=1)
    data = json.loads(err)["error"]
    assert (data["status"], data["code"], data["line"]) == ("illegal", "wrong-value", 9)


def test_cost(shell: Shell) -> None:
    out, _ = shell("pair.dojo", "--cost")
    assert "2*N" in out
    assert "8*N" in out
    assert json.loads(shell("pair.dojo", "--cost", "--json", "-s", "N=10")[0])


def test_a_closed_pipe_is_no_error(shell: Shell) -> None:
    command = f"{sys.executable} -m dojoir.cli pair.dojo --moves | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, cwd=shell.folder, timeout=60, text=True
    )
    assert (done.stdout, done.stderr) == ("join_scopes(0, 1)\n", "")


def test_a_bug_of_ours_is_said_to_be_one(shell: Shell) -> None:
    code = (
        "import sys, dojoir, dojoir.cli\n"
        "dojoir.parse = lambda *a: 1 // 0\n"
        "sys.exit(dojoir.cli.main(['pair.dojo']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=shell.folder, timeout=60,
        env={**os.environ, "TMPDIR": str(shell.folder)},
    )  # fmt: skip
    assert done.returncode == 70
    assert "this is a bug in dojoir" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in next(shell.folder.glob("dojoir-bug-*.txt")).read_text()


SKEWED = """kernel skewed(N, M)
inout a: f32[N, M]

N - 1
| M - 1
| | a[{0} + 1, {1}] = a[{0}, {1} + 1] + 1
"""


UNDECIDED = """
kernel root(N)
in  x: f32[N]
out y: f32[N]

N
| y[{0}] = sqrt(x[{0}] * 3 - 3 * x[{0}])
"""


def test_check_with_too_little_compared_and_with_inputs(shell: Shell, tmp_path: Path) -> None:
    text = UNDECIDED
    out, _ = shell("--check", stdin=text, status=3)
    assert "UNDECIDED" in out and "% of uniform" in out
    data = json.loads(shell("--check", "--json", stdin=text, status=3)[0])["check"]
    assert data["status"] == "undecided" and data["unchecked"]["uniform"] > 0.1 and not data["ok"]
    np.save(tmp_path / "x.npy", np.zeros(5, np.float32))
    data = json.loads(shell("--check", "--json", "--inputs", f"x={tmp_path / 'x.npy'}", stdin=text)[0])["check"]
    assert data["status"] == "ok" and data["unchecked"] == {"given": 0.0} and data["cases"] == 1


def test_check(shell: Shell) -> None:
    out, _ = shell("pair.dojo", "-p", "join_scopes(0, 1); vectorize(0)", "--check")
    assert out.startswith("pair on llvm: ok")
    data = json.loads(shell("pair.dojo", "--check", "--json", "-s", "N=33")[0])["check"]
    assert data["ok"]
    assert data["reason"] is None


def test_a_wrong_result_has_a_status_of_its_own(shell: Shell) -> None:
    out, _ = shell("--check", "--unsafe", "-p", "swap_scopes(0)", stdin=SKEWED, status=3)
    assert out.startswith("skewed on llvm: FAILED")
    assert "expected" in out


def test_time(shell: Shell) -> None:
    shape = ("-s", "N=1000", "--threads", "1")
    out, _ = shell("pair.dojo", "-p", "join_scopes(0, 1); reuse_dims(t, 0)", "--time", *shape)
    assert out.startswith("pair(N=1000) on llvm, 1 thread")
    assert [line.split("  ")[0] for line in out.splitlines()[3:5]] == ["after 2 moves", "as written"]
    rows = json.loads(shell("library:relu", "--time", "--json", *shape)[0])["time"]
    assert list(rows) == ["as written", "NumPy"]
    assert all(row["seconds"] > 0 and row["gbytes_per_second"] > 0 for row in rows.values())


def test_sizes_to_time_at_are_chosen(shell: Shell) -> None:
    out, _ = shell("library:relu", "--time", "--threads", "1")
    assert out.startswith("relu(N=33554432) on llvm")


def test_the_time_limit_has_a_status_of_its_own(shell: Shell) -> None:
    _, err = shell("library:matmul", "--time", "-s", "N=2000", "-s", "M=2000", "-s", "K=2000",
                   "--time-limit", "0.5", status=5)  # fmt: skip
    assert "error[time-limit]" in err


def test_a_missing_compiler_has_a_status_of_its_own(shell: Shell) -> None:
    _, err = shell("pair.dojo", "--run", "-s", "N=3", "--target", "c", environment={"PATH": "", "CC": ""}, status=4)
    assert "no C compiler" in err


@pytest.mark.parametrize("option", ["--run", "--time"])
def test_more_memory_than_there_is(shell: Shell, option: str) -> None:
    _, errors = shell("library:softmax", option, "-s", "N=100000000", "-s", "M=10000000", status=1)
    assert "error[out-of-memory]" in errors
    assert "N=100000000, M=10000000 takes 10.7 PiB" in errors and "of temporaries" in errors
    assert "smaller sizes" in errors


def test_memory_that_is_there_is_not_refused(shell: Shell) -> None:
    out, _ = shell("library:add", "--run", "-s", "N=1000000")
    assert out.startswith("y: float32 1000000")
