"""Integers of four bits, i4 and u4, one or two in a byte: all conversions, and texts on every target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import on_harness
import pytest
from able import can_run
from emulated import Trial, build, machine, run

import dojoir
from dojoir.support.frozen import dataclass

Arrays = dict[str, np.ndarray]
HOST = ("llvm", "c", "avx2", "avx512")


def pairs(codes: np.ndarray) -> np.ndarray:
    """Numbers in the last dimension, two in each byte, the even one in the low half."""
    low = codes.astype(np.uint8) & 15
    return low[..., 0::2] | low[..., 1::2] << 4


def signed(codes: np.ndarray) -> np.ndarray:
    return ((codes.astype(np.int64) & 15) ^ 8) - 8


# -- conversions -------------------------------------------------------------------------------------------
CONVERSIONS = """
kernel conversions(N)
where N % 2 == 0
in  x: f16[N]
in  n: i16[N]
in  b: i8[N]
in  q: i4[N] PACKED
in  r: u4[N] PACKED
out xi: i4[N] PACKED
out xu: u4[N] PACKED
out ai: i4[N]
out au: u4[N]
out ni: i4[N] PACKED
out nu: u4[N]
out si: i4[N]
out su: u4[N] PACKED
out bi: i4[N] PACKED
out qf: f32[N]
out rf: f16[N]
out qn: i32[N]
out both: i8[N]
out f: f4e2m1[N] PACKED
out code: u4[N] PACKED
out other: i4[N]

