"""The quantised kernels of the library in NumPy: codes and scales from the definitions, by tables of the formats.

A conversion looks a number up among the values of its format, in f64, which holds all of them and what lies in the
middle of two; arithmetic is that of f32, an operation at a time, as the texts say.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dojoir.kernels.quantised import FORMATS, BlockFormat

F32 = NDArray[np.float32]
Codes = NDArray[np.uint8]

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
E4M3 = np.array([m * 2.0**-9 if e == 0 else (8 + m) * 2.0 ** (e - 10) for e in range(16) for m in range(8)][:127])
"""The numbers of 4 and of 8 bits that are not negative, by their codes."""


def bf16_bits(x: NDArray[np.generic]) -> NDArray[np.uint16]:
    """To the nearest bf16, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(np.asarray(x, np.float32)), np.uint16(0x7FC0), rounded)


def of_bf16(bits: NDArray[np.generic]) -> F32:
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def _nearest(table: NDArray[np.float64], x: NDArray[np.float64], away: bool) -> Codes:
    """The codes of the nearest numbers of a table, of magnitudes."""
    middle = (table[1:] + table[:-1]) / 2
    if away:
        return np.searchsorted(middle, x, side="right").astype(np.uint8)
    low = np.searchsorted(middle, x, side="left")
    tie = np.isin(x, middle)
    return (low + (tie & (low % 2 == 1))).astype(np.uint8)


def to_e2m1(x: F32, away: bool) -> Codes:
    """Saturated; NaN is 6 to even, and no number but -0 away from zero."""
    found = _nearest(E2M1, np.abs(x).astype(np.float64), away) | np.signbit(x).astype(np.uint8) << 3
    return np.where(np.isnan(x), np.uint8(8 if away else 7), found)


def to_e4m3(x: F32, away: bool = False) -> Codes:
    """Saturated; NaN stays."""
    found = _nearest(E4M3, np.abs(x).astype(np.float64), away) | np.signbit(x).astype(np.uint8) << 7
    return np.where(np.isnan(x), np.uint8(0x7F), found)


def of_e4m3(codes: Codes) -> F32:
    values = np.append(E4M3, np.nan)[codes & 0x7F]
    return np.where(codes & 0x80, -values, values).astype(np.float32)


def of_e8m0(codes: Codes) -> F32:
    with np.errstate(over="ignore"):
        return np.where(codes == 255, np.nan, np.ldexp(1.0, codes.astype(int) - 127)).astype(np.float32)


def _exponent(x: F32, up: bool) -> Codes:
    """The code of the power of two at or below x, or at or above it; 255 of an infinity and NaN."""
    finite = np.where(np.isfinite(x) & (x > 0), x, 1).astype(np.float64)
    mantissa, exponent = np.frexp(finite)
    power = exponent - 1 + (up & (mantissa > 0.5))
    power = np.where(x > 0, np.clip(power, -127, 127), -127)
    return np.where(np.isfinite(x), power + 127, 255).astype(np.uint8)


def quantised(y: F32, form: BlockFormat, soft: bool, g: F32 | float = 1.0) -> tuple[Codes, Codes]:
    """Codes, one a byte, and scales of an array of f32 whose last dimension is one of blocks."""
    one = np.float32(1)
    blocks = y.reshape(*y.shape[:-1], -1, form.block).astype(np.float32)
    largest = np.float32(float(form.largest))
    with np.errstate(all="ignore"):
        a = np.abs(blocks).max(axis=-1)
        scale = np.asarray(g, np.float32)
        if form.has_global and not soft:
            s = to_e4m3(scale * (a / largest))
            r = np.where(of_e4m3(s) == 0, np.float32(0), scale / of_e4m3(s))
        elif form.has_global:
            r = np.where(a == 0, one, a / largest)
            s = to_e4m3(scale * r)
        elif not soft:
            s = _exponent(a / largest, up=True)
            r = one / of_e8m0(s)
        else:
            s = _exponent(np.where(a == 0, one, a / np.float32(float(form.power))), up=False)
            r = of_e8m0(s)
        scaled = blocks / r[..., None] if soft else blocks * r[..., None]
        codes = to_e2m1(scaled, soft) if form.is_packed else to_e4m3(scaled, soft)
    return codes.reshape(y.shape), s


