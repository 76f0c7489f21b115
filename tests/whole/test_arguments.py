"""Every public call with arguments that are wrong: the DojoError family comes out, and says what is wrong."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Annotated

import hostile
import numpy as np
import pytest
from hostile_values import JUNK, PAIR, Raises
from listed import public_values

import dojoir
from dojoir.runtime import PythonCode
from dojoir.support.cache import Cache, content_key
from dojoir.support.public import Count, Within, public, unresolved


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong argument may be a right name of a file."""
    monkeypatch.chdir(tmp_path)


def test_every_parameter_has_a_right_value_here() -> None:
    assert hostile.unknown_parameters() == []


@pytest.mark.parametrize("parameter", hostile.RIGHT)
def test_the_right_value_can_be_made(parameter: str) -> None:
    try:
        hostile.RIGHT[parameter]()
    except ModuleNotFoundError as error:
        pytest.skip(f"needs the extra {error.name}")


def test_every_annotation_can_be_looked_up() -> None:
    walled = [s for s in hostile.surfaces() if hasattr(s.get(), "__wrapped__")]
    assert len(walled) > 60
    assert {s.name: unresolved(s.get()) for s in walled if unresolved(s.get())} == {}


OWN_CHECKS = {"thread_count", "write_file", "public", "clear_caches", "processor"}
"""Functions that take nothing, or look at what they are given themselves."""


def test_every_public_function_has_the_wall() -> None:
    functions = public_values()
    bare = {n for n, f in functions.items() if inspect.isfunction(f) and not hasattr(f, "__wrapped__")}
    assert bare == OWN_CHECKS


@pytest.mark.parametrize("block", range(6))
def test_only_dojo_errors_come_out(block: int) -> None:
    random = Random(f"arguments {block}")
    for _ in range(60):
        call = hostile.draw(random, slow=0.0)
        wrong = call.run()
        assert wrong is None, f"{call}: {wrong}"


@pytest.mark.parametrize("name", sorted(hostile.SLOW))
@pytest.mark.parametrize("junk", ["Raises", "surrogate", "{N: Indexes}", "count", "nan"])
def test_what_takes_long_refuses_soon(name: str, junk: str) -> None:
    (surface,) = (s for s in hostile.surfaces() if s.name == name)
    first = next(iter(surface.signature.parameters))
    if name not in ("ceilings", "doctor"):
        assert hostile.Call(surface, ((first, junk),)).run() is None


@pytest.mark.parametrize("content", [b"\xff\xfe", b"# kernel: pair\n\x80"])
def test_a_schedule_that_is_no_text_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pair.moves").write_bytes(content)
    with pytest.raises(dojoir.ArgumentError, match="is not UTF-8 text"):
        dojoir.optimize(dojoir.parse(PAIR), folders=[tmp_path])


def test_a_seed_below_0_is_told() -> None:
    kernel = dojoir.parse(PAIR)
    for call in (
        lambda: dojoir.testing.random_inputs(kernel, N=4, seed=-1),
        lambda: dojoir.verify(kernel, seeds=(-3,)),
    ):
        with pytest.raises(dojoir.ArgumentError, match="a seed is a whole number from 0"):
            call()


def test_numbers_of_any_length_are_told() -> None:
    huge = 10**5000
    for call in (lambda: dojoir.parse(PAIR).specialize(N=huge), lambda: dojoir.build.kernel("k", S=huge)):
        with pytest.raises(dojoir.DojoError):
            call()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_device_without_an_end_is_told() -> None:
    for read in (dojoir.load, dojoir.Trace.load):
        with pytest.raises(dojoir.ArgumentError, match="more than"):
            read("/dev/full")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dojoir.emit("relu"), "emit: kernel is a Kernel or a Trace, not 'relu'; a text"),
        (
            lambda: dojoir.compile(dojoir.parse(PAIR), threads="4"),
            "compile: threads is an integer or None, not '4'",
        ),
        (lambda: dojoir.verify(dojoir.parse(PAIR), seeds=0.5), "verify: seeds is an integer or a list or tuple of"),
        (lambda: dojoir.write_library(dojoir.parse(PAIR), "x"), "kernels is a list or tuple of"),
        (lambda: dojoir.measure(dojoir.parse(PAIR), N="8"), "measure: N is an integer, not '8'"),
        (
            lambda: dojoir.optimize(dojoir.parse(PAIR), sizes={"N": None}),
            "sizes is a dict of texts to integers or None",
        ),
    ],
)
def test_the_words(call: object, words: str) -> None:
    assert callable(call)
    with pytest.raises(dojoir.ArgumentError) as error:
        call()
    assert words in str(error.value)
    assert error.value.diagnostic.code in ("bad-arguments", "not-a-kernel", "not-a-trace")


KERNELS_WANTED = {
    "emit": lambda: dojoir.emit(3),
    "measure": lambda: dojoir.measure(None),
    "baseline": lambda: dojoir.measure(dojoir.parse(PAIR), baseline=3, N=4),
    "measure_together": lambda: dojoir.measure_together([dojoir.parse(PAIR), 3], N=4),
    "measure_together, none": lambda: dojoir.measure_together(3, N=4),
    "chain": lambda: dojoir.chain("x", dojoir.parse(PAIR), 3),
    "against": lambda: dojoir.verify(dojoir.parse(PAIR), against=3),
    "Compiled": lambda: dojoir.Compiled("relu", "llvm", 1, "", 1, None),
}


