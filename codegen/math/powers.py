"""pow on f32 or f64 lanes: 2^(y log₂ |x|), the logarithm with more digits than the type has, and the special cases
of C99, annex F.9.4.4; written as in `codegen.exponentials`."""

from __future__ import annotations

from math import inf, nan

from dojoir.codegen.lir.notation import F32, F64, U64, Body, Expr, fma, horner, select
from dojoir.codegen.math import precision
from dojoir.codegen.math.exponentials import scale
from dojoir.codegen.math.logarithms import split
from dojoir.codegen.math.precision import DOUBLE

SHIFTER = DOUBLE.shifter


def pow(body: Body, x: Expr, y: Expr) -> Expr:
    """x to the y."""
    a = body.let("a", x.abs())
    power = body.let("power", _pow_f32(body, a, y) if x.dtype == F32 else _pow_f64(body, a, y))
    return _signs_and_special_cases(body, x, y, power)


def _signs_and_special_cases(body: Body, x: Expr, y: Expr, power: Expr) -> Expr:
    """x to the y, from |x| to the y."""
    p = precision.of(x.dtype)
    whole = body.let("whole", y.floor().eq(y))
    half = body.let("half", y * 0.5)
    odd = whole & half.floor().ne(half)
    power = (power.bits(p.unsigned) | select(odd, x.bits(p.unsigned) & p.sign, 0)).bits(p.dtype)
    power = select((x < 0.0) & (x > -inf) & ~whole, x.constant(nan), power)
    one = x.eq(1.0) | y.eq(0.0) | (x.eq(-1.0) & y.abs().eq(inf))
    return select(one, 1.0, power)


# -- f32, in f64 arithmetic --------------------------------------------------------------------------------
LOG2_F32 = (2.885390081790091, 0.9617966733341736, 0.5770835867199446, 0.4116726034643365, 0.3407323740471479)
EXP2_F32 = (
    1.0, 0.6931471838170313, 0.2402265092077616, 0.05550400375172705, 0.009618056918164124, 0.0013341950904714,
    0.00015461368303114307, 1.3359887382052215e-05,
)  # fmt: skip


def _pow_f32(body: Body, a: Expr, y: Expr) -> Expr:
    """a to the y for a ≥ 0: log₂ to 37 bits, as 2/ln 2 · artanh z with z = f / (2 + f)."""
    wide = body.let("wide", a.convert(F64))
    k, f = split(body, wide, DOUBLE, subnormals=False)
    z = body.let("z", f / (f + 2.0))
    log = select(a.eq(0.0), wide.constant(-inf), select(wide < inf, fma(z, horner(z * z, LOG2_F32), k), wide))
    exponent = body.let("clamped", (y.convert(F64) * log).at_least(-200.0).at_most(200.0))
    t = body.let("t", exponent + (SHIFTER + DOUBLE.bias))
    r = body.let("r", exponent - (t - (SHIFTER + DOUBLE.bias)))
    return (horner(r, EXP2_F32) * (t.bits(U64) << DOUBLE.digits).bits(F64)).convert(F32)


# -- f64, in pairs of f64 ----------------------------------------------------------------------------------
A0, A0_REST = 2.8853900817779268, 4.0710547481862066e-17
A1, A1_REST = 0.9617966939259756, 5.0577616648125907e-17
LOG2_F64 = (
    0.5770780163555851, 0.4121985831113712, 0.32059889790768054, 0.26230819919077947, 0.22195223867693187,
    0.1924024040134744, 0.16843174444688744, 0.1729672536037236,
)  # fmt: skip
"""log₂(1 + f) = z (A0 + A1 z² + z⁴ q(z²)) with z = f / (2 + f); A0 = 2/ln 2, A1 = A0/3."""


def _log2_pair(body: Body, a: Expr) -> tuple[Expr, Expr]:
    """log₂ a for a finite a > 0 as a sum of two f64, with an error below 2⁻⁶³ of it."""
    k, f = split(body, a, DOUBLE, subnormals=True)
    below = body.let("below", f + 2.0)
    below_rest = f - (below - 2.0)
    inverse = body.let("inverse", 1.0 / below)
    z = body.let("z", f * inverse)
    z_rest = body.let("z_rest", fma(-z, below_rest, fma(-z, below, f)) * inverse)

    square = body.let("square", z * z)
    square_rest = fma(z, z, -square) + 2.0 * z * z_rest
    second = body.let("second", square * A1)
    second_rest = fma(square, A1, -second) + fma(square_rest, A1, square * A1_REST)
    tail = body.let("tail", square * square * horner(square, LOG2_F64))
    series, series_rest = _sum(body, second, tail)
    factor, factor_rest = _sum(body, z.constant(A0), series)
    factor_rest = body.let("factor_low", factor_rest + (series_rest + second_rest + A0_REST))

    product = body.let("product", z * factor)
    product_rest = fma(z, factor, -product) + fma(z, factor_rest, z_rest * factor)
    log, log_rest = _sum(body, k, product)
    return _sum(body, log, body.let("log_low", log_rest + product_rest))


def _sum(body: Body, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """a + b rounded, and what the rounding lost, exactly, if |a| ≥ |b| or a = 0 (Dekker)."""
    total = body.let("sum", a + b)
    return total, body.let("lost", (a - total) + b)


def _pow_f64(body: Body, a: Expr, y: Expr) -> Expr:
    """a to the y for a ≥ 0."""
    log, log_rest = _log2_pair(body, a)
    ordinary = body.let("ordinary", (a > 0.0) & (a < inf))
    log = body.let("any_log", select(ordinary, log, select(a.eq(0.0), a.constant(-inf), a)))
    exponent = body.let("exponent", y * log)
    rest = fma(y, log, -exponent) + y * log_rest
    rest = select(ordinary & (exponent.abs() < 2000.0), rest, 0.0)
    clamped = body.let("clamped", exponent.at_least(-1100.0).at_most(1100.0))
    t = body.let("t", clamped + (SHIFTER + 2 * DOUBLE.bias))
    r = body.let("r", (clamped - (t - (SHIFTER + 2 * DOUBLE.bias))) + rest)
    value = body.let("value", horner(r, (1.0, DOUBLE.ln2, *DOUBLE.exp2)))
    return scale(body, value, body.let("k", t.bits(U64)), DOUBLE)
