"""Running sums of one row on all cores: the rule of `default_schedule` that makes them sums of blocks."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import dojoir

TEXT = """kernel running(N)
in  x: f32[N]
out y: f32[N]
tmp s: f32

s = 0
N @i
| s += x[{i}]
| y[{i}] = s
"""


def scheduled(text: str, cores: int = 2, **sizes: int) -> dojoir.Trace:
    machine = dataclasses.replace(dojoir.machine_for("avx2"), cores=cores)
    given = dojoir.PASSES["default_schedule"].for_sizes(sizes).for_machine(machine)
    return given.on(dojoir.parse(text))


def test_blocks_of_a_row_are_shared_out() -> None:
    trace = scheduled(TEXT)
    written = dojoir.to_text(trace.kernel)
    assert written.count("\n(N + 4095) // 4096 : p") == 1, "the sums of blocks"
    assert written.count("\nN // 16384 : p") == 1, "and the running sums in them, in four blocks side by side"
    assert written.count(" : p") == 4, "and those that are left, and the last one"
    assert dojoir.certify(trace)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_sums_are_right(threads: int) -> None:
    run = dojoir.compile(scheduled(TEXT).kernel, threads=threads)
    for size in (1, 2, 4095, 4096, 4097, 20000):
        x = np.random.default_rng(size).integers(-3, 4, size).astype(np.float32)
        assert np.array_equal(run.run({"x": x})["y"], np.cumsum(x)), size


def test_rounding_stays_small() -> None:
    x = np.full(1 << 21, 0.1, np.float32)
    exact = np.cumsum(x.astype(np.float64))
    found = dojoir.compile(scheduled(TEXT).kernel).run({"x": x})["y"]
    assert np.abs(found - exact).max() < 1e-5 * exact[-1]


HEAD = "kernel running({sizes})\nin  a: {t}[N]\nin  x: {t}[N]\nin  ok: bool[N]\nout y: {t}[N]\n"
SCALAR = HEAD.replace("{sizes}", "N") + "tmp s: {t}\ns = {begin}\nN\n"
NEXT = HEAD.replace("{sizes}", "N") + "y[0] = x[0]\nN - 1\n| y[{0} + 1] = "


def written(text: str, t: str = "f64", begin: str = "0") -> str:
    return text.replace("{t}", t).replace("{begin}", begin)


KINDS = {
    "sum": written(SCALAR + "| s += x[{0}]\n| y[{0}] = s\n"),
    "product": written(SCALAR + "| s *= x[{0}]\n| y[{0}] = s\n", begin="1"),
    "maximum": written(SCALAR + "| s max= x[{0}]\n| y[{0}] = s\n", begin="-inf"),
    "minimum of integers": written(SCALAR + "| s min= x[{0}]\n| y[{0}] = s\n", "i32", "9"),
    "backwards": written(SCALAR + "| s += x[N - 1 - {0}]\n| y[N - 1 - {0}] = s\n"),
    "before": written(SCALAR + "| y[{0}] = s\n| s += x[{0}]\n", "i32"),
    "under a condition": written(SCALAR + "| s += x[{0}] if ok[{0}]\n| y[{0}] = s\n"),
    "masked": written(SCALAR + "| s += select(ok[{0}], x[{0}], 0)\n| y[{0}] = s\n"),
    "discounted, backwards": written(SCALAR + "| s = x[N - 1 - {0}] + 0.5*s\n| y[N - 1 - {0}] = s\n"),
    "linear": written(SCALAR + "| s = a[{0}]*s + x[{0}]\n| y[{0}] = s\n"),
    "linear, before": written(SCALAR + "| y[{0}] = s\n| s = s*a[{0}] + x[{0}]\n"),
    "the next sum": written(NEXT + "y[{0}] + x[{0} + 1]\n"),
    "the next maximum": written(NEXT + "max(x[{0} + 1], y[{0}])\n"),
    "the next, linear": written(NEXT + "x[{0} + 1] - a[{0} + 1]*y[{0}]\n"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_running_value_is_shared_out(kind: str) -> None:
    text = KINDS[kind]
    trace = scheduled(text)
    assert any("use_rule" in str(move) and "blocked_" in str(move) for move in trace.moves)
    assert dojoir.to_text(trace.kernel).count(" : p") >= 4
    strict = any(move.name == "use_rule" for move in scheduled(text.replace(")\n", ")\nfp strict\n", 1)).moves)
    assert strict == (kind in {"maximum", "minimum of integers", "before"})
    run = dojoir.compile(trace.kernel, threads=2)
    before = dojoir.parse(text)
    for size in (1, 2, 4095, 4096, 4097, 4098, 16384, 16385, 21000):
        random = np.random.default_rng(size)
        integers = "i32" in text
        x = random.integers(-9, 9, size).astype("i4") if integers else random.choice([-1.0, 0.5, 2.0, 1.0], size)
        given = {"a": random.uniform(-1, 1, size).astype(x.dtype), "x": x, "ok": random.random(size) < 0.7}
        old, new = (found["y"] for found in (dojoir.compile(before).run(given), run.run(given)))
        assert np.allclose(old, new, rtol=1e-9, atol=1e-9), size
        assert not integers or np.array_equal(old, new)


def test_kinds_are_certified() -> None:
    for kind in ("the next maximum", "linear, before", "under a condition"):
        assert dojoir.certify(scheduled(KINDS[kind])), kind


def test_few_long_rows_are_shared_out_each() -> None:
    text = "kernel f(N, M)\nin  x: f32[N, M]\nout y: f32[N, M]\nN\n| y[{0}, 0] = x[{0}, 0]\n"
    text += "| M - 1\n| | y[{0}, {1} + 1] = y[{0}, {1}] + x[{0}, {1} + 1]\n"
    few = scheduled(text, N=1, M=1 << 20)
    assert any("blocked_scan" in str(move) for move in few.moves)
    assert not any("blocked_scan" in str(move) for move in scheduled(text, N=100, M=1 << 20).moves)
    run = dojoir.compile(few.kernel, threads=2)
    for shape in ((1, 1), (3, 9000), (2, 40000)):
        x = np.random.default_rng(1).integers(-3, 4, shape).astype(np.float32)
        assert np.array_equal(run.run({"x": x})["y"], np.cumsum(x, axis=1))


@pytest.mark.parametrize(
    ("text", "cores", "sizes"),
    [
        (TEXT, 1, {}),  # nobody to share it with
        (TEXT, 2, {"N": 1000}),  # too little
        (TEXT.replace("kernel running(N)", "kernel running(N)\nfp strict"), 2, {}),  # in this order
        (TEXT.replace("y[{i}] = s", "y[{i}] = 2 * s"), 2, {}),
    ],
)
def test_what_stays_in_one_piece(text: str, cores: int, sizes: dict[str, int]) -> None:
    assert not any(move.name == "use_rule" for move in scheduled(text, cores, **sizes).moves)
