"""Elementary functions on f32 lanes, in f32 arithmetic.

Each writes its formula into a `Body`; there are no branches and no tables, special cases are selected. Errors
are the largest over all 2³² inputs (`benchmarks/accuracy.py` prints them). Polynomials are minimax, found by
Remez exchange (`benchmarks/minimax.py`), with coefficients rounded to f32.
"""

from __future__ import annotations

from math import inf, nan

from dojoir.codegen.builder import F32, I32, U32, Body, Expr, fma, horner, select

SHIFTER = 1.5 * 2.0**23
"""Added to a number below 2²², it rounds that to an integer, which then stands in the low bits of the sum."""

SIGN = 0x8000_0000
INFINITY = 0x7F80_0000
SQRT_HALF = 0x3F35_04F3
TINY = 2.0**-126
"""The smallest normal number."""
LARGEST_SUBNORMAL = 2.0**-126 - 2.0**-149

LOG2_E, LOG2_E_REST = 1.4426950216293335, 1.925963033500011e-08
LN2_HIGH, LN2_LOW = 0.693145751953125, 1.42860682030941723e-06
"""The high part of ln 2 has 16 bits: its products with exponents are exact."""

EXP = (0.4999999403953552, 0.1666652113199234, 0.04166838899254799, 0.008368739858269691, 0.0013814582489430904)
EXP_FAST = (0.499992311000824, 0.16667120158672333, 0.04189027473330498, 0.008312085643410683)
EXP2 = (
    0.24022647738456726, 0.05550359562039375, 0.009618518874049187, 0.001339094596914947, 0.00015324039850383997
)  # fmt: skip
LOG = (
    -0.49999988079071045, 0.33333325386047363, -0.25001585483551025, 0.2000196874141693, -0.16608986258506775,
    0.14181877672672272, -0.1324387788772583, 0.12904387712478638, -0.07619428634643555,
)  # fmt: skip
LOG_FAST = (
    -0.5000032186508179, 0.3333471417427063, -0.249712273478508, 0.19906866550445557, -0.17243321239948273,
    0.16180653870105743, -0.10081908106803894,
)  # fmt: skip
LOG2 = (
    -0.7213473320007324, 0.4808982312679291, -0.3606966435909271, 0.2885674238204956, -0.2396170198917389,
    0.2046012431383133, -0.19106878340244293, 0.18617096543312073, -0.10992511361837387,
)  # fmt: skip

TANH = (
    -0.33333298563957214, 0.13332222402095795, -0.05385243892669678, 0.0213033277541399, -0.007410040125250816,
    0.0015850123018026352,
)  # fmt: skip
TWO_OVER_SQRT_PI = 1.128379225730896
ERF_SMALL = (
    -6.548794573291161e-08, -0.3761257231235504, 0.11282717436552048, -0.026802552863955498, 0.005051095504313707,
    -0.0006315105711109936,
)  # fmt: skip
ERF_LARGE = (
    0.00011498451931402087, 1.128014087677002, 0.636604368686676, 0.10444524884223938, -0.022477401420474052,
    0.003106718650087714, -0.00020247306383680552,
)  # fmt: skip


# -- exp ---------------------------------------------------------------------------------------------------
def _reduce(body: Body, x: Expr, bias: int) -> tuple[Expr, Expr]:
    """r and n + bias, where x = n ln 2 + r and |r| ≤ ln 2 / 2 (Cody and Waite). Only the low bits of the integer
    count: it is to be shifted into the place of the exponent."""
    t = body.let("t", fma(x, LOG2_E, SHIFTER + bias))
    n = body.let("n", t - (SHIFTER + bias))
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))
    return body.let("r", r), body.let("k", t.bits(U32))


def _scale(body: Body, p: Expr, k: Expr) -> Expr:
    """`2**n * p` for -252 ≤ n ≤ 254, where k is n + 254: by two factors, so that a subnormal result is rounded
    once and overflow gives inf."""
    first = body.let("first", (k >> 1) << 23)
    second = (k << 23) - first
    return p * first.bits(F32) * second.bits(F32)


def exp(body: Body, x: Expr) -> Expr:
    """eˣ = 2ⁿ eʳ, with a polynomial of degree 6 for eʳ."""
    r, k = _reduce(body, x.at_least(-104.0).at_most(89.0), 254)
    return _scale(body, body.let("p", horner(r, (1.0, 1.0, *EXP))), k)


def exp_fast(body: Body, x: Expr) -> Expr:
    """eˣ with a polynomial of degree 5. Subnormal results are 0, and inf begins at 88.38 instead of 88.73."""
    r, k = _reduce(body, x.at_least(-88.0).at_most(89.0), 127)
    return horner(r, (1.0, 1.0, *EXP_FAST)) * (k << 23).bits(F32)


def exp2(body: Body, x: Expr) -> Expr:
    """2ˣ = 2ⁿ 2ʳ, with a polynomial of degree 6 for 2ʳ."""
    x = body.let("clamped", x.at_least(-151.0).at_most(129.0))
    t = body.let("t", x + (SHIFTER + 254))
    r = body.let("r", x - (t - (SHIFTER + 254)))
    p = body.let("p", horner(r, (1.0, 0.6931471824645996, *EXP2)))
    return _scale(body, p, body.let("k", t.bits(U32)))


