"""The drawn tier: what runs meets every value and pair, is the same for a seed, and comes round in a few seeds."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import pytest
import tiers
from folders import HELPERS, ROOT, TESTS
from tiers import Case, drawn

TABLE = [Case(f"{a} {b} {c}", (a, b, c)) for a, b, c in product(range(6), "xyz", (True, False))]
SQUARE = [Case(f"{a} {b}", (a, b)) for a, b in product(range(5), range(8))]
LIST = [Case(str(n), (n,)) for n in range(100)]
EIGHTH = Fraction(1, 8)


@pytest.mark.parametrize("seed", range(8))
def test_every_pair_of_three_axes_is_met(seed: int) -> None:
    names = drawn(TABLE, seed, EIGHTH)
    chosen = [case.values for case in TABLE if case.name in names]
    for one, other in combinations(range(3), 2):
        assert {(v[one], v[other]) for v in chosen} == {(c.values[one], c.values[other]) for c in TABLE}
    assert len(names) < len(TABLE)


@pytest.mark.parametrize("seed", range(8))
def test_every_value_of_two_axes_is_met(seed: int) -> None:
    names = drawn(SQUARE, seed, EIGHTH)
    for axis in range(2):
        assert {c.values[axis] for c in SQUARE if c.name in names} == {c.values[axis] for c in SQUARE}
    assert len(names) <= 5 + 8 + 5


def test_a_long_list_is_drawn_by_its_share_and_comes_round() -> None:
    rounds = [drawn(LIST, seed, EIGHTH) for seed in range(3, 11)]
    assert {len(names) for names in rounds} == {13}
    assert set().union(*rounds) == {case.name for case in LIST}


def test_a_seed_draws_the_same_whatever_the_order_and_families_differ() -> None:
    assert drawn(LIST, 5, EIGHTH) == drawn(LIST[::-1], 5, EIGHTH)
    other = [Case(f"other {case.name}", case.values) for case in LIST]
    assert {name.removeprefix("other ") for name in drawn(other, 5, EIGHTH)} != drawn(LIST, 5, EIGHTH)
    assert drawn(LIST, 5, EIGHTH) != drawn(LIST, 6, EIGHTH)


def test_what_takes_long_is_drawn_together_and_evenly() -> None:
    families = {f"f{n}": [Case(f"f{n}[{case}]") for case in range(n)] for n in range(1, 17)}
    cases = [case for its in families.values() for case in its]
    rounds = [tiers.chosen(cases, dict.fromkeys(families, 0.5), seed, EIGHTH) for seed in range(8)]
    assert {len(names) for names in rounds} == {len(cases) // 8}
    assert set().union(*rounds) == {case.name for case in cases}
    for names in rounds:
        assert all(
            len(names & {case.name for case in families[f"f{n}"]}) in (n // 8, n // 8 + 1) for n in range(1, 17)
        )
    assert {name.partition("[")[0] for name in tiers.chosen(cases, {}, 3, EIGHTH)} == families.keys()


def test_what_takes_longer_is_drawn_less_often_and_comes_round() -> None:
    seconds = {"half": 0.5, "one": 0.7, "more": 0.71, "four": 2.7, "hours": 9999.0}
    cases = [Case(f"{family}[{case}]") for family in seconds for case in range(128)]
    rounds = [tiers.chosen(cases, seconds, seed, EIGHTH) for seed in range(128)]
    assert set().union(*rounds) == {case.name for case in cases}
    for family, interval in (("more", 16), ("four", 32), ("hours", 128)):
        assert {sum(name.startswith(family) for name in names) for names in rounds} == {128 // interval}
    for names in rounds:
        assert 31 <= sum(name.startswith(("half", "one")) for name in names) <= 33


def test_of_a_campaign_that_always_runs_a_block_is_drawn_and_all_come_round() -> None:
    blocks = [Case(f"tests/proof/test_claims.py::test_it[{block}]", (block,)) for block in range(4)]
    texts = [Case(f"tests/proof/test_claims.py::test_texts[{text}]", (text,)) for text in "abcd"]
    long = {blocks[0].family: 4.5, texts[0].family: 4.5}
    rounds = [tiers.chosen(blocks + texts, long, seed, EIGHTH) for seed in range(4)]
    assert {len(names & {case.name for case in blocks}) for names in rounds} == {1}
    assert set().union(*rounds) == {case.name for case in blocks + texts}
    for names in (*rounds, tiers.chosen(blocks + texts, {blocks[0].family: 0.9}, 0, EIGHTH)):
        assert names >= {case.name for case in texts}


def test_a_share_of_one_is_all() -> None:
    for cases in (TABLE, SQUARE, LIST):
        assert tiers.chosen(cases, {}, 4, Fraction(1)) == {case.name for case in cases}


def test_the_seed_of_this_tree_stays() -> None:
    seed, of = tiers.seed_of_tree()
    assert (seed, of) == tiers.seed_of_tree()
    assert tiers.parsed_seed(str(seed)) == seed and of.startswith("the ")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--seed", "x"), "--seed x: a seed is a whole number from 0, such as --seed 7"),
        (("--seed=-1",), "--seed -1: a seed is a whole number from 0, such as --seed 7"),
        (("--share", "2"), "--share 2: a share is above 0 and at most 1, such as --share 1/8; 1 runs all"),
        (("--share", "1/0"), "--share 1/0: a share is above 0 and at most 1, such as --share 1/8; 1 runs all"),
        (("--share", "half"), "--share half: a share is above 0 and at most 1, such as --share 1/8; 1 runs all"),
    ],
)
def test_a_wrong_option_is_one_line(given: tuple[str, ...], told: str) -> None:
    done = pytest_here(*given)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert (done.stdout + done.stderr).split("\n\n")[0].strip() == f"ERROR: {told}"


def test_a_wrong_host_is_one_line() -> None:
    environment = os.environ | {"DOJOIR_HOST": "znver33"}
    command = [sys.executable, "-m", "pytest", "--collect-only", "tests/project/test_packages.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    (line,) = [line for line in (done.stdout + done.stderr).splitlines() if line]
    assert "DOJOIR_HOST: no machine is known for 'znver33'; did you mean 'znver3'?" in line


FAMILY = """import pytest
@pytest.mark.parametrize("n", range(40))
def test_family(n): assert n != 7
@pytest.mark.parametrize("n", range(40))
def test_of_another_file(n): pass
def test_alone(): pass
"""


def test_a_failure_tells_the_command_that_runs_it_again(tmp_path: Path) -> None:
    """A folder is drawn from, a file that is named runs whole; so does everything with `-m thorough`."""
    (tmp_path / "test_it.py").write_text(FAMILY)
    names = [Case(f"test_it.py::test_family[{n}]", (n,)) for n in range(40)]
    seed = next(seed for seed in range(8) if names[7].name in drawn(names, seed, EIGHTH))
    told = pytest_here("--seed", str(seed), folder=tmp_path).stdout
    assert "1 failed, 10 passed, 70 deselected" in told
    (again,) = [line for line in told.splitlines() if line.startswith("again: python -m pytest ")]
    assert again.endswith("'test_it.py::test_family[7]'")
    alone = pytest_here(*shlex.split(again)[4:], folder=tmp_path).stdout
    assert "1 failed" in alone and "passed" not in alone
    for whole in (("test_it.py",), ("-m", "thorough")):
        assert "1 failed, 80 passed" in pytest_here(*whole, folder=tmp_path).stdout


LACKING = """import os, pytest
import dojoir
{top}
@pytest.mark.parametrize("n", range(24))
def test_some(n):
    if "HAS_IT" not in os.environ: raise dojoir.ToolchainError("needs it", "missing-package")
