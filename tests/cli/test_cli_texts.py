"""`dojoir-opt`: the texts it writes, and what it says of options, targets and moves that there are not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_cli import PAIR, Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


COMMENTED = """# Twice, and one more.
kernel pair(N)
in  x: f32[N]  # the input
out y: f32[N]
tmp t: f32[N]

# first
N @i  # rows
| t[{i}] = 2 * x[{i}]  # doubled
# second
N @j
| # one more
| y[{j}] = t[{j}] + 1
# the end
"""


def test_labels_and_comments_are_kept(shell: Shell) -> None:
    assert shell(stdin=COMMENTED) == (COMMENTED, "")
    out, _ = shell("-p", "join_scopes(@i, @j); reuse_dims(t, 0)", stdin=COMMENTED)
    body = (
        "# first\nN @i  # rows\n| t[{i}] = 2 * x[{i}]  # doubled\n| # second\n| # one more\n| y[{i}] = t[{i}] + 1\n"
    )
    assert body in out and out.endswith("\n# the end\n")
    assert shell(stdin=out) == (out, ""), "formatting once is enough"
    assert shell("--canonical", stdin=COMMENTED) == (PAIR, "")
    assert shell("--names", stdin=COMMENTED)[0].count("#") == COMMENTED.count("#")
    assert "leave --names out" in shell("--names", "--canonical", stdin=COMMENTED, status=2)[1]


@pytest.mark.parametrize("moves", [[], ["-p", "split(0, 4)"]])
def test_a_check_that_fails_says_the_line_of_the_file(moves: list[str], shell: Shell) -> None:
    """And not that of the kernel with bounds, which the reference is worked out by."""
    text = "# first\n\nkernel h(N, M)\nin  i: i32[M]\nin  x: f32[M]\nout h: f32[N]\n# more\nN\n| h[{0}] = 0\n"
    text += "M\n| # here\n| h[i[{0}]] += x[{0}]\n"
    np.save(shell.folder / "i.npy", np.full(4, 77, np.int32))
    told = "".join(shell("--check", *moves, "--inputs", "i=i.npy", "-s", "N=8", stdin=text, status=3))
    assert "<stdin>:12:3: error[index-out-of-range]: at N=8, M=4, {0}=0: index i[{0}] = 77" in told, told


def test_all_errors_of_a_text_are_told(shell: Shell) -> None:
    wrong = PAIR.replace("2 * x[{0}]", "2 ** x[{0}]").replace("t[{0}] + 1", "u[{0}] + 1")
    _, err = shell(stdin=wrong, status=1)
    assert [line.split(": ")[0] for line in err.splitlines() if "error[" in line] == [
        "<stdin>:7:15",
        "<stdin>:9:12",
    ]
    _, err = shell("--json", stdin=wrong, status=1)
    assert [json.loads(line)["error"]["line"] for line in err.splitlines()] == [7, 9]


def test_a_target_that_there_is_not_is_usage(shell: Shell) -> None:
    for option in ("--target", "--emit"):
        _, err = shell("pair.dojo", option, "avx51", status=2)
        assert "there is no target 'avx51'; did you mean 'avx512'?" in err and "the targets are llvm, c" in err


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [("--chek", "--check"), ("--bench", "--time"), ("--asm", "--emit asm"), ("--passes", "-p"), ("-j4", "")],
)
def test_options_that_there_are_not(shell: Shell, arguments: str, meant: str) -> None:
    _, err = shell("pair.dojo", arguments, status=2)
    assert "unrecognized arguments" in err and (not meant or f"did you mean '{meant}'?" in err)


def test_a_level_of_optimisation(shell: Shell) -> None:
    assert "-O takes no level" in shell("pair.dojo", "-O3", status=2)[1]


@pytest.mark.parametrize(
    ("word", "meant"),
    [("fuse", "join_scopes"), ("interchange", "swap_scopes"), ("reorder", "sink_scope"), ("strip_mine", "split"),
     ("compute_at", "join_scopes(0, 1); reuse_dims(t, 0)"), ("cache_read", "stage(0.1, x, xs, in)")],
)  # fmt: skip
def test_moves_by_what_others_call_them(shell: Shell, word: str, meant: str) -> None:
    for option in ("-p", "--explain"):
        _, err = shell("pair.dojo", option, f"{word}(0, 1)", status=1)
        assert f"did you mean {meant}" in err and f"which others call {word}?" in err


def test_the_code_of_processors(shell: Shell) -> None:
    assert "fmla" in shell("library:matmul", "-O", "--emit", "asm", "--cpu", "neoverse-n1")[0]
    assert "vfmadd" in shell("library:matmul", "-O", "--emit", "asm", "--cpu", "znver3")[0]
    text = shell("pair.dojo", "--emit", "llvm-opt")[0]
    assert "define " in text and " x float>" in text, "LLVM has put it into vectors"
    assert " x float>" not in shell("pair.dojo", "--emit", "llvm")[0]


def test_optimize_is_a_pass(shell: Shell) -> None:
    out, err = shell("library:softmax", "-p", "optimize", "--why", "-s", "N=4096", "-s", "M=4096")
    assert (out, err) == shell("library:softmax", "-O", "--why", "-s", "N=4096", "-s", "M=4096")
    assert err.startswith("softmax: schedule ") and " moves, for " in err
    assert "--why is for -O and -p optimize" in shell("pair.dojo", "--why", status=2)[1]
    assert "the stored schedule that fits" in shell("--help-pass", "optimize")[0]


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_code_for_a_gpu_has_a_schedule_for_one(shell: Shell, target: str) -> None:
    """--emit says for which machine the schedules of -O and of passes are."""
    for options in (["-O"], ["-p", "default_schedule"], ["-p", "optimize"], ["-O", "--target", target]):
        text, err = shell("library:softmax", *options, "--emit", target)
        assert "one block does all" not in err, options
        assert "__global__" in text and "<<<dim3(" in text, options
        plain, _ = shell("library:softmax", *options, "--target", target)
        assert ": gx" in plain, options


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_code_for_a_gpu_without_a_grid_says_so(shell: Shell, target: str) -> None:
    text, err = shell("library:softmax", "--emit", target)
    assert "__global__" in text
    assert err.startswith("dojoir-opt: note[no-grid]: softmax has no scope over the grid of a GPU")
    assert f"-O makes a schedule for {target}" in err
    _, err = shell("library:softmax", "--emit", target, "--json")
    assert json.loads(err)["warning"]["code"] == "no-grid"
    assert shell("library:softmax", "-p", "bind(0, gx); bind(1, gx)", "--emit", target)[1] == ""
    assert shell("library:softmax", "--emit", "c")[1] == ""
    other = shell("library:softmax", "-O", "--target", "llvm", "--emit", target)[1]
    assert "no-grid" in other, "a schedule for another target, which was asked for"