SCOPE
| BODY
"""

BODY = [
    "xi[{0}] = i4(x[{0}])", "xu[{0}] = u4(x[{0}])", "ai[{0}] = round_away(i4, x[{0}])",
    "au[{0}] = round_away(u4, x[{0}])", "ni[{0}] = i4(n[{0}])", "nu[{0}] = u4(n[{0}])", "si[{0}] = sat(i4, n[{0}])",
    "su[{0}] = sat(u4, n[{0}])", "bi[{0}] = b[{0}]", "qf[{0}] = f32(q[{0}])", "rf[{0}] = f16(r[{0}])",
    "qn[{0}] = i32(q[{0}]) * 100 + i32(r[{0}])", "both[{0}] = q[{0}] * q[{0}] + q[{0}] // 3 - (q[{0}] << 1)",
    "f[{0}] = bitcast(f4e2m1, r[{0}])", "code[{0}] = bitcast(u4, f4e2m1(x[{0}]))",
    "other[{0}] = bitcast(i4, r[{0}])",
]  # fmt: skip


def conversions(packed: str, lanes: bool = False) -> dojoir.Kernel:
    """Statements in a scope of bytes, each of which has both halves: so that lanes may run it."""
    text = CONVERSIONS.replace("PACKED", packed)
    if not lanes:
        return dojoir.parse(text.replace("SCOPE", "N").replace("BODY", "\n| ".join(BODY)))
    both = [line.replace("{0}", f"2*{{0}} + {half}") for line in BODY for half in (0, 1)]
    return dojoir.parse(text.replace("SCOPE", "N // 2 : v").replace("BODY", "\n| ".join(both)))


def given() -> tuple[Arrays, Arrays]:
    """All f16, i16 and i8, and the numbers of four bits, and what becomes of them."""
    codes = np.arange(1 << 16)
    x, n, b = (
        codes.astype(np.uint16).view(np.float16),
        codes.astype(np.uint16).view(np.int16),
        codes.astype(np.int8),
    )
    q, r = signed(codes), (codes >> 4) & 15
    with np.errstate(all="ignore"):
        wide = np.where(np.isnan(x), 0, x).astype(np.float64)
        away = np.where(np.isinf(wide), wide, np.copysign(np.floor(np.abs(wide) + 0.5), wide))
    sizes = np.where(np.isnan(x), 0, np.abs(x.astype(np.float64)))
    steps = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    middle = (steps[1:] + steps[:-1]) / 2
    nearest = np.searchsorted(middle, sizes, "left")
    tie = (nearest < 7) & (sizes == middle[np.minimum(nearest, 6)]) & (nearest % 2 == 1)
    nearest = np.where(np.isnan(x), 8, (nearest + tie) | np.where(np.signbit(x), 8, 0))
    want = {
        "xi": np.trunc(np.clip(wide, -8, 7)), "xu": np.trunc(np.clip(wide, 0, 15)),
        "ai": np.clip(away, -8, 7), "au": np.clip(away, 0, 15), "ni": signed(n), "nu": n & 15,
        "si": np.clip(n, -8, 7), "su": np.clip(n, 0, 15), "bi": signed(b), "qf": q, "rf": r, "qn": q * 100 + r,
        "both": q * q + q // 3 - q * 2, "f": r, "code": nearest, "other": signed(r),
    }  # fmt: skip
    return {"x": x, "n": n, "b": b, "q": q, "r": r}, {name: value.astype(np.int64) for name, value in want.items()}


def arguments(kernel: dojoir.Kernel, arrays: Arrays) -> Arrays:
    """Arrays as a call takes them."""
    found = {}
    for buffer in kernel.buffers:
        if buffer.name in arrays:
            array = arrays[buffer.name]
            if buffer.packed:
                found[buffer.name] = pairs(array)
            else:
                found[buffer.name] = array.astype(buffer.dtype.stored)
    return found


def assert_right(kernel: dojoir.Kernel, found: Arrays, want: Arrays, about: object) -> None:
    for name, array in arguments(kernel, want).items():
        assert found[name].shape == array.shape, (about, name)
        assert np.array_equal(found[name], array), (about, name)


@pytest.mark.parametrize("packed", ["packed", ""])
@pytest.mark.parametrize("lanes", [False, True])
def test_every_number(packed: str, lanes: bool) -> None:
    kernel, (inputs, want) = conversions(packed, lanes), given()
    some = np.arange(0, 1 << 16, 89) & ~1
    some = np.sort(np.concatenate([some, some + 1]))
    few = ({name: array[some] for name, array in arrays.items()} for arrays in (inputs, want))
    assert_right(kernel, dojoir.interpret(kernel, arguments(kernel, next(few))), next(few), "interpret")
    for target in HOST:
        if can_run(target):
            found = dojoir.compile(kernel, target).run(arguments(kernel, inputs))
            assert_right(kernel, found, want, target)


@pytest.mark.parametrize("target", ["neon", "sve", "rvv"])
def test_every_number_on_emulated_targets(target: str, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    kernels, (inputs, want) = [conversions("packed", lanes=True), conversions("", lanes=True)], given()
    trials = [
        (n, Trial(one, arguments(one, inputs), {"N": 1 << 16}, arguments(one, want)))
        for n, one in enumerate(kernels)
    ]
    for (_, trial), found in zip(trials, run(target, build(target, kernels, tmp_path), trials, 256), strict=True):
        assert_right(trial.kernel, dict(found), want, target)


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("packed", ["packed", ""])
def test_every_number_on_the_harness(packed: str, target: str) -> None:
    kernel, (inputs, want) = conversions(packed, lanes=True), given()
    kernel = dojoir.parse(dojoir.to_text(kernel).replace(": v", ": gx"))
    found = on_harness.run(kernel, arguments(kernel, inputs), {"N": 1 << 16}, target)
    assert_right(kernel, found, want, target)


def test_the_low_half_of_a_byte_counts() -> None:
    text = "kernel k(N)\nin  q: i4[N]\nin  r: u4[N]\nout y: i32[N]\nout z: i4[N]\n\nN\n"
    kernel = dojoir.parse(text + "| y[{0}] = i32(q[{0}]) - i32(r[{0}])\n| z[{0}] = q[{0}]\n")
    every = np.arange(256, dtype=np.uint8)
    given_ = {"q": every.view(np.int8), "r": every[::-1].copy()}
    for found in (dojoir.interpret(kernel, given_), dojoir.compile(kernel).run(given_)):
        assert np.array_equal(found["y"], signed(every) - (every[::-1] & 15))
        assert np.array_equal(found["z"], signed(every))


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("q[{0}] += n[{0}]", "only stored"),
        ("q[{0}] = 9", "9 does not fit in i4"),
        ("q[{0}] = n[{0}]", "write i4(n[{0}])"),
        ("n[{0}] = q[{0}]", "write i32(q[{0}])"),
        ("n[{0}] = n[q[{0}]]", "no index is read"),
        ("q[{0}] = bitcast(i4, n[{0}])", "types of one width"),
    ],
)
def test_what_is_refused(line: str, word: str) -> None:
    with pytest.raises(dojoir.KernelError) as caught:
        dojoir.parse(f"kernel k(N)\ninout q: i4[N]\ninout n: i32[N]\n\nN\n| {line}\n")
    assert word in str(caught.value)
    with pytest.raises(dojoir.KernelError, match="declare c i8"):
        dojoir.parse("kernel k(N)\nin c: i4\nout y: i8[N]\n\nN\n| y[{0}] = c\n")


# -- texts of practice -------------------------------------------------------------------------------------
MATVEC = """
kernel w4a8_matvec(N, B)
in  w: i4[N, 32*B] packed
in  s: f32[N, B]
in  x: i8[32*B]
out y: f32[N]
tmp d: i32[N, B]

N
| y[{0}] = 0
| B
| | d[{0}, {1}] = 0
| | 32
| | | d[{0}, {1}] += i32(w[{0}, 32*{1} + {2}]) * i32(x[32*{1} + {2}])
| | y[{0}] += f32(d[{0}, {1}]) * s[{0}, {1}]
"""

UNZIP = """
kernel dequantize(N, B)
where B % 2 == 0
in  q: u4[N, 16*B] packed
in  z: u4[N, B] packed
in  s: f16[N, B]
out y: f16[N, 16*B]

