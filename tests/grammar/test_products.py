"""Products of sizes: arrays, indices and scopes of them are taken apart where a text is read, exactly."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pytest
from able import can_run

import dojoir
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel


def parsed(header: str, body: str, sizes: str = "N, C") -> dojoir.Kernel:
    kernel = dojoir.parse(f"kernel k({sizes})\n{header}\n\n{body}")
    assert dojoir.parse(dojoir.to_text(kernel)) == kernel
    assert dojoir.parse(dojoir.to_text(kernel, names=True)) == kernel
    return kernel


def body_of(kernel: dojoir.Kernel) -> str:
    return dojoir.to_text(kernel).split("\n\n")[1]


@pytest.mark.parametrize(
    ("index", "apart"),
    [
        ("C*{0} + {1}", "{0}, {1}"),
        ("{1} + {0}*C", "{0}, {1}"),
        ("({0} + 1)*C - C + {1}", "{0}, {1}"),
        ("C*{0} + C - 1 - {1}", "{0}, C - {1} - 1"),
        ("N*C - 1 - (C*{0} + {1})", "N - {0} - 1, C - {1} - 1"),
        ("C*({0} // 2) + {1} % 3 + min({1}, 1)*0", "{0} // 2, {1} % 3"),
        ("C*{0}", "{0}, 0"),
        ("{1}", "0, {1}"),
        ("C*max({0} - 1, 0) + min({1} + 1, C - 1)", "max({0} - 1, 0), min({1} + 1, C - 1)"),
        ("{0}, {1}", "{0}, {1}"),
    ],
)
def test_an_index_is_divided(index: str, apart: str) -> None:
    where = "where C >= 3\n"
    kernel = parsed(f"{where}in  x: f32[N*C]\nout y: f32[N, C]", f"N\n| C\n| | y[{{0}}, {{1}}] = x[{index}]\n")
    assert body_of(kernel) == f"N\n| C\n| | y[{{0}}, {{1}}] = x[{apart}]\n"
    assert kernel.buffer("x").flat == (2,)
    dojoir.prove(kernel)


def test_several_factors_other_dimensions_and_their_order() -> None:
    text = "A\n| B\n| | C\n| | | y[({2}*B + {1})*A + {0}] = x[{0}, C*{1} + {2}]\n"
    kernel = parsed("in  x: f32[A, B*C]\nout y: f32[A*B*C]", text, "A, B, C")
    assert "in  x: f32[A, B, C] flat(1, 2)\nout y: f32[C, B, A] flat(3)\n" in dojoir.to_text(kernel)
    assert "y[{2}, {1}, {0}] = x[{0}, {1}, {2}]" in dojoir.to_text(kernel)
    dojoir.prove(kernel)
    part = parsed("in  x: f32[(N + 1)*C]\nout y: f32[N*C]", "N\n| C\n| | y[C*{0} + {1}] = x[C*({0} + 1) + {1}]\n")
    assert "x: f32[N + 1, C] flat(2)" in str(part) and "x[{0} + 1, {1}]" in str(part)
    fixed = parsed("in  x: f32[N*C]\nout y: f32[N*C]", "N\n| C\n| | y[C*{0} + {1}] = x[C*{0} + {1}]\n", "N, C = 4")
    assert "f32[4*N]" in str(fixed) and fixed.buffer("x").flat is None
    inner = parsed("in  x: f32[N, C]\nout y: f32[N]\ntmp t: f32[N*C]",
                   "N\n| C\n| | t[C*{0} + {1}] = x[{0}, {1}]\n| y[{0}] = t[C*{0}]\n")  # fmt: skip
    assert "tmp t: f32[N, C]\n" in str(inner)


def test_a_scope_of_a_product_is_one_of_each_factor() -> None:
    kernel = parsed(
        "in  x: f32[N, C]\nin  b: f32[C]\nout y: f32[N*C]\nout z: f32[N]",
        "N*C @f\n| y[{f}] = x[{f} // C, {f} % C] + b[{0} % C]\nN @i\n| z[{i}] = b[0]\n",
    )
    want = "N @f\n| C\n| | y[{0}, {1}] = x[{0}, {1}] + b[{1}]\nN @i\n| z[{0}] = b[0]\n"
    assert body_of(kernel) == want
    around = parsed(
        "in  x: f32[M, N*C]\nout y: f32[M, N*C, 3]",
        "M @m\n| N*C @f\n| | 3 @t\n| | | y[{0}, {1}, {2}] = x[{m}, {f}]\n",
        "M, N, C",
    )
    assert "| | | | y[{0}, {1}, {2}, {3}] = x[{0}, {1}, {2}]\n" in dojoir.to_text(around)


@pytest.mark.parametrize(
    ("header", "body", "message"),
    [
        ("in  x: f32[N*C]\nout y: f32[N]", "N\n| y[{0}] = x[{0}*{0}]\n", "declare x with the dimensions [N, C]"),
        ("in  x: i32[N*C]\nout y: i32[N]", "N\n| y[{0}] = x[x[0]]\n", "cannot be divided into C*(…) + (…)"),
        ("out y: f32[N*C]", "N*C\n| y[{0}] = f32({0})\n", "stands only in indices"),
        ("out y: f32[N*C]", "N*C : p\n| y[{0}] = 1\n", "a scope for each factor, N and inside it C"),
        ("in  x: f32[N]\nout y: f32[N]", "N\n| y[{0}] = x[C*{0}]\n", "a dimension for each factor"),
        ("in  x: f32[N]\nout y: f32[N]", "N\n| N\n| | y[{0}] = x[({0}*{1}) % N]\n", "multiplies two unknowns"),
        ("out y: f32[N]\ntmp t: f32[N*C~]", "N\n| y[{0}] = 1\n", "this multiplies two"),
    ],
)
def test_what_cannot_be_taken_apart_is_refused_with_what_to_write(header: str, body: str, message: str) -> None:
    with pytest.raises(dojoir.KernelError) as caught:
        parsed(header, body)
    assert caught.value.diagnostic.code == "not-affine"
    assert message in str(caught.value)


@pytest.mark.parametrize("index", ["C*{0} + {1} + 1", "C*{0} + 2*{1}", "C*{1} + {0}", "C*{0} + C + {1}"])
def test_an_index_that_runs_into_the_next_row_is_out_of_bounds(index: str) -> None:
    """It may be another element of the array: the dimensions do not say so, and it is not taken for right."""
    kernel = parsed("in  x: f32[N*C]\nout y: f32[N, C]", f"N\n| C\n| | y[{{0}}, {{1}}] = x[{index}]\n")
    if "x[{1}, {0}]" in dojoir.to_text(kernel):
        return  # then the factors are in that order, which was proved to be the same
    with pytest.raises(dojoir.KernelError) as caught:
        dojoir.prove(kernel)
    assert caught.value.diagnostic.code == "out-of-bounds"


def _flat_text(kernel: Kernel) -> str | None:
    """The text of a kernel with its arguments of open sizes as products, and its indices multiplied out."""
    text = dojoir.to_text(kernel)
    for buffer in kernel.buffers:
        sizes = [dim.extent for dim in buffer.dims]
        if len(sizes) < 2 or any(len(e.terms) != 1 or e != Affine.atom(e.terms[0][0]) for e in sizes):
            continue
        old = f"[{', '.join(map(str, sizes))}]"
        text = text.replace(
            f" {buffer.name}: {buffer.dtype}{old}", f" {buffer.name}: {buffer.dtype}[{'*'.join(map(str, sizes))}]"
        )
        for site in kernel.sites:
            for access in site.statement.accesses:
                if access.buffer == buffer.name and all(isinstance(i, Affine) for i in access.indices):
                    flat = ""
                    for size, index in zip(sizes, access.indices, strict=True):
                        flat = f"({flat})*{size} + ({index})" if flat else str(index)
                    text = text.replace(
                        f"{buffer.name}[{', '.join(map(str, access.indices))}]", f"{buffer.name}[{flat}]"
                    )
    return text if text != dojoir.to_text(kernel) else None


def test_random_kernels_multiplied_out_are_read_as_they_were() -> None:
    """Rectangles of open sizes, indices of every form that stays in bounds."""
    random, seen = Random(5), 0
    rows = ("{0}", "N - 1 - {0}", "{0} // 2", "0", "N - 1", "min({0} + 1, N - 1)", "max({0} - 2, 0)")
    columns = ("{1}", "C - 1 - {1}", "{1} // 3", "{1} % 2*0", "C - 1", "0", "max({1} - 1, 0)")
    for _ in range(60):
        one, other = random.choice(rows), random.choice(rows)
        a, b = random.choice(columns), random.choice(columns)
        body = f"N\n| C\n| | y[{{0}}, {{1}}] = x[{one}, {a}] + 2 * x[{other}, {b}]\n"
        kernel = dojoir.parse(f"kernel k(N, C)\nin  x: f32[N, C]\nout y: f32[N, C]\n\n{body}")
        dojoir.prove(kernel)
        text = _flat_text(kernel)
        assert text is not None and "*C" in text
        again = dojoir.parse(text)
        assert re.sub(r" flat\(2\)", "", str(again)) == dojoir.to_text(kernel), text
        seen += 1
    assert seen == 60


# -- calls -------------------------------------------------------------------------------------------------
ROWS = """kernel rows(N, C)
in  x: f32[N*C]
in  b: f32[C]
out y: f32[N*C]

