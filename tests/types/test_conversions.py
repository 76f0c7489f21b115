"""Conversions by name, `sat`, `round_away`, `round_to_zero` and `bitcast`: of all f16 and bf16, on every target."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import on_harness
import pytest
from able import can_run
from emulated import Trial, build, machine, run

import dojoir
from dojoir.ir.dtypes import DTYPES, DType
from dojoir.meaning.bits import from_floats, to_floats
from dojoir.types.rounding import FORMATS, rounder

WAYS = ("sat", "round_away", "round_to_zero")
NARROW = [name for name, dtype in DTYPES.items() if dtype.is_float and dtype.bits < 32]
HOST = (("llvm", "N"), ("llvm", "N : v"), ("c", "N"), ("avx2", "N : v"), ("avx512", "N : v"))
"""The targets of this machine, each with a scope for it."""


def numbers(dtype: DType) -> np.ndarray:
    """All numbers of a narrow float type by their codes, NaN and infinities too."""
    codes = np.arange(1 << dtype.bits).astype(f"uint{8 * dtype.itemsize}")
    return to_floats(codes.view(dtype.stored), dtype)


def expected(values: np.ndarray, dtype: DType, way: str) -> np.ndarray:
    """`values` (f64) converted by comparing with all numbers of the type, and the one that would come next."""
    every = numbers(dtype)
    steps = np.unique(np.abs(every[np.isfinite(every)]))
    largest, sizes = steps[-1], np.abs(values)
    is_scale = dtype.name == "f8e8m0"  # powers of two: no zero, no sign, and the larger of two that are as near
    steps = np.append(steps, 2 * largest if is_scale else largest + (largest - steps[-2]))
    inner = np.clip(np.where(np.isfinite(sizes), sizes, 0), steps[0], steps[-1])
    below = np.searchsorted(steps, inner, "right") - 1
    low, high = steps[below], steps[np.minimum(below + 1, len(steps) - 1)]
    match way:
        case _ if way == "round_away" or (is_scale and way != "round_to_zero"):
            up = (inner - low >= high - inner) & (inner > low)
        case "round_to_zero":
            up = np.zeros_like(inner, bool)
        case _:  # to nearest even
            up = (inner - low > high - inner) | ((inner - low == high - inner) & (below % 2 == 1))
    size = np.where(up, high, low)
    infinite, has_nan = np.isinf(values), np.isnan(every).any()
    beyond = np.inf if np.isinf(every).any() else np.nan if has_nan else largest
    over = infinite | (size > largest)
    if way == "sat":
        size = np.where(over, largest, size)
    elif way == "round_to_zero":
        size = np.where(infinite, beyond, np.minimum(size, largest))
    else:
        size = np.where(over, beyond, size)
    of_nan = np.nan if has_nan else largest if way == "sat" else -0.0
    if is_scale:
        return np.where(np.isnan(values) | (values < 0), np.nan, size)
    return np.where(np.isnan(values), of_nan, np.copysign(size, values))


def same(found: np.ndarray, want: np.ndarray) -> bool:
    both_nan = np.isnan(found) & np.isnan(want)
    return bool(np.all(both_nan | ((found == want) & (np.signbit(found) == np.signbit(want)))))


def kernel(source: str, scope: str = "N") -> dojoir.Kernel:
    """Every way to every narrow type, and to the integers by the nearest one."""
    outs = [(f"{way}_{to}", to, f"{way}({to}, x[{{0}}])") for to in NARROW for way in WAYS]
    outs += [(f"away_{to}", to, f"round_away({to}, x[{{0}}])") for to in ("i8", "u8", "i32")]
    head = "".join(f"out {name}: {to}[N]\n" for name, to, _ in outs)
    body = "".join(f"| {name}[{{0}}] = {value}\n" for name, _, value in outs)
    return dojoir.parse(f"kernel conversions(N)\nin  x: {source}[N]\n{head}\n{scope}\n{body}")


def given(source: str) -> tuple[np.ndarray, np.ndarray]:
    """All numbers of a type as an array of it, and as f64; of f32 and f64 those between those of f16, and near
    powers of two."""
    dtype = DTYPES[source]
    if dtype.bits <= 16:
        values = numbers(dtype)
        return from_floats(values, dtype), values
    steps = numbers(DTYPES["f16"])[: 1 << 15 : 7]
    with np.errstate(all="ignore"):
        between = (steps[1:] + steps[:-1]) / 2
        apart = 2.0 ** (-30 if source == "f64" else -13)
        values = np.concatenate([steps, between, between * (1 + apart), between * (1 - apart), steps * 2.0**-20])
        edge = numbers(DTYPES["f8e4m3"])
        powers = np.ldexp(1.0, np.arange(-130, 128))
        powers = np.concatenate([powers, powers * 1.5, powers * (1.5 - 2.0**-22), powers * (1.5 + 2.0**-22)])
        values = np.concatenate([values, powers])
        values = np.concatenate([values, -values, edge * 1.0625, edge * 1.03125, [1e38, -1e38, np.inf, 1e-45]])
        array = values.astype(dtype.stored)
    return array, array.astype(np.float64)


def assert_right(found: dict[str, np.ndarray], values: np.ndarray, about: object) -> None:
    for to in NARROW:
        for way in WAYS:
            want = expected(values, DTYPES[to], way)
            assert same(to_floats(found[f"{way}_{to}"], DTYPES[to]), want), (about, way, to)
    sizes = np.where(np.isnan(values), 0, np.minimum(np.abs(values), 2.0**32))
    whole = np.copysign(np.floor(sizes) + (sizes - np.floor(sizes) >= 0.5), values)
    for to in ("i8", "u8", "i32"):
        info = np.iinfo(DTYPES[to].stored)
        assert np.array_equal(found[f"away_{to}"], np.clip(whole, info.min, info.max)), (about, to)


@pytest.mark.parametrize("source", ["f16", "bf16"])
@pytest.mark.parametrize("to", NARROW)
def test_rounding_of_every_number(source: str, to: str) -> None:
    values = numbers(DTYPES[source])
    for way in WAYS:
        found = np.array(list(map(rounder(DTYPES[to], way), values.tolist())))
        assert same(found, expected(values, DTYPES[to], way)), way


@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2", "f4e2m1", "f8e8m0"])
def test_every_number_on_the_targets_of_this_machine(source: str) -> None:
    array, values = given(source)
    some = slice(None, None, max(len(values) // 97, 1))
    assert_right(dojoir.interpret(kernel(source), {"x": array[some]}), values[some], "interpret")
    for target, scope in HOST:
        if not can_run(target):
            continue
        compiled = dojoir.compile(kernel(source, scope), target)
        assert_right(compiled.run({"x": array}), values, (target, scope))


@pytest.mark.parametrize(("target", "vlen"), [("neon", 128), ("sve", 256), ("rvv", 256)])
def test_every_number_on_emulated_targets(target: str, vlen: int, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    sources = ["f16", "bf16", "f64"]
    kernels = [kernel(source, "N : v") for source in sources] + [integers("u64", "N : v"), bits("N : v")]
    arguments = [{"x": given(source)[0]} for source in sources] + [{"x": whole("u64")}, arguments_of_bits()]
    trials = []
    for number, (one, given_) in enumerate(zip(kernels, arguments, strict=True)):
        n = len(next(iter(given_.values())))
        out = {b.name: np.zeros(n, b.dtype.stored) for b in one.buffers if b.role == "out"}
        trials.append((number, Trial(one, given_, {"N": n}, out)))
    found = list(run(target, build(target, kernels, tmp_path), trials, vlen))
    for source, one in zip(sources, found[:3], strict=True):
        assert_right(one, given(source)[1], (target, source))
    assert_integers(found[3], whole("u64"), target)
    assert_bits(found[4], target)


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_every_number_on_the_harness(target: str) -> None:
    for source in ("f16", "bf16", "f32"):
        array, values = given(source)
        found = on_harness.run(kernel(source, "N : gx"), {"x": array}, {"N": len(array)}, target)
        assert_right(found, values, (target, source))
    x = whole("i64")
    found = on_harness.run(integers("i64", "N : gx"), {"x": x}, {"N": len(x)}, target)
    assert_integers(found, x, target)
    found = on_harness.run(bits("N : gx"), arguments_of_bits(), {"N": 1 << 16}, target)
    assert_bits(found, target)


# -- of integers, to f32 -----------------------------------------------------------------------------------
WIDE = [*NARROW, "f32"]


def whole(dtype: str) -> np.ndarray:
    """Integers of every length, those between two floats, and the ends of the range."""
    info, random = np.iinfo(DTYPES[dtype].stored), np.random.default_rng(5)
    few = [1, 3, 5, 7, 9, 11, 13, 255, 256, 257, 1025, 2047, 2049, 4097, 65519, 65520, 65521, (1 << 24) + 1]
    many = [n << up for n in few for up in range(40)] + [
        (n << up) + d for n in few for up in (13, 40) for d in (1, -1)
    ]
    drawn = random.integers(info.min, info.max, 500, info.dtype, endpoint=True)
    fits = [sign * n for n in many for sign in (1, -1) if info.min <= sign * n <= info.max]
    return np.concatenate([np.array([*fits, info.min, info.max, 0], info.dtype), drawn])


def integers(source: str, scope: str) -> dojoir.Kernel:
    """Every way from an integer to the floats (to f32 and f64 one that saturates is a cast), and to integers."""
    outs = [(f"{way}_{to}", to, f"{way}({to}, x[{{0}}])") for to in WIDE for way in WAYS]
    outs += [(f"sat_{to}", to, f"sat({to}, x[{{0}}])") for to in WHOLE]
    head = "".join(f"out {name}: {to}[N]\n" for name, to, _ in outs)
    body = "".join(f"| {name}[{{0}}] = {value}\n" for name, _, value in outs)
    return dojoir.parse(f"kernel conversions(N)\nin  x: {source}[N]\n{head}\n{scope}\n{body}")


WHOLE = ("i8", "u8", "i16", "u32", "i32", "i64", "u64")


def rounded(x: int, dtype: DType, way: str) -> float:
    """An integer rounded once, in integers: to the spacing of the floats around it."""
    form = FORMATS[dtype.name]
    if form.is_scale:
        low = 1 << max(x.bit_length() - 1, 0)
        up = way != "round_to_zero" and 2 * (x - low) >= low
        return np.nan if x < 0 else 2.0**-127 if x == 0 else float(low << up)
    size = abs(x)
    step = 1 << max(size.bit_length() - form.precision, 0)
    if form.quantum > 0 and size < 1 << form.lowest:
        step = 1 << form.quantum
    low, rest = size // step, size % step
    if way == "round_away":
        low += 2 * rest >= step
    elif way == "sat":
        low += 2 * rest > step or (2 * rest == step and low % 2 == 1)
    if low * step > form.largest:
        if way == "round_away" and form.overflow != "max":
            return float(np.copysign(np.inf, x)) if form.overflow == "inf" else np.nan
        return float(np.copysign(form.largest, x))
    return float(np.copysign(low * step, x))


def assert_integers(found: dict[str, np.ndarray], x: np.ndarray, about: object) -> None:
    for to in WIDE:
        for way in WAYS:
            want = np.array([rounded(int(n), DTYPES[to], way) for n in x])
            assert same(to_floats(found[f"{way}_{to}"], DTYPES[to]), want), (about, way, to)
    for to in WHOLE:
        info = np.iinfo(DTYPES[to].stored)
        assert found[f"sat_{to}"].tolist() == [min(max(int(n), info.min), info.max) for n in x], (about, to)


@pytest.mark.parametrize("source", ["i64", "u64", "i32", "u32", "i16", "u8"])
def test_integers_are_rounded_once(source: str) -> None:
    x = whole(source)
    assert_integers(dojoir.interpret(integers(source, "N"), {"x": x}), x, "interpret")
    for target, scope in HOST:
        if not can_run(target):
            continue
        compiled = dojoir.compile(integers(source, scope), target)
        assert_integers(compiled.run({"x": x}), x, (target, scope))


@pytest.mark.parametrize("way", WAYS)
def test_f64_to_f32(way: str) -> None:
    text = f"kernel k(N)\nin  x: f64[N]\nout y: f32[N]\n\nSCOPE\n| y[{{0}}] = {way}(f32, x[{{0}}])\n"
    random = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        low = random.integers(0, 0x7F800000, 3000, np.uint32).view(np.float32).astype(np.float64)
        high = np.nextafter(low.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    some = [low, (low + high) / 2, np.nextafter((low + high) / 2, 0), np.nextafter((low + high) / 2, np.inf)]
    edge = [np.inf, 3.4028235677973366e38, 3.5e38, 1e300, 5e-324, 2.0**-149, 2.0**-150, 0.0]
    x = np.concatenate([*some, edge, np.negative(edge), [np.nan], -low])
    with np.errstate(all="ignore"):
        below = x.astype(np.float32)
        toward = np.where(np.abs(below.astype(np.float64)) > np.abs(x), np.nextafter(below, np.float32(0)), below)
        toward = np.where(np.isinf(x), below, toward)
        upward = np.nextafter(toward, np.copysign(np.float32(np.inf), toward)).astype(np.float64)
        half = toward.astype(np.float64) + (upward - toward) / 2
        tie = np.isfinite(upward) & (x == half)
        largest = float(np.finfo(np.float32).max)
    want = {
        "sat": np.where(np.isinf(below) & ~np.isnan(x), np.copysign(largest, x), below.astype(np.float64)),
        "round_away": np.where(tie, upward, below.astype(np.float64)),
        "round_to_zero": toward.astype(np.float64),
    }[way]
    for found in everywhere(text, {"x": x}):
        assert same(found["y"].astype(np.float64), want)


def everywhere(text: str, arguments: dict[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """What the interpreter gives, and each target of this machine."""
    yield dojoir.interpret(dojoir.parse(text.replace("SCOPE", "N")), arguments)
    for target, scope in HOST:
        if not can_run(target):
            continue
        compiled = dojoir.compile(dojoir.parse(text.replace("SCOPE", scope)), target)
        yield compiled.run(arguments)


# -- bits --------------------------------------------------------------------------------------------------
CODES = {"f16": "u16", "bf16": "u16", "f8e4m3": "u8", "f8e5m2": "u8", "f4e2m1": "u8", "f8e8m0": "u8"}
CODES |= {"f32": "u32", "f64": "u64"}
"""The integer that holds the code of each float type."""


def codes() -> dict[str, np.ndarray]:
    """All codes of 8 and 16 bits; those of wider types have these in front, and another end."""
    x = np.arange(1 << 16, dtype=np.uint16)
    wide, widest = x.astype(np.uint32) << 16 | x[::-1], x.astype(np.uint64) << 48 | x
    return {"u8": x.astype(np.uint8), "u16": x, "u32": wide, "u64": widest}


def bits(scope: str) -> dojoir.Kernel:
    """From the codes of each float type to its numbers, and from these to the codes."""
    given_ = "".join(f"in  x{code.removeprefix('u')}: {code}[N]\n" for code in ("u8", "u16", "u32", "u64"))
    head, body = "", ""
    for name, code in CODES.items():
        x = f"x{code.removeprefix('u')}[{{0}}]"
        head += f"out to_{name}: {name}[N]\nout of_{name}: {code}[N]\nout again_{name}: {code}[N]\n"
        body += f"| to_{name}[{{0}}] = bitcast({name}, {x})\n"
        body += f"| of_{name}[{{0}}] = bitcast({code}, to_{name}[{{0}}])\n"
        body += f"| again_{name}[{{0}}] = bitcast({code}, bitcast({name}, {x}))\n"
    head += "out signed: i16[N]\nout half: f16[N]\nout int: i32[N]\n"
    body += "| signed[{0}] = bitcast(i16, x16[{0}])\n| half[{0}] = bitcast(f16, bitcast(bf16, x16[{0}]))\n"
    body += "| int[{0}] = bitcast(i32, bitcast(f32, bitcast(i32, x32[{0}])))\n"
    return dojoir.parse(f"kernel bits(N)\n{given_}{head}\n{scope}\n{body}")


def arguments_of_bits() -> dict[str, np.ndarray]:
    return {f"x{name.removeprefix('u')}": array for name, array in codes().items()}


@np.errstate(invalid="ignore")  # of signalling NaNs
def assert_bits(found: dict[str, np.ndarray], about: object, some: slice = slice(None)) -> None:
    given_ = {name: array[some] for name, array in codes().items()}
    wide = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
    for name, code in CODES.items():
        dtype, x = DTYPES[name], given_[code] & ((1 << DTYPES[name].bits) - 1)
        values = x.view(wide.get(name, dtype.stored))
        values = values.astype(np.float64) if name in wide else to_floats(values, dtype)
        assert same(to_floats(found[f"to_{name}"], dtype), values), (about, name)
        want = np.where(np.isnan(values), np.array(FORMATS[name].nan_bits, x.dtype), x)
        assert np.array_equal(found[f"of_{name}"], want), (about, name)
        assert np.array_equal(found[f"again_{name}"], want), (about, name)
    assert np.array_equal(found["signed"], given_["u16"].view(np.int16)), about
    nan = (given_["u16"] & 0x7FFF) > 0x7F80
    half = np.where(nan, np.uint16(0x7FC0), given_["u16"]).view(np.float16)
    assert same(found["half"].astype(np.float64), half.astype(np.float64)), about
    nan = (given_["u32"] & 0x7FFFFFFF) > 0x7F800000
    assert np.array_equal(found["int"], np.where(nan, 0x7FC00000, given_["u32"]).astype(np.uint32).view(np.int32))


def test_bits_of_every_code() -> None:
    some = slice(None, None, 331)
    assert_bits(
        dojoir.interpret(bits("N"), {name: array[some] for name, array in arguments_of_bits().items()}), "", some
    )
    for target, scope in HOST:
        if not can_run(target):
            continue
        compiled = dojoir.compile(bits(scope), target)
        assert_bits(compiled.run(arguments_of_bits()), (target, scope))


# -- texts -------------------------------------------------------------------------------------------------
def test_the_text_reads_back() -> None:
    text = "kernel k(N)\nin  x: f32[N]\nout y: f4e2m1[N]\nout z: u32[N]\n\nN\n| y[{0}] = sat(f4e2m1, x[{0}] * 2)\n"
    text += (
        "| z[{0}] = bitcast(u32, x[{0}]) >> 16\n| y[{0}] = round_away(f16, x[{0}] + 1) + round_to_zero(bf16, 3)\n"
    )
    parsed = dojoir.parse(text)
    assert str(parsed) == text
    assert dojoir.parse(str(parsed)) == parsed
    plain = dojoir.parse(text.replace("sat(f4e2m1, x[{0}] * 2)", "f4e2m1(x[{0}] * 2)"))
    assert plain != parsed
    assert plain.hash != parsed.hash


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("sat(x[{0}], f16)", "the first argument of sat is an element type"),
        ("sat(f61, x[{0}])", "did you mean"),
        ("sat(x[{0}])", "takes 2 arguments"),
        ("bitcast(u32, 1.5)", "write u32"),
        ("bitcast(u16, x[{0}])", "the code of f32 is a u32"),
        ("bitcast(i8, f4e2m1(x[{0}]))", "the code of f4e2m1 is a u8"),
        ("round_away(i8, i32(x[{0}]))", "write sat(i8, i32(x[{0}]))"),
        ("sat(bool, x[{0}])", "write x[{0}] != 0"),
        ("sat(i8, x[{0}] > 1)", "write u8(x[{0}] > 1)"),
    ],
)
def test_what_is_refused(value: str, word: str) -> None:
    with pytest.raises(dojoir.DojoError) as caught:
        dojoir.parse(f"kernel k(N)\nin  x: f32[N]\nout y: f32[N]\n\nN\n| y[{{0}}] = {value}\n")
    assert word in str(caught.value)


def test_nan_and_the_largest() -> None:
    """What hardware's `satfinite` gives; a plain store is as it was."""
    text = "kernel k(N)\nin  x: f32[N]\nout a: f4e2m1[N]\nout b: f8e4m3[N]\nout c: f4e2m1[N]\n\nSCOPE\n"
    text += "| a[{0}] = sat(f4e2m1, x[{0}])\n| b[{0}] = sat(f8e4m3, x[{0}])\n| c[{0}] = x[{0}]\n"
    for found in everywhere(text, {"x": np.array([np.nan, np.inf, -np.inf, 500, 0.25], np.float32)}):
        assert found["a"].tolist() == [7, 7, 15, 7, 0]
        assert found["b"].tolist() == [0x7F, 0x7E, 0xFE, 0x7E, 0x28]
        assert found["c"].tolist() == [8, 7, 15, 7, 0]