def test_other(): pass
"""


def test_what_an_extra_is_missing_for_is_skipped_and_run_later(tmp_path: Path) -> None:
    """Also a whole file, of which then a part is drawn; and nothing else."""
    top = "if 'HAS_IT' not in os.environ: raise dojoir.ToolchainError('needs it', 'missing-package')"
    (tmp_path / "test_inside.py").write_text(LACKING.format(top=""))
    (tmp_path / "test_file.py").write_text(LACKING.format(top=top))
    first = pytest_here("-rs", "--seed", "0", folder=tmp_path).stdout
    assert "1 passed, 4 skipped" in first and first.count("error[missing-package]: needs it") == 2
    second = pytest_here("--last-skipped", "--seed", "0", folder=tmp_path, HAS_IT="1").stdout
    assert "7 passed, 43 deselected" in second


def pytest_here(*words: str, folder: Path = ROOT, **more: str) -> subprocess.CompletedProcess[str]:
    """pytest, in the checkout, or in a folder with the tiers of the checkout."""
    plugin = ("-p", "no:cacheprovider") if folder == ROOT else ("-p", "conftest", "-c", "pytest.ini")
    if folder != ROOT:
        (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", *plugin, *words]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(TESTS), str(HELPERS)))} | more
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_costs_of_a_run_bring_the_table_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, costs = tmp_path / "long.txt", tmp_path / "costs.txt"
    monkeypatch.setattr(tiers, "TABLE", table)
    table.write_text("0.30? t.py::a\n0.50? t.py::b\n9.00 t.py::c\n")
    costs.write_text("0.100 t.py::a\n2.000 t.py::c[x]\n1.000 t.py::c[y z]\n0.400 t.py::d\n")
    tiers.main(costs)
    assert table.read_text() == "0.50? t.py::b\n1.50 t.py::c\n0.40 t.py::d\n"
    assert tiers.behind([("t.py::b", 3.0), ("t.py::c", 4.0), ("t.py::e[1]", 1.0), ("t.py::e[2]", 4.0)]) == {
        "t.py::b": 3.0, "t.py::e": 2.5}  # fmt: skip
