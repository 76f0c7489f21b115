"""The tiers of the tests (`tests/helpers/tiers.py`), `-m quick`, and a GPU that is none."""

from __future__ import annotations

import gc
import os
import re
import shlex
import sys
from collections.abc import Generator, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tiers

import dojoir
from dojoir.backends.host import detected

if TYPE_CHECKING:
    from fake_gpu import FakeDriver

QUICK = {
    "arithmetic", "c_goldens", "chain", "codes", "cost", "grammar_tables", "highlight", "hints", "imports",
    "interpreter", "moves", "operations", "passes", "pipelines", "queries", "rounding", "skew", "trivial_scopes",
    "typecheck",
}  # fmt: skip
"""The files of which every test is quick, without `test_`."""


FIRST = 10.0
"""A test that takes more seconds begins before the others, so that no worker is left with it alone."""

SKIPPED = "dojoir/skipped"
"""Where pytest's cache has the tests and files that the last run skipped."""


BEGAN = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers", "which cases run (docs/testing.md)")
    group.addoption("--seed", metavar="N", help="draw the cases of this number (default: of the commits)")
    group.addoption("--share", metavar="X", help="the share of each family that is drawn (default: 1/8); 1 is all")
    group.addoption("--costs", metavar="FILE", help="append the CPU seconds of each test to this file")
    group.addoption("--last-skipped", action="store_true", help="run what the last run skipped, and nothing else")


def pytest_configure(config: pytest.Config) -> None:
    """Reads the options, which the workers get from here as they are."""
    option = config.option
    try:
        if option.seed is None:
            number, option.seed_of = tiers.seed_of_tree()
            option.seed = str(number)
        tiers.parsed_seed(option.seed)
        if re.search(r"\bthorough\b", option.markexpr):
            option.share = "1"
        tiers.parsed_share(option.share or str(tiers.SHARE))
        if os.environ.get("DOJOIR_HOST"):
            detected()
    except (ValueError, dojoir.ArgumentError) as error:
        raise pytest.UsageError(str(error)) from None
    os.environ.setdefault("DOJOIR_VERIFY_LIR", "1")
    if hasattr(config, "cache"):  # what one worker compiles is there for the others, and for the next run
        os.environ.setdefault("DOJOIR_CACHE", str(config.cache.mkdir("dojoir")))
        if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):  # not beside the sources; many processes load them
            os.environ.setdefault("PYTHONPYCACHEPREFIX", str(config.cache.mkdir("bytecode")))
            sys.pycache_prefix, sys.dont_write_bytecode = os.environ["PYTHONPYCACHEPREFIX"], False


def _share(config: pytest.Config) -> Fraction:
    return tiers.parsed_share(config.option.share or str(tiers.SHARE))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cases = []
    for item in items:
        item.add_marker(pytest.mark.thorough)
        if item.path.stem.removeprefix("test_") in QUICK:
            item.add_marker(pytest.mark.quick)
        call = item.callspec if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
        values = tiers.values_of(call.params, call.indices) if call else ()
        cases.append(tiers.Case(item.nodeid, values))
    long = tiers.families_that_take_long()
    names = tiers.chosen(cases, long, tiers.parsed_seed(config.option.seed), _share(config))
    named = _named(config)
    if config.option.share in (None, "1"):
        names |= {item.nodeid for item in items if item.path in named}
    if config.option.last_skipped:
        before = set(config.cache.get(SKIPPED, [])) if hasattr(config, "cache") else set()
        names = before | {name for name in names if name.partition("::")[0] in before}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in names])
    items[:] = [item for item in items if item.nodeid in names]
    items.sort(key=lambda item: long.get(item.nodeid.partition("[")[0], 0) < FIRST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each worker has neighbours in files, which share what they compile, and takes of the others' in the end."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.option.dist == "load" else None


def pytest_collection_finish() -> None:
    """What is loaded and collected stays: the collector of garbage need not go through it again and again."""
    gc.collect()
    gc.freeze()


def _named(config: pytest.Config) -> set[Path]:
    """The files that the command line names, or of which it names a test: they run whole, if no share is given."""
    return {(config.invocation_params.dir / word.partition("::")[0]).resolve() for word in config.args}


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, Any]:
    """A file that imports what needs a package of an extra is skipped where that is not there, and says which."""
    report = yield
    call = vars(report)["call"]
    if call.excinfo and _lacks(call.excinfo.value):
        report.outcome, report.longrepr = "skipped", (str(collector.path), 0, f"Skipped: {call.excinfo.value}")
        vars(report)["call"] = None
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and not report.skipped:
        vars(report)["cpu_seconds"] = taken = tiers.cpu_seconds() - item.stash[BEGAN]
        if item.config.option.costs is not None:
            with open(item.config.option.costs, "a", encoding="utf-8") as file:
                file.write(f"{taken:.3f} {item.nodeid}\n")
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[BEGAN] = tiers.cpu_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """So is a test."""
    try:
        return (yield)
    except dojoir.ToolchainError as error:
        if _lacks(error):
            pytest.skip(str(error))
        raise


def _lacks(error: BaseException | None) -> bool:
    """Whether a package is missing: of an extra, or of CUDA, as a test that comes so far needs no card."""
    return isinstance(error, dojoir.ToolchainError) and error.diagnostic.code in ("missing-package", "no-cuda")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What was drawn, and for each failure the one command that runs it again."""
    seed, share = config.option.seed, _share(config)
    for report in (*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")):
        terminalreporter.write_line(f"again: python -m pytest --seed {seed} {shlex.quote(report.nodeid)}")
    skipped = {report.nodeid for report in terminalreporter.getreports("skipped")}
    if hasattr(config, "cache"):
        config.cache.set(SKIPPED, sorted(skipped))
    passed = terminalreporter.getreports("passed")
    taken = [(report.nodeid, vars(report).get("cpu_seconds", 0.0)) for report in passed if report.when == "call"]
    behind = tiers.behind(taken)
    if behind:
        said = ", ".join(f"{family} ({seconds:.0f} s)" for family, seconds in behind.items())
        terminalreporter.write_line(f"tests/helpers/long.txt is behind (tiers.py): {said}")
    if share < 1:
        of = getattr(config.option, "seed_of", "")
        said = f"--seed {seed}{f' ({of})' if of else ''} --share {share}; -m thorough runs all"
        terminalreporter.write_line(f"drawn by {said}")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A GPU of CUDA that is none, which the runtime finds when it looks for one."""
    from fake_gpu import FakeDriver

    from dojoir.runtime.gpu import devices

    fake = FakeDriver()
    monkeypatch.setattr(devices, "find", lambda target: fake)
    return fake


@pytest.fixture(scope="module")
def own_lease(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For tests that are not about time: none waits for what others measure on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("lease")))
        yield