def normed(x: F32, z: F32, w: F32, eps: float) -> tuple[F32, F32]:
    """The rounded sum, and the normed one: squares are summed in f64, which no order of f32 is nearer to."""
    t = x + z
    h = of_bf16(bf16_bits(t))
    p = 1 / np.sqrt((t.astype(np.float64) ** 2).mean(axis=-1, keepdims=True) + eps)
    return h, (h * p.astype(np.float32) * w).astype(np.float32)


def gated(x: F32, u: F32, rounded: bool) -> F32:
    """silu(x) * u, the sigmoid in f64."""
    with np.errstate(all="ignore"):
        sigmoid = (1 / (1 + np.exp(-x.astype(np.float64)))).astype(np.float32)
        y = x * sigmoid * u
    return of_bf16(bf16_bits(y)) if rounded else y


def packed(codes: Codes) -> Codes:
    """Two codes a byte, the even one in the low half."""
    return codes[..., 0::2] | codes[..., 1::2] << 4


def tiled(s: Codes, filler: int = 0) -> Codes:
    """Scales [M, B] as tiles of 128x4, by the formula of their places; `filler` where there is no block."""
    rows, blocks = s.shape
    across = -(-blocks // 4)
    flat = np.full(-(-rows // 128) * across * 512, filler, np.uint8)
    m, k = np.indices(s.shape)
    flat[(m // 128) * across * 512 + (k // 4) * 512 + (m % 32) * 16 + (m % 128 // 32) * 4 + k % 4] = s
    return flat.reshape(-(-rows // 128), across, 32, 4, 4)


def format_of(name: str) -> BlockFormat:
    """The format that a quantiser of the library writes: the fp4 of norms and gates is that of nvfp4."""
    return next((form for known, form in FORMATS.items() if known in name), FORMATS["nvfp4"])


def expected(name: str, options: Mapping[str, str], given: Mapping[str, NDArray[np.generic]]) -> dict[str, Codes]:
    """What a quantiser of the library gives for the arrays of a call: bf16 by their bits, codes packed where the
    kernel packs them. Of a batch, what is behind `rows` is as it came."""
    form = format_of(name)
    soft, layout = options["quantiser"] == "soft", options["scales"]
    arrange = tiled if layout == "tiled" else lambda s: s
    stored = packed if form.is_packed else lambda q: q
    g = given.get("g", np.float32(1))
    if name.endswith("_quantize"):
        q, s = quantised(of_bf16(given["x"]), form, soft, np.float32(g))
        return {"q": stored(q), "s": arrange(s)}
    if name.startswith("add_rmsnorm"):
        h, y = normed(*(of_bf16(given[part]) for part in ("x", "z", "w")), float(given["eps"]))
        q, s = quantised(y, form, soft, np.float32(g))
        return {"h": bf16_bits(h), "q": stored(q), "s": arrange(s)}
    rounded = options["product"] == "rounded"
    if options["inputs"] == "separate":
        q, s = quantised(gated(of_bf16(given["x"]), of_bf16(given["u"]), rounded), form, soft, np.float32(g))
        return {"q": stored(q), "s": arrange(s)}
    every_q, every_s = given["q"].copy(), given["s"].copy()
    both = of_bf16(given["x"])
    half = both.shape[-1] // 2
    for n, count in enumerate(np.asarray(given["rows"], int)):
        y = gated(both[n, :count, :half], both[n, :count, half:], rounded)
        q, s = quantised(y, form, soft, np.float32(g[n]) if form.has_global else 1.0)
        every_q[n, :count] = stored(q)
        if layout == "linear":
            every_s[n, :count] = s
        else:
            where = tiled(np.ones((count, 4 * -(-s.shape[1] // 4)), np.uint8)).astype(bool)
            values = tiled(s)
            every_s[n, : len(values)] = np.where(where, values, every_s[n, : len(values)])
    return {"q": every_q, "s": every_s}
