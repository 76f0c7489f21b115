"""Costs: the library's formulas, and every number held to a count of a run, one instance at a time."""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import islice
from random import Random

import pytest
from enumeration import all_sizes, elements, instances, reads
from hypothesis import HealthCheck, given, settings
from strategies import drawn_kernels

import dojoir
from dojoir import ArgumentError, kernels
from dojoir.costs.cost import Cost, cost
from dojoir.costs.formulas import formula_text
from dojoir.ir.nodes import Access, Cast, Expr, Kernel, Op, holds
from dojoir.ir.operations import ACCUMULATIONS, ELEMENTARY

COUNTED = {"add", "sub", "mul", "div", "sqrt", "fma", *ELEMENTARY}


def operations(expr: Expr) -> Iterator[str]:
    match expr:
        case Op("when", (_, value)):  # what decides whether it runs counts nowhere
            yield from operations(value)
        case Op(name, args):
            yield name
            for arg in args:
                yield from operations(arg)
        case Cast(_, arg):
            yield from operations(arg)


def gathers(access: Access) -> bool:
    return any(isinstance(index, Access) for index in access.indices)


def hold_to_a_run(kernel: Kernel, found: Cost, sizes: Mapping[str, int]) -> None:
    """Every number is that of a run; what is gathered is no more than what is counted."""
    performed, runs, accessed = Tally[str](), 0, 0
    touched: dict[str, set[tuple[str, tuple[int, ...]]]] = {"read": set(), "written": set()}
    gathered = 0
    for number, at in instances(kernel, sizes):
        site = kernel.sites[number]
        statement = site.statement
        runs += 1
        performed.update(operations(statement.value))
        moved = [statement.target, *reads(site)]
        got = [access for access in reads(site) if not gathers(access)]
        gathered += sum(gathers(a) for a in reads(site))
        if statement.op in ACCUMULATIONS:
            performed[ACCUMULATIONS[statement.op]] += 1
            moved.append(statement.target)
            got.append(statement.target)
        accessed += sum(kernel.buffer(access.buffer).dtype.itemsize for access in moved)
        for access in got:
            touched["read"].update(elements(kernel, access, sizes, at))
        touched["written"].update(elements(kernel, statement.target, sizes, at))

    def size(kind: str, *roles: str) -> int:
        buffers = (kernel.buffer(name) for name, _ in touched[kind])
        return sum(b.dtype.itemsize for b in buffers if b.role in roles and (b.dims or b.role != "in"))

    counts = found.at(**sizes)
    assert counts.instances == runs
    assert counts.accessed == accessed
    assert counts.written == size("written", "out", "inout")
    if not found.bounded:
        assert counts.read == size("read", "in", "inout")
    else:
        assert size("read", "in", "inout") <= counts.read <= size("read", "in", "inout") + 8 * gathered
    fused = found.floats["fma"](sizes) if "fma" in found.floats else 0
    assert counts.flops - fused + counts.integer + counts.other == sum(performed.values())
    for name, amount in found.floats.items():
        assert amount(sizes) <= performed[name]
    if not counts.integer:
        assert counts.flops == sum(2 if name == "fma" else 1 for name in performed.elements() if name in COUNTED)


def small_sizes(kernel: Kernel, most: int, cases: int) -> list[dict[str, int]]:
    """Some sizes up to `most` that the facts of a kernel allow, the smallest of them included."""
    largest = most if len(kernel.runtime_sizes) < 6 else 3
    found = list(islice(all_sizes(kernel, largest), 4000))
    return [found[0], *Random(0).sample(found, min(cases, len(found)))]


@pytest.mark.parametrize("name", kernels.names())
def test_library_is_held_to_runs(name: str) -> None:
    kernel = kernels.load(name)
    found = cost(kernel)
    for sizes in small_sizes(kernel, 5, 8):
        hold_to_a_run(kernel, found, sizes)


@pytest.mark.parametrize(("stride", "pad", "dilation"), [(1, 1, 1), (2, 1, 2), (3, 2, 1)])
def test_padded_convolution_is_held_to_runs(stride: int, pad: int, dilation: int) -> None:
    source = kernels.load("conv2d").source
    assert source is not None
    text = source.text.replace("stride = 1", f"stride = {stride}").replace("pad = 0", f"pad = {pad}")
    kernel = dojoir.parse(text.replace("dilation = 1", f"dilation = {dilation}"))
    found = cost(kernel)
    one = {"N": 1, "C": 1, "O": 1}
    for h, w, kh, kw in ((1, 1, 1, 1), (2, 5, 1, 2), (4, 3, 3, 2), (7, 4, 2, 3), (5, 6, 3, 3)):
        sizes = {**one, "H": h, "W": w, "KH": kh, "KW": kw}
        if all(holds(fact, sizes, ()) for fact in kernel.facts):
            hold_to_a_run(kernel, found, sizes)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn_kernels("tight"))
