"""sin, cos, tan, atan and atan2 on f32 or f64 lanes, for arguments of any size; written as in
`codegen.exponentials`.

The first three need x in quarter turns: |x| 2/π = q + f, with q mod 4 and f exact to the last digits of the type,
where |x| is up to 2¹²⁸ or 2¹⁰²⁴ and may lie very near to a multiple of π/2 (Payne and Hanek, 1983). What makes it
possible is that the high digits of 2/π make whole turns with a large x, and need no multiplying.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf

from dojoir.codegen.lir.notation import F32, F64, I64, U32, U64, Body, Expr, fma, horner, select
from dojoir.codegen.math import precision
from dojoir.codegen.math.exponentials import with_sign
from dojoir.codegen.math.precision import Precision
from dojoir.support.frozen import dataclass

SHIFTER = 1.5 * 2.0**52
"""Added to a number below 2⁵¹, it rounds that to an integer, which then stands in the low bits of the sum."""


# -- f32, in f64 arithmetic --------------------------------------------------------------------------------
@dataclass(frozen=True)
class DigitWindow:
    """The digits of 2/π that matter to an f32 of at least `start`, in two f64: a higher digit times a multiple of
    start / 2²³ is a multiple of 4."""

    start: float
    high: float
    low: float


WINDOWS = (
    DigitWindow(0.0, 0.6366197723675814, -3.935735335036497e-17),
    DigitWindow(2.0**51, 1.0781392073056004e-08, -5.434184107743751e-25),
    DigitWindow(2.0**77, 7.166494911215068e-17, -2.1442872565786008e-33),
    DigitWindow(2.0**103, 2.7653040394377357e-24, -5.297650908280439e-41),
)
SIN_QUARTER = (
    1.5707963267256753, -0.6459640889207138, 0.07969245415363957, -0.004680539340583813, 0.00015692302878931154,
)  # fmt: skip
COS_QUARTER = (1.0, -1.2337005016346108, 0.2536683798014394, -0.020855169455144536, 0.0008948029272268163)


def _quarters_f32(body: Body, x: Expr) -> tuple[Expr, Expr]:
    """f (f64, |f| < 0.63) and q.

    |x| · high is below 2⁵¹, so that `t` rounds it; fma gives its distance from q exactly, but for a rounding of
    that distance's own size.
    """
    a = body.let("a", x.abs())
    wide = body.let("wide", a.convert(F64))
    high, low = wide.constant(WINDOWS[0].high), wide.constant(WINDOWS[0].low)
    for window in WINDOWS[1:]:
        beyond = body.let("beyond", a >= window.start)
        high, low = select(beyond, window.high, high), select(beyond, window.low, low)
    high = body.let("high", high)
    t = body.let("t", fma(wide, high, SHIFTER))
    f = fma(wide, low, fma(wide, high, -(t - SHIFTER)))
    return body.let("f", f), body.let("q", t.bits(U64).convert(U32))


def _pair_f32(body: Body, f: Expr) -> tuple[Expr, Expr]:
    """The sine and the cosine of f π/2, in f64."""
    square = body.let("square", f * f)
    return body.let("sine", f * horner(square, SIN_QUARTER)), body.let("cosine", horner(square, COS_QUARTER))


def _sine_f32(body: Body, f: Expr, q: Expr) -> Expr:
    """The bits of sin((q + f) π/2) as f32."""
    sine, cosine = _pair_f32(body, f)
    return select((q & 1).eq(0), sine, cosine).convert(F32).bits(U32) ^ ((q << 30) & 0x8000_0000)


# -- f64, in integer arithmetic ----------------------------------------------------------------------------
ONE_OVER_PI = (
    0x517C_C1B7_2722_0A94, 0xFE13_ABE8_FA9A_6EE0, 0x6DB1_4ACC_9E21_C820, 0xFF28_B1D5_EF5D_E2B0,
    0xDB92_371D_2126_E970, 0x0324_9775_04E8_C90E, 0x7F0E_F58E_5894_D39F, 0x7441_1AFA_975D_A242,
    0x74CE_3813_5A2F_BF20, 0x9CC8_EB1C_C1A9_9CFA, 0x4E42_2FC5_DEFC_941D, 0x8FFC_4BFF_EF02_CC07,
    0xF797_88C5_AD05_368F, 0xB69B_3F67_93E5_84DB, 0xA7A3_1FB3_4F2F_F516, 0xBA93_DD63_F5F2_F8BD,
    0x9E83_9CFB_C529_4975, 0x35FD_AFD8_8FC6_AE84,
)  # fmt: skip
"""Its binary digits after the point, 64 in a word."""

LOW_32 = 0xFFFF_FFFF
PI_OVER_4 = 0.7853981633974483
HALF_PI, HALF_PI_REST = 1.5707963267948966, 6.123233995736766e-17
SIN = (
    -0.16666666666666666, 0.008333333333333323, -0.00019841269841254784, 2.755731921405724e-06,
    -2.50521048798189e-08, 1.6058362900240875e-10, -7.578526914542776e-13,
)  # fmt: skip
COS = (
    0.041666666666666595, -0.0013888888888873043, 2.4801587288842122e-05, -2.755731417638164e-07,
    2.08757004278383e-09, -1.1358514242912644e-11,
)  # fmt: skip


def _digits(body: Body, position: Expr) -> list[Expr]:
    """192 binary digits of 1/(2π) · 2⁻⁶³ from `position` (below 1024) after the point on, in three u64, the first
    digits first.

    The words that hold them are found by halving: each bit of the position says how many words to skip.
    """
    words = [position.constant(word) for word in (0, *ONE_OVER_PI)]
    for skip in (8, 4, 2, 1):
        on = body.let(f"skip{skip}", ((position >> 6) & skip).ne(0))
        needed = skip + 3
        words = [body.let("word", select(on, words[i + skip], words[i])) for i in range(needed)]
    shift = body.let("shift", position & 63)
    back = body.let("back", 63 - shift)
    return [body.let("digits", (a << shift) | ((b >> 1) >> back)) for a, b in pairwise(words)]


def _fraction(body: Body, x: Expr) -> tuple[Expr, Expr]:
    """|x| / 2π without its integer part, times 2¹²⁸, in two u64 (high, low); for |x| ≥ ½.

    With |x| = m 2ⁿ and m a 64-bit integer, that is m times the digits of 1/(2π) from the n-th on. A product of
    integers modulo 2¹⁹², in words of 32 bits, of which the last 64 bits are left out.
    """
    bits = body.let("bits", x.bits(U64))
    exponent = body.let("exponent", (bits >> 52) & 0x7FF)
    first = body.let("first", exponent <= 1022)  # ½ ≤ |x| < 1 takes the digits of the next binade
    m = ((bits & ((1 << 52) - 1)) | (1 << 52)) << select(first, exponent.constant(10), 11)
    m = body.let("m", m)
    digits = _digits(body, body.let("position", select(first, exponent.constant(0), exponent - 1023)))
    words = [body.let("w", w) for pair in reversed(digits) for w in (pair & LOW_32, pair >> 32)]

    low_half, high_half = body.let("m_low", m & LOW_32), body.let("m_high", m >> 32)
    row, carry = [], low_half.constant(0)
    for w in words[1:]:
        total = body.let("total", low_half * w + carry)
        row.append(body.let("row", total & LOW_32))
        carry = total >> 32
    product, carry = [], low_half.constant(0)
    for w, above in zip(words, row, strict=False):
        total = body.let("total", high_half * w + above + carry)
        product.append(total)
        carry = total >> 32
    _, p2, p3, p4, p5 = product
    return body.let("turn", (p5 << 32) | (p4 & LOW_32)), body.let("turn_rest", (p3 << 32) | (p2 & LOW_32))


def _quarters_f64(body: Body, x: Expr) -> tuple[Expr, Expr, Expr]:
    """r, its rest in a second f64, and q (u64): |x| = q π/2 + r + rest, |r| ≤ π/4."""
    high, low = _fraction(body, x)
    q = body.let("q", (high + (1 << 61)) >> 62)
    f, f_low = body.let("quarter", (high << 2) | (low >> 62)), low << 2
    negative = body.let("negative", (f.bits(I64) >> 63).bits(U64))
    f, f_low = body.let("size", f ^ negative), body.let("size_rest", f_low ^ negative)
    a = body.let("f", (f & ~0x3FF).bits(I64).convert(F64) * 2.0**-64)
    b = (((f & 0x3FF) << 53) | (f_low >> 11)).bits(I64).convert(F64) * 2.0**-117
    r = body.let("r_rounded", a * HALF_PI)
    rest = body.let("r_rest", fma(a, HALF_PI, -r) + fma(a, HALF_PI_REST, b * HALF_PI))
    top = body.let("r_top", r + rest)
    sign = body.let("r_sign", negative & (1 << 63))
    small = body.let("small", x.abs() < PI_OVER_4)
    r, rest = (
        (top.bits(U64) ^ sign).bits(F64),
        (((r - top) + rest).bits(U64) ^ sign).bits(F64),
    )
    return (
        body.let("r", select(small, x.abs(), r)),
        body.let("rest", select(small, 0.0, rest)),
        body.let("quarters", select(small, 0, q)),
    )


def _pair_f64(body: Body, r: Expr, rest: Expr) -> tuple[Expr, Expr]:
    """The sine and the cosine of r + rest."""
    square = body.let("square", r * r)
    half = body.let("half", square * 0.5)
    sine = r + fma(r * square, horner(square, SIN), fma(-half, rest, rest))
    top = body.let("top", 1.0 - half)
    return sine, top + (((1.0 - top) - half) + fma(square * square, horner(square, COS), -(r * rest)))


def _sine_f64(body: Body, r: Expr, rest: Expr, q: Expr) -> Expr:
    """The bits of sin(q π/2 + r + rest)."""
    sine, cosine = _pair_f64(body, r, rest)
    return select((q & 1).eq(0), sine, cosine).bits(U64) ^ ((q & 2) << 62)


# -- both --------------------------------------------------------------------------------------------------
def sin(body: Body, x: Expr) -> Expr:
    """sin of radians: polynomials for the sine or the cosine of what is left of x, by the quarter turn."""
    if x.dtype == F32:
        f, q = _quarters_f32(body, x)
        return (_sine_f32(body, f, q) ^ (x.bits(U32) & 0x8000_0000)).bits(F32)
    r, rest, q = _quarters_f64(body, x)
    y = (_sine_f64(body, r, rest, q) ^ (x.bits(U64) & (1 << 63))).bits(F64)
    return select(x.abs() < inf, y, x - x)


def cos(body: Body, x: Expr) -> Expr:
    """cos of radians: the sine a quarter turn on."""
    if x.dtype == F32:
        f, q = _quarters_f32(body, x)
        return _sine_f32(body, f, body.let("next", q + 1)).bits(F32)
    r, rest, q = _quarters_f64(body, x)
    return select(x.abs() < inf, _sine_f64(body, r, rest, body.let("next", q + 1)).bits(F64), x - x)


def tan(body: Body, x: Expr) -> Expr:
    """tan of radians: the sine over the cosine of what is left of x, or the cosine over minus the sine in every
    other quarter."""
    if x.dtype == F32:
        f, q = _quarters_f32(body, x)
        sine, cosine = _pair_f32(body, f)
        even = body.let("even", (q & 1).eq(0))
        y = (select(even, sine, -cosine) / select(even, cosine, sine)).convert(F32)
        return (y.bits(U32) ^ (x.bits(U32) & 0x8000_0000)).bits(F32)
    r, rest, quarters = _quarters_f64(body, x)
    sine, cosine = _pair_f64(body, r, rest)
    sine, cosine = body.let("sine", sine), body.let("cosine", cosine)
    even = body.let("even", (quarters & 1).eq(0))
    y = select(even, sine, -cosine) / select(even, cosine, sine)
    return select(x.abs() < inf, (y.bits(U64) ^ (x.bits(U64) & (1 << 63))).bits(F64), x - x)


TAN_EIGHTH, TAN_THREE_EIGHTHS = 0.41421356, 2.41421356
"""Of π/8 and 3π/8, about."""


def atan(body: Body, x: Expr) -> Expr:
    """z + z³ q(z²), with |z| up to tan(π/8): z is |x|, or |x| turned back by a quarter or a half of π, added then;
    the sign of x."""
    p = precision.of(x.dtype)
    a = body.let("a", x.abs())
    middle, far = body.let("middle", a >= TAN_EIGHTH), body.let("far", a >= TAN_THREE_EIGHTHS)
    over = select(far, -1.0, select(middle, a - 1.0, a))
    under = select(far, a, select(middle, a + 1.0, a.constant(1.0)))
    turned = select(far, a.constant(p.half_pi), select(middle, a.constant(p.half_pi / 2), 0.0))
    rest = select(far, a.constant(p.half_pi_rest), select(middle, a.constant(p.half_pi_rest / 2), 0.0))
    return with_sign((turned + _small_atan(body, over / under, rest, p)).abs(), x, p)


def _small_atan(body: Body, z: Expr, rest: Expr, p: Precision) -> Expr:
    """atan z for |z| up to tan(π/8), and `rest`."""
    z = body.let("z", z)
    square = body.let("square", z * z)
    return z + fma(z * square, horner(square, p.atan), rest)


def atan2(body: Body, y: Expr, x: Expr) -> Expr:
    """The angle of the point (x, y), with the special cases of C99, annex F.9.1.4. It is atan of the smaller of
    |x| and |y| through the larger, turned back by an eighth of the circle where it is over tan(π/8). Then it is
    turned into its own eighth."""
    p = precision.of(x.dtype)
    a, b = body.let("a", x.abs()), body.let("b", y.abs())
    steep = body.let("steep", b > a)
    low, high = body.let("low", select(steep, a, b)), body.let("high", select(steep, b, a))
    tiny = high < p.smallest_normal * 2.0**p.digits
    by = select(
        high > 2.0**p.bias * 0.25, high.constant(0.5), select(tiny, high.constant(2.0 ** (p.digits + 2)), 1.0)
    )
    by = body.let("by", by)  # so that the sum of both is finite, and their comparison exact enough
    low, high = body.let("low", low * by), body.let("high", high * by)
    middle = body.let("middle", (low > high * TAN_EIGHTH) | low.eq(inf))
    over = select(middle, select(low.eq(inf), 0.0, low - high), low)
    under = select(middle, low + high, select(high.eq(0.0), 1.0, high))
    turned = select(middle, x.constant(p.half_pi / 2), 0.0)
    rest = select(middle, x.constant(p.half_pi_rest / 2), 0.0)
    small = body.let("small", _small_atan(body, over / under, rest, p))
    angle = body.let("angle", turned + small)
    # of the quarters each with its own rest, so that no more than one rounding is added
    up = body.let("up", select(steep, (p.half_pi - turned) - (small - p.half_pi_rest), angle))
    turned_back = 2 * p.half_pi - (up - 2 * p.half_pi_rest)
    number = with_sign(select(x.bits(p.signed) < 0, turned_back, up).abs(), y, p)
    return select(x.eq(x) & y.eq(y), number, x + y)
