"""The quantised kernels of the library: proved for all options, and equal to their NumPy references, to the bit
where the text fixes the arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest
from able import runs
from numpy.typing import NDArray
from quantised_references import bf16_bits, expected, format_of, of_bf16, of_e4m3, of_e8m0, tiled

import dojoir
from dojoir import ArgumentError, kernels
from dojoir.kernels.quantised import OPTIONS

Arrays = dict[str, NDArray[np.generic]]

QUANTISERS = [name for name in OPTIONS if name.endswith("_quantize")]
FUSED = [name for name in OPTIONS if name.startswith(("add_rmsnorm", "silu_mul"))]
ALL = [
    (name, dict(zip(OPTIONS[name], values, strict=True)))
    for name in OPTIONS
    for values in itertools.product(*OPTIONS[name].values())
]
BOTH = [dict(zip(("quantiser", "scales"), values, strict=True)) for values in itertools.product(
    ("hw", "soft"), ("linear", "tiled"))]  # fmt: skip
TIES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)


def shown(case: object) -> str:
    return "-".join(case.values()) if isinstance(case, dict) else str(case)


def special_rows(block: int) -> NDArray[np.uint16]:
    """Rows of two blocks of bf16: zeros of both signs, one value, ties at several scales, subnormals, the largest
    numbers, infinities and NaN."""
    f = np.float32
    rows: list[NDArray[np.float32]] = [np.zeros(block, f), -np.zeros(block, f)]
    rows += [np.full(block, v, f) for v in (1.0, -3.0, 448.0, 2.0**-20, 3.38953139e38, 2.0**-133)]
    for scale in (1.0, 2.0**-9, 2.0**100, 2.0**-126):
        ties = np.resize(np.array([6.0, *TIES, *(-t for t in TIES)], f), block)
        rows += [ties * f(scale), -ties * f(scale)]
    small = np.arange(block, dtype=np.uint32) << 16  # subnormals of bf16
    rows += [
        small.view(f),
        np.linspace(-448, 448, block, dtype=f),
        np.linspace(-(2.0**-7), 2.0**-8, block, dtype=f),
    ]
    for value in (np.inf, -np.inf, np.nan):
        row = np.linspace(-2, 2, block, dtype=f)
        row[3] = value
        rows.append(row)
    rows.append(np.resize(np.array([np.inf, -np.inf, np.nan, 0, 1], f), block))
    bits = bf16_bits(np.stack(rows))
    return np.concatenate([bits, np.roll(bits, 1, axis=0)], axis=1)


def drawn(rows: int, columns: int, seed: int = 0) -> NDArray[np.uint16]:
    """Numbers of many magnitudes, as bf16."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows, columns)) * np.exp2(random.uniform(-6, 6, (rows, 1)))
    return bf16_bits(x.astype(np.float32))