N
| B
| | 16
| | | y[{0}, 16*{1} + {2}] = f32(i32(q[{0}, 16*{1} + {2}]) - i32(z[{0}, {1}])) * s[{0}, {1}]
"""

ZIP = """
kernel quantize(N, K)
where K % 2 == 0
in  x: f32[N, K]
out q: i4[N, K] packed
out s: f32[N]
tmp m: f32[N]

N
| m[{0}] = 0
| K
| | m[{0}] max= abs(x[{0}, {1}])
| s[{0}] = select(m[{0}] > 0, m[{0}] / 7, 1)
| K
| | q[{0}, {1}] = round_away(i4, x[{0}, {1}] / s[{0}])
"""


def matvec() -> tuple[Arrays, Arrays, dict[str, int]]:
    random = np.random.default_rng(1)
    w, x = random.integers(-8, 8, (9, 96)), random.integers(-128, 128, 96)
    s = 2.0 ** random.integers(-2, 3, (9, 3))
    y = ((w * x).reshape(9, 3, 32).sum(2) * s).sum(1)
    return {"w": w, "s": s, "x": x}, {"y": y}, {"N": 9, "B": 3}


def unzip() -> tuple[Arrays, Arrays, dict[str, int]]:
    random = np.random.default_rng(2)
    q, z = random.integers(0, 16, (7, 64)), random.integers(0, 16, (7, 4))
    s = (2.0 ** random.integers(-5, 3, (7, 4))).astype(np.float16)
    return {"q": q, "z": z, "s": s}, {"y": (q - z.repeat(16, 1)) * s.repeat(16, 1)}, {"N": 7, "B": 4}


def zip_() -> tuple[Arrays, Arrays, dict[str, int]]:
    x = np.random.default_rng(3).normal(size=(11, 54)).astype(np.float32)
    x[4] = 0
    largest = np.abs(x).max(1)
    s = np.where(largest > 0, largest / np.float32(7), np.float32(1)).astype(np.float32)
    scaled = x / s[:, None]
    q = np.clip(np.copysign(np.floor(np.abs(scaled) + np.float32(0.5)), scaled), -8, 7)
    return {"x": x}, {"q": q.astype(np.int64), "s": s}, {"N": 11, "K": 54}


@dataclass(frozen=True)
class Text:
    text: str
    arrays: Callable[[], tuple[Arrays, Arrays, dict[str, int]]]


TEXTS = {"matvec": Text(MATVEC, matvec), "unzip": Text(UNZIP, unzip), "zip": Text(ZIP, zip_)}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_on_this_machine_and_certified(name: str) -> None:
    kernel, (inputs, want, _) = dojoir.parse(TEXTS[name].text), TEXTS[name].arrays()
    call = arguments(kernel, inputs)
    assert_right(kernel, dojoir.interpret(kernel, call), want, "interpret")
    for target in HOST:
        if not can_run(target):
            continue
        trace = dojoir.optimize(kernel, target)
        assert dojoir.certify(trace).status == "legal"
        for one in (kernel, trace.kernel):
            assert_right(kernel, dojoir.compile(one, target).run(call), want, (target, str(one)))
    assert dojoir.verify(kernel, target="llvm")


@pytest.mark.parametrize("target", ["neon", "sve", "rvv"])
def test_texts_on_emulated_targets(target: str, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    kernels = [dojoir.optimize(dojoir.parse(text.text), target).kernel for text in TEXTS.values()]
    trials = []
    for number, text in enumerate(TEXTS.values()):
        inputs, want, sizes = text.arrays()
        call, right = (arguments(kernels[number], arrays) for arrays in (inputs, want))
        trials.append((number, Trial(kernels[number], call, sizes, right)))
    for (_, trial), found in zip(trials, run(target, build(target, kernels, tmp_path), trials, 256), strict=True):
        for name, array in trial.expected.items():
            assert np.array_equal(found[name], array), (target, name)


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("name", TEXTS)
def test_texts_on_the_harness(name: str, target: str) -> None:
    inputs, want, sizes = TEXTS[name].arrays()
    kernel = dojoir.optimize(dojoir.parse(TEXTS[name].text), target).kernel
    found = on_harness.run(kernel, arguments(kernel, inputs), sizes, target)
    assert_right(kernel, found, want, target)


@pytest.mark.parametrize("dtype", ["u4", "i4", "f4e2m1"])
@pytest.mark.parametrize("packed", [" packed", ""])
def test_numbers_alone_are_computed_in_the_type_of_the_store(dtype: str, packed: str) -> None:
    """As 8 * {0} in u8, which wraps before it is compared, and {0} / 3 in f32."""
    value = "min(N, 8*{0})" if dtype != "f4e2m1" else "{0} / 3 + 0.25 * {0}"
    kernel = dojoir.parse(f"kernel k(N)\nwhere N % 2 == 0\nout y: {dtype}[N]{packed}\n\nN\n| y[{{0}}] = {value}\n")
    want = dojoir.interpret(kernel, {}, N=70)["y"]
    for target in HOST:
        if can_run(target):
            assert np.array_equal(dojoir.compile(kernel, target).run({}, N=70)["y"], want), target