# -- log ---------------------------------------------------------------------------------------------------
def _split(body: Body, x: Expr, subnormals: bool) -> tuple[Expr, Expr]:
    """k and f, where x = 2ᵏ (1 + f) and 1 + f is between √½ and √2, for a positive finite x."""
    if subnormals:
        tiny = body.let("tiny", x < TINY)
        bits = body.let("bits", select(tiny, x * 2.0**23, x).bits(I32))
    else:
        bits = body.let("bits", x.bits(I32))
    e = body.let("e", (bits - SQRT_HALF) >> 23)
    k = e.convert(F32)
    if subnormals:
        k = k - select(tiny, x.constant(23.0), 0.0)
    f = (bits - (e << 23)).bits(F32) - 1.0
    return body.let("exponent", k), body.let("f", f)


def _log_ends(x: Expr, y: Expr, zero: float = 0.0) -> Expr:
    """y, but what a logarithm is at 0, inf, NaN and below 0. Numbers up to `zero` in size count as 0."""
    bad = select(x < -zero, x.constant(nan), select(x <= zero, x.constant(-inf), x))
    return select(x > zero, select(x < inf, y, x), bad)


def log(body: Body, x: Expr) -> Expr:
    """k ln 2 + ln(1 + f), with f + f² q(f), q of degree 8, for the second."""
    k, f = _split(body, x, subnormals=True)
    correction = body.let("correction", f * f * horner(f, LOG))
    high = body.let("high", fma(k, LN2_HIGH, f))
    low = fma(k, LN2_HIGH, -high) + f
    return _log_ends(x, high + (low + fma(k, LN2_LOW, correction)))


def log_fast(body: Body, x: Expr) -> Expr:
    """As `log`, with q of degree 6. Subnormal x count as 0."""
    k, f = _split(body, x, subnormals=False)
    q = body.let("q", horner(f, LOG_FAST))
    return _log_ends(x, fma(k, LN2_HIGH + LN2_LOW, fma(f * f, q, f)), LARGEST_SUBNORMAL)


def log2(body: Body, x: Expr) -> Expr:
    """k + log₂(1 + f), with f log₂e + f² q(f), q of degree 8, for the second."""
    k, f = _split(body, x, subnormals=True)
    rest = body.let("rest", fma(f, LOG2_E_REST, f * f * horner(f, LOG2)))
    return _log_ends(x, k + fma(f, LOG2_E, rest))


# -- tanh, erf, sigmoid ------------------------------------------------------------------------------------
def _with_sign(magnitude: Expr, x: Expr) -> Expr:
    """`magnitude`, which is not negative, with the sign of x."""
    return (magnitude.bits(U32) | (x.bits(U32) & SIGN)).bits(F32)


def tanh(body: Body, x: Expr) -> Expr:
    """x + x³ p(x²) below 0.8, 1 - 2 / (exp(2 |x|) + 1) above, and the sign of x."""
    a = body.let("a", x.abs())
    square = body.let("square", x * x)
    small = body.let("small", fma(a * square, horner(square, TANH), a))
    r, k = _reduce(body, (a * 2.0).at_most(20.0), 127)
    z = horner(r, (1.0, 1.0, *EXP)) * (k << 23).bits(F32)
    large = 1.0 - 2.0 / (z + 1.0)
    return _with_sign(select(a < 0.8, small, large), x)


def erf(body: Body, x: Expr) -> Expr:
    """x p(x²) below 0.85, 1 - exp(-q(|x|)) above, where q fits -ln(erfc), and the sign of x."""
    a = body.let("a", x.abs())
    square = body.let("square", x * x)
    small = body.let("small", fma(a, TWO_OVER_SQRT_PI, a * horner(square, ERF_SMALL)))
    near = body.let("near", a.at_most(4.0))
    r, k = _reduce(body, body.let("logarithm", -horner(near, ERF_LARGE)), 127)
    large = 1.0 - horner(r, (1.0, 1.0, *EXP)) * (k << 23).bits(F32)
    return _with_sign(select(a < 0.85, small, large), x)


def sigmoid(body: Body, x: Expr) -> Expr:
    """1 / (1 + z) for x ≥ 0 and z / (1 + z) below, with z = exp(-|x|); the quotient is corrected once."""
    r, k = _reduce(body, (-x.abs()).at_least(-104.0), 127 + 64)
    p = body.let("p", horner(r, (1.0, 1.0, *EXP)))
    z = body.let("z", p * (k << 23).bits(F32) * 2.0**-64)
    below = body.let("below", z + 1.0)
    below_rest = body.let("below_rest", z - (below - 1.0))
    above = body.let("above", select(x < 0.0, z, x.constant(1.0)))
    inverse = body.let("inverse", 1.0 / below)
    quotient = body.let("quotient", above * inverse)
    remainder = fma(-quotient, below_rest, fma(-quotient, below, above))
    return fma(remainder, inverse, quotient)


def rsqrt(body: Body, x: Expr) -> Expr:
    """1 / √x, the two operations each rounded."""
    return 1.0 / x.sqrt()
