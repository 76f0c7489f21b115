"""Kernels joined into one: what becomes of names, sizes, roles and facts, and what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

import dojoir
from dojoir.ir.nodes import Kernel


def kernel(header: str, body: str = "", name: str = "k") -> Kernel:
    return dojoir.parse(f"kernel {name}{header}{body}")


SCALE = kernel(
    "(N)\nin  x: f32[N]\nout y: f32[N]\ntmp t: f32[N]\n", "N @i\n| t[{0}] = 2 * x[{0}]\nN\n| y[{0}] = t[{0}]\n"
)
SHIFT = kernel(
    "(N)\nin  y: f32[N]\nout z: f32[N]\ntmp t: f32[N]\n", "N @i\n| t[{0}] = y[{0}] + 1\nN\n| z[{0}] = t[{0}]\n"
)


def roles(k: Kernel) -> dict[str, str]:
    return {buffer.name: buffer.role for buffer in k.buffers}


def test_an_output_that_is_read_becomes_a_temporary() -> None:
    both = dojoir.chain(SCALE, SHIFT)
    dojoir.prove(both)
    assert both.name == "k_k"
    assert roles(both) == {"x": "in", "y": "tmp", "t": "tmp", "z": "out", "t2": "tmp"}
    assert both.path("@i") == (0,)
    assert both.path("@i2") == (2,)
    x = np.array([1, 2, 3], np.float32)
    assert dojoir.interpret(both, {"x": x})["z"].tolist() == [3, 5, 7]


def test_it_is_kept_where_that_is_asked_for() -> None:
    both = dojoir.chain(SCALE, SHIFT, keep=("y",), name="both")
    assert both.name == "both"
    assert roles(both)["y"] == "out"
    got = dojoir.interpret(both, {"x": np.ones(2, np.float32)})
    assert (got["y"].tolist(), got["z"].tolist()) == ([2, 2], [3, 3])


def test_a_third_kernel_reads_what_the_second_read() -> None:
    add = kernel("(N)\nin y: f32[N]\nin z: f32[N]\nout w: f32[N]\n", "N\n| w[{0}] = y[{0}] + z[{0}]\n")
    three = dojoir.chain(SCALE, SHIFT, add)
    dojoir.prove(three)
    assert {name for name, role in roles(three).items() if role == "tmp"} == {"y", "z", "t", "t2"}


def test_what_is_updated_in_place_is_returned() -> None:
    update = kernel("(N)\ninout y: f32[N]\n", "N\n| y[{0}] += 1\n")
    assert roles(dojoir.chain(SCALE, update))["y"] == "out"
    assert roles(dojoir.chain(SCALE, update, SHIFT))["y"] == "tmp"
    assert roles(dojoir.chain(SHIFT, update))["y"] == "inout"
    assert roles(dojoir.chain(update, SHIFT))["y"] == "inout"


def test_names_are_exchanged_all_at_once() -> None:
    k = kernel(
        "(N, M)\nin x: f32[N, M]\nout y: f32[M, N]\n", "M\n| N : prefetch(x, 2)\n| | y[{0}, {1}] = x[{1}, {0}]\n"
    )
    twice = dojoir.chain(k, k, rename={"x": "y", "y": "z", "N": "M", "M": "N"})
    dojoir.prove(twice)
    assert [str(size.name) for size in twice.sizes] == ["N", "M"]
    assert str(twice).endswith("N\n| M : prefetch(y, 2)\n| | z[{0}, {1}] = y[{1}, {0}]\n")


def test_sizes_facts_and_modes_are_united() -> None:
    body = "M\n| y[{0}] = x[{0}]\n"
    first = kernel("(N, M)\nwhere N % 8 == 0, N == M\nfp fast\nin x: f32[N]\nout y: f32[M]\n", body)
    second = kernel("(N = 16)\nwhere N % 8 == 0\nin y: f32[N]\nout z: f32[N]\n", "N\n| z[{0}] = y[{0}]\n")
    both = dojoir.chain(first, second)
    dojoir.prove(both)
    assert both.fp == "reassoc"
    assert [(size.name, size.value) for size in both.sizes] == [("N", 16), ("M", None)]
    assert str(both).splitlines()[1] == "where 16 == M"
    strict = kernel("(N)\nfp strict\nin a: f32[N]\nout b: f32[N]\n", "N\n| b[{0}] = a[{0}]\n")
    assert dojoir.chain(strict, first).fp == "strict"


@pytest.mark.parametrize(
    ("header", "code", "message"),
    [
        ("(N)\nin y: f64[N]\nout z: f64[N]\n", "different-types", "f64 is not f32"),
        ("(N)\nin y: f32[N, N]\nout z: f32[N]\n", "different-ranks", "2 dimensions are not 1"),
        ("(M)\nin y: f32[M]\nout z: f32[M]\n", "different-extents", "rename={'M': 'N'} makes them one size"),
        ("(N)\nin y: f32[N + 1]\nout z: f32[N]\n", "different-extents", "N + 1 is not N in dimension 0"),
        ("(N)\nin y: f32[N] align 64\nout z: f32[N]\n", "different-layouts", "their layouts differ"),
        ("(N)\nin q: f32[N]\nout y: f32[N]\nout z: f32[N]\n", "overwritten-argument", "rename={'y': …}"),
        ("(N)\nin y: f32[N]\nout x: f32[N]\nout z: f32[N]\n", "overwritten-argument", "`x` anew"),
    ],
)
def test_declarations_that_do_not_fit_are_both_named(header: str, code: str, message: str) -> None:
    writes = [line.split()[1].rstrip(":") for line in header.splitlines() if line.startswith("out")]
    size = header[1]
    body = f"{size}\n" + "".join(f"| {name}[{{0}}] = 0\n" for name in writes)
    other = dojoir.parse(f"kernel other{header}{body}", "other.dojo")
    with pytest.raises(dojoir.ArgumentError) as caught:
        dojoir.chain(SCALE, other)
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == code
    assert message in diagnostic.message
    assert diagnostic.span is not None
    assert diagnostic.source is not None
    assert diagnostic.source.name == "other.dojo"
    assert "is declared at" in diagnostic.notes[0].message


def test_other_errors() -> None:
    fixed = kernel("(N = 4)\nin y: f32[N]\nout z: f32[N]\n", "N\n| z[{0}] = y[{0}]\n")
    five = kernel("(N = 5)\nin z: f32[N]\nout w: f32[N]\n", "N\n| w[{0}] = z[{0}]\n")
    named = kernel("(y)\nin z: f32[y]\nout w: f32[y]\n", "y\n| w[{0}] = z[{0}]\n")
    for kernels, given, code in (
        ((), {}, "nothing-to-chain"),
        ((SCALE, fixed, five), {}, "different-sizes"),
        ((SCALE, SHIFT, named), {}, "name-clash"),
        ((SCALE, SHIFT), {"rename": {"Q": "M"}}, "unknown-name"),
        ((SCALE, SHIFT), {"rename": {"z": "exp"}}, "bad-name"),
        ((SCALE, SHIFT), {"rename": {"z": "t"}}, "name-clash"),
        ((SCALE, SHIFT), {"keep": ("t",)}, "unknown-name"),
    ):
        with pytest.raises(dojoir.ArgumentError) as caught:
            dojoir.chain(*kernels, **given)
        assert caught.value.diagnostic.code == code


def test_library_kernels_one_after_the_other() -> None:
    both = dojoir.chain(dojoir.kernels.load("matmul"), dojoir.kernels.load("softmax"), rename={"x": "c"})
    report = dojoir.verify(both, sizes={"N": 3, "M": 5, "K": 4}, seeds=(0,), distributions=("normal",))
    assert report.ok, str(report)
