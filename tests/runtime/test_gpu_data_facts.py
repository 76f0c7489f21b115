"""The check of facts on data on a GPU: right for all elements, and without a copy where it can tell."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from fake_gpu import FakeDriver, on_gpu

import dojoir
from dojoir.runtime.gpu import data_facts, devices
from dojoir.runtime.gpu.compiled import DeviceCompiled
from dojoir.runtime.gpu.data_facts import kernel_of

ROWS = """kernel rows(N, S)
in    at: {dtype}[N] distinct
in    x: f32[N]
inout y: f32[S]
N : gx
| 1 : bx
| | y[at[{{0}}]] = x[{{0}}]
"""


BOUNDED = """kernel bounded(N, C, M)
in    a: {dtype}[N, C] {fact}
inout y: f32[N]
N : gx
| 1 : bx
| | y[{{0}}] = 1
"""
KINDS = {"lengths": "lengths(M)", "offsets": "offsets(M)"}


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    driver = FakeDriver()
    monkeypatch.setattr(devices, "find", lambda target: driver)
    return driver


def called(driver: FakeDriver, at: np.ndarray, size: int = 70) -> np.ndarray:
    compiled = dojoir.compile(dojoir.parse(ROWS.format(dtype=str(at.dtype).replace("int", "i"))), "cuda")
    assert isinstance(compiled, DeviceCompiled)
    y = on_gpu(driver, np.zeros(size, np.float32))
    compiled(on_gpu(driver, at), on_gpu(driver, np.arange(1, len(at) + 1, dtype=np.float32)), y)
    return y.numpy()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("count", [1, 2, 70])
def test_distinct_ones_are_not_copied(
    driver: FakeDriver, dtype: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeviceCompiled, "_contents", None)
    at = np.random.default_rng(1).permutation(70)[:count].astype(dtype)
    expected = np.zeros(70, np.float32)
    expected[at] = np.arange(1, count + 1)
    np.testing.assert_array_equal(called(driver, at), expected)


def test_many_are_asked_by_several_launches(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_facts, "FEW", 8)
    called(driver, np.arange(40))
    assert sum("apart" in name for name, *_ in driver.launches) > 1
    with pytest.raises(dojoir.ArgumentError, match=r"are both 3"):
        called(driver, np.arange(40) % 39 + 3 * (np.arange(40) == 39))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_equal_ones_are_told_before_anything_is_written(driver: FakeDriver, dtype: str) -> None:
    at = np.arange(40, dtype=dtype)
    at[31] = 7
    with pytest.raises(dojoir.ArgumentError, match=r"at\[7\] and at\[31\] are both 7"):
        called(driver, at)
    names = [name for name, *_ in driver.launches]
    assert any("apart" in name for name in names) and not any("rows" in name for name in names)


def test_ones_that_share_a_place_are_looked_at_on_the_cpu(driver: FakeDriver) -> None:
    """They are distinct, and out of the range of the array."""
    with pytest.raises(dojoir.RunError, match="index read from data"):
        called(driver, np.array([3, 3 + (1 << 16)]))


def test_a_later_call_looks_again(driver: FakeDriver) -> None:
    compiled = dojoir.compile(dojoir.parse(ROWS.format(dtype="i64")), "cuda")
    at, x = on_gpu(driver, np.array([1, 2, 3])), on_gpu(driver, np.ones(3, np.float32))
    y = on_gpu(driver, np.zeros(9, np.float32))
    compiled(at, x, y)
    at.put(np.array([1, 2, 1]))
    with pytest.raises(dojoir.ArgumentError, match="are both 1"):
        compiled(at, x, y)
    at.put(np.array([2, 1, 0]))
    compiled(at, x, y)


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
def test_the_kernel_is_proved_and_counts(dtype: str, few: bool) -> None:
    kernel = kernel_of("distinct", dtype, 1 << 16, few)
    dojoir.prove(kernel)
    kind = np.dtype(dtype.replace("u", "uint").replace("i", "int").replace("uintnt", "uint"))
    about = np.iinfo(kind)
    for given in ([about.min, about.max, 1, 0], [5, about.max, 5, about.min], [about.max] * 3):
        found = dojoir.compile(kernel, "cuda", emulated=True).run({"x": np.array(given, kind)})["more"]
        remainders = {int(value) % (1 << 16) for value in given}
        assert found == len(given) - len(remainders)


# -- lengths and offsets -------------------------------------------------------------------------------------
def refused(driver: FakeDriver, fact: str, a: np.ndarray, most: int) -> str:
    """What a call says that is refused, and nothing else."""
    name = str(a.dtype).replace("uint", "u").replace("int", "i")
    compiled = dojoir.compile(dojoir.parse(BOUNDED.format(dtype=name, fact=fact)), "cuda")
    y = on_gpu(driver, np.zeros(len(a), np.float32))
    try:
        compiled(on_gpu(driver, a), y, M=most)
    except dojoir.ArgumentError as error:
        assert not y.numpy().any()
        return str(error)
    assert y.numpy().all()
    return ""


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("fact", KINDS.values())
def test_what_keeps_a_bound_is_not_copied(
    driver: FakeDriver, dtype: str, fact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeviceCompiled, "_contents", None)
    for few in (1 << 15, 2):
        monkeypatch.setattr(data_facts, "FEW", few)
        assert not refused(driver, fact, np.array([[0, 3, 6], [6, 6, 6]], dtype), 6)
        assert not refused(driver, fact, np.array([[5]], dtype), 6)


@pytest.mark.parametrize("few", [1 << 15, 2])
def test_what_breaks_a_bound_is_told(driver: FakeDriver, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_facts, "FEW", few)
    assert "a[1, 2] is 7" in refused(driver, "lengths(M)", np.array([[0, 3, 6], [6, 6, 7]], np.int32), 6)
    assert "a[0, 0] is -1" in refused(driver, "lengths(M)", np.array([[-1]], np.int8), 6)
    assert "a step of 7" in refused(driver, "offsets(M)", np.array([[0, 3, 6], [9, 9, 16]], np.int32), 6)
    assert "0 to -3 above" in refused(driver, "offsets(M - 9)", np.array([[4, 4], [9, 9]], np.int32), 6)
    assert "a step of -1" in refused(driver, "offsets(M)", np.array([[4, 3], [9, 9]], np.uint32), 6)
    asked = [name for name, *_ in driver.launches]
    assert any("beyond" in name for name in asked) and not any("bounded" in name for name in asked)


def test_a_number_is_asked_on_the_cpu(driver: FakeDriver) -> None:
    text = "kernel k(N, M)\nin n: i32 lengths(M)\ninout y: f32[N]\nN : gx\n| 1 : bx\n| | y[{0}] = 1\n"
    compiled, y = dojoir.compile(dojoir.parse(text), "cuda"), on_gpu(driver, np.zeros(3, np.float32))
    with pytest.raises(dojoir.ArgumentError, match="n is 5"):
        compiled(5, y, M=4)
    assert not y.numpy().any()
    compiled(4, y, M=4)
    assert y.numpy().all()


def test_one_of_several_facts_is_told(driver: FakeDriver) -> None:
    assert "are both 3" in refused(driver, "distinct lengths(M)", np.array([[3, 3]]), 6)
    assert "a[0, 1] is 9" in refused(driver, "distinct lengths(M)", np.array([[3, 9]]), 6)
    assert not refused(driver, "distinct lengths(M) offsets(2)", np.array([[3, 5]]), 6)


def test_a_graph_that_would_not_ask_is_refused(driver: FakeDriver) -> None:
    compiled = dojoir.compile(dojoir.parse(BOUNDED.format(dtype="i32", fact="lengths(M)")), "cuda")
    assert isinstance(compiled, DeviceCompiled)
    a, y = on_gpu(driver, np.zeros((2, 2), np.int32)), on_gpu(driver, np.zeros(2, np.float32))
    with pytest.raises(dojoir.ArgumentError, match=r"as declared \(a lengths\(M\)\)"):
        compiled.graph(a, y, M=3)
    assert compiled.prepared({"N": 2, "C": 2, "M": 3}) is None


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("fact", KINDS)
def test_the_kernel_of_a_bound_is_proved_and_counts(fact: str, dtype: str, few: bool) -> None:
    kernel = kernel_of(fact, dtype, 0, few)
    dojoir.prove(kernel)
    compiled = dojoir.compile(kernel, "cuda", emulated=True)
    about = np.iinfo(np.dtype(dtype.replace("u", "uint").replace("i", "int").replace("uintnt", "uint")))
    for row in ([about.min, about.max, 1, 0], [5, about.max, 5, about.min], [0, 1, 5, 9]):
        given = np.array([*row, *row], about.dtype)
        for most in (0, 4, 100, 2**63 - 1):
            values = [*row, *row] if fact == "lengths" else [b - a for _ in (0, 1) for a, b in pairwise(row)]
            expected = sum(not 0 <= value <= most for value in values)
            assert compiled.run({"x": given, "most": most}, C=4)["more"] == expected, (row, most)
