"""`-m quick`: the tests to run while one works, in under a minute on two cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fake_gpu import FakeDriver

QUICK = {
    "arithmetic", "c_goldens", "chain", "codes", "cost", "grammar_tables", "highlight", "hints", "imports",
    "interpreter", "moves", "operations", "passes", "pipelines", "queries", "rounding", "skew", "trivial_scopes",
    "typecheck",
}  # fmt: skip
"""The files of which every test is quick, without `test_`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem.removeprefix("test_") in QUICK:
            item.add_marker(pytest.mark.quick)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A GPU of CUDA that is none, which the runtime finds when it looks for one."""
    from fake_gpu import FakeDriver

    from dojoir.runtime.gpu import devices

    fake = FakeDriver()
    monkeypatch.setattr(devices, "find", lambda target: fake)
    return fake
