"""The operations that an expression may use: their names, arity and the class that decides their types."""

from __future__ import annotations

from enum import Enum

from dojoir.support.frozen import dataclass


class Class(Enum):
    """How an operation types: what its operands must be and what it gives."""

    ARITHMETIC = "arithmetic"  # any number, operands of one type; gives that type
    FLOAT = "float"  # floats only
    INTEGER = "integer"  # integers of one type, the second not 0; gives that type
    BITS = "bits"  # integers of one type; gives that type
    SHIFT = "shift"  # an integer, and a count that is one of any type; gives the type of the first
    COMPARISON = "comparison"  # operands of one type; gives bool
    LOGICAL = "logical"  # bools; gives bool
    KEY = "key"  # a number and a place, each of at most 32 bits; gives an i64 that orders as the pair
    SELECT = "select"  # bool, then two of one type
    WHEN = "when"  # bool, then what a statement stores or accumulates where that holds; only there


COMPARED, SUM, PRODUCT, SIGN, ATOM = 5, 9, 10, 11, 13
"""How tightly an operand of a comparison must bind at least, and how tightly sums, products, signs and what stands
alone do."""


@dataclass(frozen=True)
class Operation:
    """`symbol` is the infix or prefix spelling, None for a call. `precedence` grows with binding strength."""

    name: str
    arity: int
    kind: Class
    symbol: str | None = None
    precedence: int = ATOM


ELEMENTARY = (
    "exp", "exp2", "log", "log2", "pow", "rsqrt", "tanh", "erf", "sigmoid", "sin", "cos", "tan", "atan", "expm1",
    "log1p", "log10", "erfc", "sinh", "cosh", "asin", "acos", "asinh", "acosh", "atanh", "atan2", "hypot",
    "floor_div",
)  # fmt: skip
"""The elementary functions, and rsqrt: their results may be off by more than one rounding. Every other
operation on floats is rounded once."""

OPERATIONS: dict[str, Operation] = {
    op.name: op
    for op in (
        Operation("when", 2, Class.WHEN, "if", 0),
        Operation("or", 2, Class.LOGICAL, "or", 1),
        Operation("and", 2, Class.LOGICAL, "and", 2),
        Operation("not", 1, Class.LOGICAL, "not", 3),
        Operation("lt", 2, Class.COMPARISON, "<", 4),
        Operation("le", 2, Class.COMPARISON, "<=", 4),
        Operation("gt", 2, Class.COMPARISON, ">", 4),
        Operation("ge", 2, Class.COMPARISON, ">=", 4),
        Operation("eq", 2, Class.COMPARISON, "==", 4),
        Operation("ne", 2, Class.COMPARISON, "!=", 4),
        Operation("bitor", 2, Class.BITS, "|", COMPARED),
        Operation("bitxor", 2, Class.BITS, "^", 6),
        Operation("bitand", 2, Class.BITS, "&", 7),
        Operation("shl", 2, Class.SHIFT, "<<", 8),
        Operation("shr", 2, Class.SHIFT, ">>", 8),
        Operation("add", 2, Class.ARITHMETIC, "+", SUM),
        Operation("sub", 2, Class.ARITHMETIC, "-", SUM),
        Operation("mul", 2, Class.ARITHMETIC, "*", PRODUCT),
        Operation("div", 2, Class.FLOAT, "/", PRODUCT),
        Operation("floordiv", 2, Class.INTEGER, "//", PRODUCT),
        Operation("mod", 2, Class.INTEGER, "%", PRODUCT),
        Operation("neg", 1, Class.ARITHMETIC, "-", SIGN),
        Operation("bitnot", 1, Class.BITS, "~", SIGN),
        Operation("abs", 1, Class.ARITHMETIC),
        Operation("min", 2, Class.ARITHMETIC),
        Operation("max", 2, Class.ARITHMETIC),
        Operation("argmax_key", 2, Class.KEY),
        Operation("argmin_key", 2, Class.KEY),
        Operation("select", 3, Class.SELECT),
        Operation("fma", 3, Class.FLOAT),
        *(
            Operation(name, 2, Class.FLOAT)
            for name in ("pow", "atan2", "hypot", "copysign", "fmod", "floor_mod", "floor_div")
        ),
        *(
            Operation(name, 1, Class.FLOAT)
            for name in (
                "exp", "log", "log2", "exp2", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "sin", "cos",
                "tan", "atan", "expm1", "log1p", "log10", "erfc", "sinh", "cosh", "asin", "acos", "asinh", "acosh",
                "atanh", "floor", "ceil", "round",
            )
        ),
    )
}  # fmt: skip

INFIX, PREFIX = ({op.symbol: op.name for op in OPERATIONS.values() if op.symbol and op.arity == n} for n in (2, 1))
"""The operation of each sign between two operands, and before one."""

MAY_FAIL = frozenset(op.name for op in OPERATIONS.values() if op.kind in (Class.INTEGER, Class.SHIFT))
"""The operations that are an error of the run for some operands: a divisor of 0, a count out of range."""

CALLS = frozenset(op.name for op in OPERATIONS.values() if op.symbol is None)

OF_KEYS = ("value_of", "argmax_of", "argmin_of")
"""The operations that take the key of a pair apart: `value_of(f32, key)`, `argmax_of(i32, key)`."""

CONVERSIONS = ("sat", "round_away", "round_to_zero", "bitcast", *OF_KEYS)
"""The conversions to a type by name, `sat(f4e2m1, x)`; a cast, `f16(x)`, is the plain one."""

ACCUMULATIONS: dict[str, str] = {
    "+=": "add",
    "*=": "mul",
    "max=": "max",
    "min=": "min",
    "^=": "bitxor",
    "&=": "bitand",
    "|=": "bitor",
}
"""The operation that each accumulating statement repeats."""