def test_loose_kernels_are_held_to_runs(kernel: Kernel) -> None:
    found = cost(kernel)
    for sizes in islice(all_sizes(kernel, 4), 0, None, 3):
        hold_to_a_run(kernel, found, sizes)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn_kernels("any"))
def test_any_kernel_has_a_cost(kernel: Kernel) -> None:
    found = cost(kernel)
    assert {"flops", "bytes", "instances"} <= found.to_json().keys()
    assert "flops" in str(found)


def evaluated(text: str, sizes: Mapping[str, int]) -> Fraction:
    """The value of a formula, exactly."""
    value = eval(text, {}, {name: Fraction(size) for name, size in sizes.items()})
    return Fraction(value)


@pytest.mark.parametrize("name", kernels.names())
def test_formulas_say_what_the_numbers_are(name: str) -> None:
    kernel = kernels.load(name)
    found = cost(kernel)
    for _, amount in found.rows():
        text = formula_text(amount)
        assert text is not None
        for sizes in small_sizes(kernel, 5, 4):
            assert evaluated(text, sizes) == amount(sizes), text


@pytest.mark.parametrize(
    ("name", "flops", "bytes"),
    [
        ("softmax", "4*M*N", "8*M*N"),
        ("add", "N", "12*N"),
        ("dot", "2*N", "8*N + 4"),
        ("saxpy", "2*N", "12*N"),
        ("transpose", "0", "8*M*N"),
        ("matmul", "2*K*M*N", "4*(K*M + K*N + M*N)"),
        ("layernorm", "9*M*N + 4*N", "8*M*N + 8*M"),
        ("gelu", "5*N", "8*N"),
        ("attention", "H*T*(2*D*T + 3*D + 2*T + 2)", "16*D*H*T"),
        ("conv2d", "2*C*KH*KW*N*O*(H - KH + 1)*(W - KW + 1)",
         "4*C*H*N*W + 4*C*KH*KW*O + 4*N*O*(H - KH + 1)*(W - KW + 1)"),
        ("jacobi2d", "10*T*max(0, N - 2)**2", "16*(N**2 - 4 if N >= 2 else 0) + 16*max(0, N - 2)**2"),
        ("matmul_int8", "2*M*N", "K*M + K*N + 4*M*N + 4*M + 4*N"),
    ],
)  # fmt: skip
def test_formulas_of_the_library(name: str, flops: str, bytes: str) -> None:
    found = cost(kernels.load(name))
    assert (formula_text(found.flops), formula_text(found.bytes)) == (flops, bytes)


def test_sizes_in_the_thousands() -> None:
    n = 4096
    softmax = cost(kernels.load("softmax")).at(N=n, M=n)
    assert (softmax.flops, softmax.functions, softmax.other, softmax.bytes) == (4 * n * n, n * n, n * n, 8 * n * n)
    heads, t, d = 16, 8192, 128
    attention = cost(kernels.load("attention")).at(H=heads, T=t, D=d)
    pairs = t * (t + 1) // 2  # of a position and one that it attends to
    assert attention.flops == heads * (pairs * (2 * d + 3) + pairs * (2 * d + 1) + t * d)
    assert attention.bytes == 16 * heads * t * d


def parse(*lines: str) -> Kernel:
    return dojoir.parse("\n".join(lines) + "\n")


def test_a_report() -> None:
    found = cost(kernels.load("softmax"))
    assert str(found).splitlines() == [
        "flops               = 4*M*N",
        "  add               = M*N",
        "  sub               = M*N",
        "  div               = M*N",
        "  exp               = M*N",
        "other operations    = M*N",
        "statement instances = 4*M*N + 2*N",
        "bytes               = 8*M*N",
        "  read              = 4*M*N",
        "  written           = 4*M*N",
        "bytes accessed      = 48*M*N + 8*N",
    ]
    assert found.describe({"N": 1000, "M": 100}).splitlines()[0] == "flops               = 4*M*N = 400,000"