@pytest.mark.parametrize("call", KERNELS_WANTED.values(), ids=KERNELS_WANTED)
def test_what_is_no_kernel_has_one_code(call: Callable[[], object]) -> None:
    """Codes are stable: the wall gives the one that the function gave before there was a wall."""
    with pytest.raises(dojoir.ArgumentError) as error:
        call()
    assert error.value.diagnostic.code == "not-a-kernel", str(error.value)


@pytest.mark.parametrize("block", range(4))
def test_constructors_refuse_what_does_not_fit(block: int) -> None:
    calls = [c for c in hostile.every(slow=False) if c.surface.name in MADE_BY_USERS]
    for call in Random(f"constructors {block}").sample(calls, 200):
        wrong = call.run()
        assert wrong is None, f"{call}: {wrong}"


MADE_BY_USERS = {"Compiled", "Machine", "PythonCode", "Pass", "DojoError", "Diagnostic", "Trace", "Kernel"}


@pytest.mark.parametrize("junk", ["2**64", "minus", "zero", "10**5000", "nan", "None", "empty"])
def test_an_address_that_is_none_is_told(junk: str) -> None:
    with pytest.raises(dojoir.ArgumentError, match="address"):
        dojoir.Compiled(dojoir.parse(PAIR), "llvm", 1, "", JUNK[junk](), None)


@pytest.mark.parametrize("field", ["vector_bytes", "registers", "cores", "line", "warp", "caches", "kind", "masks"])
def test_a_machine_is_one_that_can_be(field: str) -> None:
    for junk in ("2**64", "2**63", "minus", "10**5000", "nan", "inf", "None", "Raises", "Indexes", "[nan]", "[-1]"):
        with pytest.raises(dojoir.ArgumentError, match=field):
            dojoir.Machine("m", **{field: JUNK[junk]()})


@pytest.mark.parametrize("code", [("1 +",), ("x", "("), ("a\0b",), ("x", "1 / 0"), ("x", "import nothing_here")])
def test_python_code_that_does_not_run_is_told(code: tuple[str, ...]) -> None:
    with pytest.raises(dojoir.ArgumentError) as error:
        PythonCode(*code).bind({"x": 1})
    assert error.value.diagnostic.code == "bad-code"


@pytest.mark.parametrize("run", [lambda: None, lambda trace, n: None])
def test_a_pass_that_takes_no_trace_is_told(run: Callable[..., None]) -> None:
    made = dojoir.Pass("mine", run, ("x", "y"))
    with pytest.raises(dojoir.ArgumentError, match="mine"):
        made.on(dojoir.parse(PAIR))


def test_plain_values_pass_as_what_they_are() -> None:
    np = pytest.importorskip("numpy")
    kernel = dojoir.parse(PAIR)
    assert dojoir.compile(kernel, threads=np.int64(1)).threads == 1
    assert kernel.specialize(N=np.int32(4)).sizes[0].value == 4
    k = dojoir.build.kernel("k")
    k.input("x", "f32", (4, 4))
    y = k.output("y", "f32", [4])
    with k.scope(4) as i:
        y[i] = 1
    assert "x: f32[4, 4]" in dojoir.to_text(k.kernel)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs /dev/zero")
def test_a_cache_entry_without_an_end_is_none(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=1 << 16)
    key = content_key("x")
    assert cache.put(key, b"code") and cache.get(key) == b"code"
    (entry,) = (path for path in tmp_path.rglob("*") if path.is_file())
    entry.unlink()
    entry.symlink_to("/dev/zero")
    assert cache.get(key) is None


def test_what_cannot_be_shown_is_told_by_its_type() -> None:
    relu, wrong = dojoir.kernels.load("relu"), Raises()
    for call in (
        lambda: dojoir.kernels.load("relu", N=wrong),
        lambda: dojoir.moves(relu, values=wrong),
        lambda: dojoir.moves(relu, seconds=wrong),
        lambda: dojoir.interpret(relu, {}, precision=wrong),
    ):
        with pytest.raises(dojoir.ArgumentError, match="<Raises>"):
            call()


def test_what_is_called_but_has_no_name_is_held_to_its_annotations() -> None:
    class Doubled:
        def __call__(self, x: int) -> int:
            return 2 * x

    doubled = public(Doubled())
    assert doubled(21) == 42
    with pytest.raises(dojoir.ArgumentError, match="Doubled: x is an integer"):
        doubled("a")  # type: ignore[arg-type]


@public
def bounded(
    n: Annotated[int, Within(4, 7)], x: Annotated[float, Within(0, 1, above=True)] = 1.0, m: Count = 1
) -> object:
    return n, x, m


def test_numbers_are_within_the_bounds_of_their_annotations() -> None:
    assert bounded(np.int32(4), 1) == (4, 1.0, 1)
    for given in (True, 4.0, "4", None, 3, 8):
        with pytest.raises(dojoir.ArgumentError, match=r"n is a whole number from 4 to 7, not"):
            bounded(given)  # type: ignore[arg-type]
    for wrong in (float("inf"), float("nan"), "1", None, True, 10**400, 2, 0):
        with pytest.raises(dojoir.ArgumentError, match=r"x is a number above 0 to 1, not"):
            bounded(4, wrong)  # type: ignore[arg-type]
    with pytest.raises(dojoir.ArgumentError, match=r"m is a whole number from 1, not 0"):
        bounded(4, m=0)
