"""The operations that the table of a dialect spells: the words that rules, values and helpers look up.

A line is a name, its operands by their letters, and what it gives, lane by lane unless it says otherwise. `a b c`
are values, `p` an address, `m` a mask, `n` a count or a stride in elements. Where an operation takes a scalar for
an operand, that is in every lane. None but those marked `needed` must be in a table: what is missing is made of
others, or done lane by lane.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from dojoir.support.frozen import dataclass

_TABLE = """
splat a                 needed: the scalar a in every lane
zero                    0 in every lane
iota                    0, 1, 2, … in the lanes
load p                  needed: lanes in a row in memory
load_if p m             the same where m says so, else 0; memory is read there alone
store p a               needed: a to memory, in a row
store_if p m a          the same where m says so; memory is written there alone
stream p a              a store past the caches to an aligned address
strided p n             lanes that are n elements apart
strided_if p n m        the same where m says so, else 0
strided_store p n a     a to elements that are n apart
strided_store_if p n m a  the same where m says so
gather p a              the elements at offsets a (i64) from p
gather_if p a m         the same where m says so, else 0
scatter p a b           b to the elements at offsets a (i64) from p
scatter_if p a m b      the same where m says so

add a b                 needed: a + b, integers wrap around
sub a b                 needed: a - b
mul a b                 a * b
div a b                 a / b; of integers, where neither is negative
rem a b                 what an integer division leaves, where neither is negative
quot a b                a / b of integers, rounded towards 0
rest a b                what that division leaves, with the sign of a
floordiv a b            a / b of integers, rounded down, for b > 0
mod a b                 what that division leaves, at least 0
add_s a b               a + the scalar b; for each operation in `_s`, the last operand is a scalar
sub_s a b               a - the scalar b
rsub_s a b              the scalar b - a
mul_s a b               a * the scalar b
div_s a b               a / the scalar b
rdiv_s a b              the scalar b / a
quot_s a b              a / the scalar b, of integers
rest_s a b              what the division by the scalar b leaves
sqrt a                  the square root, correctly rounded
neg a                   -a
neg_by_bits a           the same of a float, in words that no compiler takes apart
abs a                   |a|
loaded a                a, of a load that compilers leave where it stands
approx_exp2 a           2**a of an f32, right but for the last bits
approx_rsqrt a          one over the square root of an f32, right but for the last bits
floor a                 the float rounded down to a whole number
ceil a                  … rounded up
round a                 … rounded to the nearest, halves to even
fma a b c               a * b + c, rounded once
fma_s a b c             the same with a scalar b
fnma a b c              c - a * b, rounded once
fms a b c               a * b - c, rounded once
quads p                 i32 of four bytes each, in a row in memory; `load` where this is missing
dot_ii a b c            c and the four products of the bytes of a and b (i32), both i8, wrapping around
dot_ui a b c            the same where the bytes of a are u8
dot_uu a b c            the same where the bytes of both are u8
madd a b                i32 of the sums of two products of i16 each
max a b                 the larger; of floats: NaN where either is, -0 is below +0
min a b                 the smaller, likewise
max_s a b               the larger of a and the scalar b (integers)
min_s a b               the smaller of a and the scalar b (integers)
max_fast a b            a > b ? a : b (floats); where one is NaN, NaN will do as well
min_fast a b            a < b ? a : b (floats), likewise
max_number a b          the larger float; where one is NaN the other
min_number a b          the smaller float; where one is NaN the other
ldexp a b               a * 2**b of floats, rounded once
and a b                 bits, or masks of the same type
or a b                  bits, or masks
xor a b                 bits, or masks
not a                   bits, or masks
and_s a b               bits with the scalar b
or_s a b                bits with the scalar b
xor_s a b               bits with the scalar b
signed_or a b           the bits of floats: all but the sign or'ed, the sign and'ed
shl_i a b               a << b for a constant b
shr_i a b               a >> b for a constant b, zeros come in
sar_i a b               a >> b for a constant b, the sign comes in
shl a b                 a << b, a count for each lane
shr a b                 a >> b, zeros come in
sar a b                 a >> b, the sign comes in

eq a b                  needed: the mask of a == b
ne a b                  … a != b, true with a NaN
lt a b                  … a < b
le a b                  … a <= b
gt a b                  needed: … a > b
ge a b                  … a >= b
eq_s a b                … a == the scalar b
ne_s a b                … a != the scalar b
lt_s a b                … a < the scalar b
le_s a b                … a <= the scalar b
gt_s a b                … a > the scalar b
ge_s a b                … a >= the scalar b
select a b c            needed: where the mask a says so b, else c
true                    needed: the mask of all lanes
false                   needed: the mask of none
any a                   needed: whether the mask a has a lane
all a                   needed: whether the mask a has all lanes
first n                 the mask of the first n lanes
later n a               the mask of the first n lanes without the first a, a lanes further down
trim a                  the mask a with no lane behind the last in use

bitcast a               the same bits as another type of that width
convert a               another type: integers resized, floats to the nearest, float to integer saturated, NaN to 0
truncate a              a float to an integer rounded towards 0, anything where it does not fit
whole_floor a           a float rounded down to an integer, anything where it does not fit
whole_ceil a            … rounded up
whole_round a           … rounded to the nearest, halves to even
decode a                the bits of f16 (u16) to f32
encode a                f32 to the bits of f16 (u16), to the nearest
low a                   the lower half of a register
high a                  the upper half of a register

reduce_add a            the sum of the lanes, in any order
reduce_mul a            the product of the lanes
reduce_max a            the largest lane, as max says
reduce_min a            the smallest lane, as min says
reduce_max_fast a       the largest lane, as max_fast says
reduce_min_fast a       the smallest lane, as min_fast says

setvl n                 how many of n lanes are run at once, where operations are told a number
vlmax                   all lanes of the registers, as operations are told
below a b               the lanes from number a on that are below b, where operations are told a predicate
in_register             how many lanes a register has
at_work                 how many lanes a predicate says are at work
lanes                   as many lanes as the type says, as operations are told; that number where this is missing
keep_tail a c           a in the lanes at work, c in the others
fma_tail a b c          fma in the lanes at work, c in the others
fma_tail_s a b c        the same with a scalar b
"""


@dataclass(frozen=True)
class TableOperation:
    """One operation: the letters of its operands, what it gives, and whether a table cannot do without."""

    name: str
    operands: tuple[str, ...]
    meaning: str
    needed: bool


def _lines() -> Iterator[TableOperation]:
    for line in filter(None, _TABLE.splitlines()):
        head, meaning = re.split(r"\s{2,}", line, maxsplit=1)
        name, *operands = head.split()
        yield TableOperation(
            name, tuple(operands), meaning.removeprefix("needed: "), meaning.startswith("needed: ")
        )


OPERATIONS: Mapping[str, TableOperation] = MappingProxyType({found.name: found for found in _lines()})
"""The operations by name."""