def test_moves_keep_the_way() -> None:
    text = "kernel k(N)\nin  x: f32[N]\nout y: f32[N]\ntmp t: f8e4m3[N]\n\nN\n| t[{0}] = sat(f8e4m3, x[{0}])\n"
    trace = dojoir.Trace(dojoir.parse(text + "| y[{0}] = t[{0}] + 1\n"))
    trace.apply("inline(0.1, t)")
    assert "sat(f8e4m3, x[{0}])" in dojoir.to_text(trace.kernel)
    assert dojoir.certify(trace).status == "legal"


@pytest.mark.parametrize("divisor", ["sat(u8, -3)", "u8(0.5)"])
def test_a_divisor_that_is_converted_to_0_stays_where_it_is(divisor: str) -> None:
    """In a scope that may be empty: before it, it would be an error of runs that have none."""
    text = "kernel k(N)\nin  x: u8\nout y: u8[N]\n\nN\n| if {0} >= 8\n| | y[{0}] = x // DIVISOR\n| y[{0}] = 1\n"
    kernel = dojoir.parse(text.replace("DIVISOR", divisor))
    assert dojoir.interpret(kernel, {"x": np.array(7, np.uint8)}, N=3)["y"].tolist() == [1, 1, 1]
    assert dojoir.check(kernel, "hoist(0, 0.0.0, 0, part)").code == "may-fail"
    assert dojoir.check(kernel, "hoist(0, 0.0.0, 2, part)").status == "legal"  # the divisor alone