def test_plain_data() -> None:
    found = cost(kernels.load("cross_entropy"))
    plain = found.to_json()
    assert plain["flops"] == {"formula": "3*C*N + 4*N + 1"}
    assert plain["floats"]["log"] == {"formula": "N"}
    assert found.to_json({"N": 2, "C": 3})["flops"] == {"formula": "3*C*N + 4*N + 1", "value": 27}


def test_gathers_are_bounded() -> None:
    found = cost(kernels.load("embedding"))
    assert found.bounded
    assert "bytes, at most" in str(found)
    assert found.at(N=3, V=100, D=4).read == 3 * 8 + 3 * 4 * 4
    assert found.at(N=100, V=3, D=4).read == 100 * 8 + 3 * 4 * 4
    assert not cost(kernels.load("cross_entropy")).bounded  # all of x is read anyway


def test_classes_of_operations() -> None:
    kernel = parse(
        "kernel k(N)",
        "in x: f64[N]",
        "in n: i32[N]",
        "out y: f64[N]",
        "out z: i32[N]",
        "N",
        "| y[{0}] = fma(x[{0}], 2, -x[{0}]) * sqrt(x[{0}]) + max(pow(x[{0}], {0} + 1), f64(n[{0}] // 2))",
        "| z[{0}] = select(x[{0}] < 1, n[{0}] + 1, n[{0}] % 3)",
        "| z[{0}] *= 3",
    )
    found = cost(kernel)
    counts = found.at(N=10)
    assert {name: amount({"N": 10}) for name, amount in found.floats.items()} == {
        "add": 10, "mul": 10, "fma": 10, "pow": 10, "sqrt": 10,
    }  # fmt: skip
    assert (counts.flops, counts.functions) == (60, 10)
    assert counts.integer == 40  # // + % *
    assert counts.other == 40  # the negation, max, < and select


def test_tiles_cost_what_they_tile() -> None:
    whole = cost(kernels.load("matmul"))
    kernel = parse(
        "kernel matmul(M, N, K)",
        "in a: f32[M, K]",
        "in b: f32[K, N]",
        "out c: f32[M, N]",
        "(M + 31) // 32",
        "| (N + 63) // 64",
        "| | min(32, M - 32*{0})",
        "| | | min(64, N - 64*{1})",
        "| | | | c[32*{0} + {2}, 64*{1} + {3}] = 0",
        "| | | | K",
        "| | | | | c[32*{0} + {2}, 64*{1} + {3}] += a[32*{0} + {2}, {4}] * b[{4}, 64*{1} + {3}]",
    )
    tiled = cost(kernel)
    for name in ("flops", "bytes", "instances", "accessed"):
        assert formula_text(getattr(tiled, name)) == formula_text(getattr(whole, name))


def test_sizes_that_do_not_fit() -> None:
    found = cost(kernels.load("conv2d"))
    with pytest.raises(ArgumentError, match="pass O=…"):
        found.at(N=1, C=1, H=8, W=8, KH=3, KW=3)
    with pytest.raises(ArgumentError, match="breaks 'where"):
        found.at(N=1, C=1, O=1, H=2, W=8, KH=3, KW=3)
    with pytest.raises(ArgumentError, match=re.escape("no runtime size 'B'")):
        found.describe({"B": 1})


def test_a_kernel_that_does_nothing() -> None:
    found = cost(parse("kernel k()"))
    assert found.at().instances == found.at().bytes == 0
    assert found.to_json()["flops"] == {"formula": "0"}
    assert [line.split(" = ")[1] for line in str(found).splitlines()] == ["0"] * 4


@pytest.mark.parametrize(
    ("sizes", "code", "says"),
    [
        ({"N": 17}, "broken-fact", "N=17: the count is no whole number"),
        ({"N": 0}, "bad-size", "size N must be an integer of at least 1, not 0"),
        ({"N": -4}, "bad-size", "at least 1, not -4"),
    ],
)
def test_sizes_that_a_kernel_cannot_have_are_told(sizes: dict[str, int], code: str, says: str) -> None:
    text = "kernel k(N)\nwhere N % 16 == 0\nin x: f32[N]\nout y: f32[N]\n"
    counts = cost(dojoir.parse(text + "N // 16\n| {0} + 1\n| | y[{0} + {1}] = x[{0} + {1}]\n"))
    with pytest.raises(ArgumentError, match=re.escape(says)) as error:
        counts.instances(sizes)
    assert error.value.diagnostic.code == code