def arguments(name: str, options: Mapping[str, str], x: NDArray[np.uint16], seed: int = 0) -> Arrays:
    """The arrays of a call that quantises something made of x."""
    form, random = format_of(name), np.random.default_rng(seed)
    given: Arrays = {"x": x}
    rows, columns = x.shape
    if name.startswith("add_rmsnorm"):
        given |= {"z": drawn(rows, columns, seed + 1), "w": drawn(1, columns, seed + 2)[0], "eps": np.float32(1e-5)}
    if name.startswith("silu_mul"):
        given["u"] = drawn(rows, columns, seed + 1)
    if options.get("inputs") == "packed":
        blocks = columns // form.block
        batches = np.stack([np.concatenate([x, given.pop("u")], axis=1), drawn(rows, 2 * columns, seed + 3)])
        shape = (
            (2, rows, blocks)
            if options["scales"] == "linear"
            else (2, *tiled(np.zeros((rows, blocks), "u1")).shape)
        )
        q = random.integers(0, 256, (2, rows, columns // (2 if form.is_packed else 1)), np.uint8)
        given |= {"x": batches, "rows": np.array([rows, rows // 2], np.int32)}
        given |= {"q": q, "s": random.integers(0, 255, shape).astype(np.uint8)}
        if form.has_global:
            given["g"] = np.array([37.5, 2.0], np.float32)
    elif form.has_global:
        given["g"] = np.float32(37.5)
    return given


def same(got: Mapping[str, NDArray[np.generic]], want: Mapping[str, NDArray[np.generic]]) -> None:
    for name, array in want.items():
        assert got[name].dtype == array.dtype, name
        np.testing.assert_array_equal(got[name], array, err_msg=name)


# -- texts -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "options"), ALL, ids=shown)
def test_every_text_is_proved_and_comes_back_from_its_text(name: str, options: dict[str, str]) -> None:
    kernel = kernels.load(name, **options)
    dojoir.prove(kernel)
    assert kernel.name == name
    assert dojoir.parse(dojoir.to_text(kernel)) == kernel
    said = ",".join(f"{option}={value}" for option, value in options.items())
    assert kernels.load(f"{name}({said})") == kernel
    text = kernels.source(name, **options)
    assert "=" in text.splitlines()[2] and max(map(len, text.splitlines())) < 145


def test_the_texts_of_a_kernel_differ() -> None:
    assert len({kernels.load(name, **options).hash for name, options in ALL}) == len(ALL)


def test_an_unknown_option_names_the_known_ones() -> None:
    with pytest.raises(ArgumentError, match=r"linear or tiled, not 'tile'") as error:
        kernels.load("nvfp4_quantize", scales="tile")
    assert error.value.diagnostic.code == "unknown-option"
    with pytest.raises(ArgumentError, match="no option 'product'"):
        kernels.source("nvfp4_quantize", product="rounded")
    with pytest.raises(ArgumentError, match="softmax has no option"):
        kernels.load("softmax(scales=tiled)")
    with pytest.raises(ArgumentError, match="NAME=VALUE"):
        kernels.load("nvfp4_quantize(tiled)")
    with pytest.raises(ArgumentError, match="did you mean 'nvfp4_quantize'"):
        kernels.load("nvfp4_quantise")


# -- equal to the bit --------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", BOTH, ids=shown)
@pytest.mark.parametrize("name", QUANTISERS)
def test_quantisers_mean_their_references(name: str, options: dict[str, str]) -> None:
    given = arguments(name, options, special_rows(format_of(name).block))
    same(dojoir.interpret(kernels.load(name, **options), given), expected(name, options, given))


TARGETS = ("llvm", "c", "avx512", "avx2")


TARGETS_OF = [(target, options) for target in TARGETS for options in (BOTH if target == "llvm" else BOTH[::3])]


@pytest.mark.parametrize(("target", "options"), TARGETS_OF, ids=shown)
@pytest.mark.parametrize("name", QUANTISERS)
def test_compiled_quantisers_are_their_references(name: str, options: dict[str, str], target: str) -> None:
    runs(target)
    compiled = dojoir.compile(kernels.load(name, **options), target)
    block = format_of(name).block
    for x in (special_rows(block), drawn(133, 7 * block)):
        given = arguments(name, options, x)
        same(compiled.run(given), expected(name, options, given))


@pytest.mark.parametrize("name", QUANTISERS)
def test_all_numbers_of_bf16(name: str) -> None:
    """Each of the 65,536, beside others that set the scale of its block."""
    block = format_of(name).block
    every = np.arange(1 << 16, dtype=np.uint16).reshape(-1, block)
    blocks = np.concatenate([every, np.random.default_rng(0).permutation(every.ravel()).reshape(-1, block)])
    for options in BOTH[::2]:
        given = arguments(name, options, blocks)
        same(dojoir.compile(kernels.load(name, **options)).run(given), expected(name, options, given))


# -- equal but at ties -------------------------------------------------------------------------------------
MOST_DIFFERENT = 1e-4


@pytest.mark.parametrize(("name", "options"), [case for case in ALL if case[0] in FUSED], ids=shown)
def test_fused_quantisers_are_their_references(name: str, options: dict[str, str]) -> None:
    """At most one code of 10,000 differs, which is by one step, and with it where a scale differs its block."""
    given = arguments(name, options, drawn(67, 5 * format_of(name).block))
    got, want = dojoir.compile(kernels.load(name, **options)).run(given), expected(name, options, given)
    if "h" in want:
        np.testing.assert_array_equal(got["h"], want["h"])
    for part in ("q", "s"):
        different = np.count_nonzero(got[part] != want[part])
        assert different <= max(1, MOST_DIFFERENT * want[part].size), (part, different)


@pytest.mark.parametrize("options", [options for name, options in ALL if name == "matmul_fp4"], ids=shown)
def test_the_product_of_what_was_quantised(options: dict[str, str]) -> None:
    """Of codes and scales that the library's quantiser made, within rounding to bf16 of the product in f64."""
    form = {"nvfp4": "nvfp4_quantize", "mxfp4": "mxfp4_quantize"}[options["format"]]
    block, made = format_of(form).block, []
    for rows, seed in ((5, 0), (9, 1)):
        x = drawn(rows, 3 * block, seed)
        got = dojoir.compile(kernels.load(form, scales=options["scales"])).run(arguments(form, {}, x))
        made.append(got)
    given = {
        "a": made[0]["q"],
        "sa": made[0]["s"],
        "w": made[1]["q"],
        "sb": made[1]["s"],
        "alpha": np.float32(0.25),
    }
    y = dojoir.compile(kernels.load("matmul_fp4", **options)).run(given, B=3, M=5, N=9)["y"]

    def numbers(codes: NDArray[np.uint8], scales: NDArray[np.uint8], rows: int) -> NDArray[np.float64]:
        table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
        halves = np.stack([codes & 15, codes >> 4], axis=-1).reshape(rows, 3, block)
        if options["scales"] == "tiled":
            m, k = np.indices((rows, 3))
            scales = scales[m // 128, k // 4, m % 32, m % 128 // 32, k % 4]
        each = of_e4m3(scales) if block == 16 else of_e8m0(scales)
        return np.asarray((table[halves] * each[..., None].astype(np.float64)).reshape(rows, -1))

    want = 0.25 * numbers(made[0]["q"], made[0]["s"], 5) @ numbers(made[1]["q"], made[1]["s"], 9).T
    np.testing.assert_allclose(of_bf16(y), want, rtol=2.0**-8, atol=1e-3)