N*C @f
| y[{f}] = x[{f}] + b[{f} % C]
"""


@pytest.mark.parametrize("target", ["llvm", "c", "avx2", "avx512"])
def test_a_call_takes_and_gives_flat_arrays(target: str) -> None:
    if not can_run(target):
        pytest.skip(f"no {target} here")
    kernel = dojoir.parse(ROWS)
    x, b = np.arange(12, dtype=np.float32), np.arange(4, dtype=np.float32)
    want = (x.reshape(3, 4) + b).ravel()
    compiled = dojoir.compile(kernel, target)
    assert np.array_equal(dojoir.interpret(kernel, {"x": x, "b": b})["y"], want)
    assert np.array_equal(compiled.run({"x": x, "b": b})["y"], want)
    assert np.array_equal(compiled.run({"x": x.reshape(3, 4), "b": b})["y"], want)
    y = np.empty(12, np.float32)
    for _ in range(20):  # also by the quick way of later calls
        y[:] = 0
        compiled(x, b, y)
        assert np.array_equal(y, want)
    bound = compiled.bind(x, b, y.reshape(3, 4))
    y[:] = 0
    bound()
    assert np.array_equal(y, want)
    assert compiled.empty("y", N=3, C=4).shape == (12,)


def test_what_does_not_fit_is_told_before_the_call() -> None:
    kernel = dojoir.parse(ROWS)
    compiled, b = dojoir.compile(kernel), np.zeros(4, np.float32)
    for x, code in (
        (np.zeros(13, np.float32), "size-conflict"),
        (np.zeros((3, 5), np.float32), "size-conflict"),
        (np.zeros((3, 4, 1), np.float32), "bad-rank"),
        (np.zeros(24, np.float32)[::2], "bad-stride"),
        (np.zeros(12, np.float64), "bad-dtype"),
    ):
        with pytest.raises(dojoir.ArgumentError) as caught:
            compiled.run({"x": x, "b": b})
        assert caught.value.diagnostic.code == code, x.shape
    open_sizes = dojoir.parse("kernel k(N, C)\nin  x: f32[N*C]\nout y: f32\n\ny = 0\nN*C\n| y += x[{0}]\n")
    x = np.ones(12, np.float32)
    with pytest.raises(dojoir.ArgumentError, match="pass N=…"):
        dojoir.compile(open_sizes).run({"x": x})
    assert dojoir.compile(open_sizes).run({"x": x}, C=3)["y"] == 12
    assert dojoir.interpret(open_sizes, {"x": x}, N=6)["y"] == 12


def test_tensors_and_verification() -> None:
    torch = pytest.importorskip("torch")
    kernel = dojoir.parse(ROWS)
    x, b = torch.arange(12, dtype=torch.float32), torch.arange(4, dtype=torch.float32)
    found = dojoir.compile(kernel).run({"x": x, "b": b})["y"]
    assert found.shape == (12,)
    assert torch.equal(found, (x.reshape(3, 4) + b).flatten())
    assert dojoir.verify(kernel)


def test_flat_is_an_attribute_of_arguments() -> None:
    head = "kernel k(N, C)\nin  x: f32[N, C]{}\nout y: f32\n\ny = x[0, 0]\n"
    assert dojoir.parse(head.format(" flat(2)")).buffer("x").flat == (2,)
    assert dojoir.parse(head.format(" flat(1, 1)")) == dojoir.parse(head.format(""))
    for attribute in (
        " flat",
        " flat(3)",
        " flat(2, 0)",
        " flat(2) strided",
        " flat(2) order(1, 0)",
        " flat(2) pad(0, 1)",
    ):
        with pytest.raises(dojoir.KernelError) as caught:
            dojoir.parse(head.format(attribute))
        assert caught.value.diagnostic.code == "bad-attribute", attribute


def test_the_text_is_scheduled_and_certified() -> None:
    trace = dojoir.optimize(dojoir.parse(ROWS))
    assert any(move.name == "vectorize" for move in trace.moves)
    assert dojoir.certify(trace)
    by_hand = dojoir.Trace(dojoir.parse(ROWS))
    for move in ("split(0.0, 8)", "swap_scopes(0)"):
        by_hand.apply(move)
    assert dojoir.certify(by_hand)
