"""What attackers and newcomers tripped on with texts: numbers within 64 bits, nesting, arguments, names."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hostile_values import PAIR

import dojoir

# -- 3: numbers within 64 bits -------------------------------------------------------------------------------
LARGE_MOVES = [
    f"{move.format(number)}"
    for number in (2**31, 2**62 + 1, 2**63 - 1, 2**63, 2**64, 2**70, "1" + "0" * 5000)
    for move in (
        "split(0, {0})",
        "split(1, {0})",
        "cut(0, {0})",
        "cut(1, N - {0})",
        "skew(0, 0.0, {0})",
        "shift(0, {0})",
        "pad_dims(t, 0, {0})",
        "tile(0, 0.0, {0}, {0})",
        "set_extent(0, N + {0})",
        'add_guard(0.0, "{0} > {{0}}")',
        "prefetch(0, x, {0})",
        "unroll_by(0, {0})",
    )
]


NEST = """\
kernel nest(N, M)
in  x: f32[N, M]
out y: f32[N, M]
tmp t: f32[N, M]

N
| M
| | t[{0}, {1}] = x[{0}, {1}] * 2
N
| M
| | y[{0}, {1}] = t[{0}, {1}] + 1
"""


def reads_again(kernel: dojoir.Kernel) -> None:
    for names in (False, True):
        assert dojoir.parse(dojoir.to_text(kernel, names=names)) == kernel


def test_3_what_a_move_makes_can_be_read_again() -> None:
    """Pairs of moves with numbers about the bounds of 64 bits: each is refused, or its kernel parses again."""
    rng = random.Random(3)
    legal = 0
    for text in (PAIR, NEST):
        kernel = dojoir.parse(text)
        for _ in range(80):
            after = kernel
            for move in rng.sample(LARGE_MOVES, 2):
                try:
                    after = dojoir.apply(after, move)
                except dojoir.DojoError:
                    continue
                legal += 1
                reads_again(after)
    assert legal > 20


@pytest.mark.parametrize("move", ["split(1, 9223372036854775808)", f"split(0, {2**64})"])
def test_3_a_number_beyond_64_bits_is_refused(move: str) -> None:
    verdict = dojoir.check(dojoir.parse(PAIR), move)
    assert not verdict and verdict.code == "number-too-large" and "64 bits" in verdict.reason


def test_3_numbers_add_up_over_several_moves() -> None:
    trace = dojoir.Trace(dojoir.parse(PAIR))
    with pytest.raises(dojoir.IllegalMove) as error:
        for _ in range(5):
            trace.apply(f"split(0, {2**31})")
            reads_again(trace.kernel)
    assert error.value.verdict.code == "number-too-large"


def test_3_a_nest_too_deep_to_be_read_again_is_refused() -> None:
    trace = dojoir.Trace(dojoir.parse(PAIR))
    with pytest.raises(dojoir.IllegalMove) as error:
        for _ in range(70):
            trace.apply('add_guard(0, 1, "N >= 1")')
    assert error.value.verdict.code == "too-deep"
    reads_again(trace.kernel)


WIDE = """\
kernel wide(N, M)
in  x: i64[1]
out y: i64[1]

1
| y[{0}] = x[{0}] + (SOMETHING)
"""


@pytest.mark.parametrize("value", ["4*N", "N + M", "3*(N // 2) - M", "N*2 - N % 3", "(4*N) // 8"])
def test_3_sizes_that_would_wrap_are_refused(value: str) -> None:
    import numpy as np

    kernel = dojoir.parse(WIDE.replace("SOMETHING", value))
    x = {"x": np.zeros(1, np.int64)}
    compiled = dojoir.compile(kernel)
    for n in (1, 5, 2**40, 2**60, 2**61, 2**62, 2**63 - 1):
        try:
            found = compiled.run(x, N=n, M=n)["y"][0]
        except dojoir.ArgumentError as error:
            assert error.diagnostic.code == "size-too-large"
            with pytest.raises(dojoir.ArgumentError, match="smaller sizes"):
                dojoir.interpret(kernel, x, N=n, M=n)
        else:
            assert found == eval(value, {"N": n, "M": n}) == dojoir.interpret(kernel, x, N=n, M=n)["y"][0]
            continue
        assert n >= 2**60
    with pytest.raises(dojoir.ArgumentError, match=r"64 bits|integer of at least 1"):
        compiled.run(x, N=2**63, M=1)


def test_3_loops_of_wrapping_extents_do_not_run_wild() -> None:
    import numpy as np

    kernel = dojoir.parse("kernel k(N)\nout y: f32[4]\n\n4\n| y[{0}] = 1\n4*N\n| if {0} < 4\n| | y[{0}] += 1\n")
    compiled = dojoir.compile(kernel)
    assert compiled.run({}, N=2)["y"].tolist() == [2.0] * 4
    with pytest.raises(dojoir.ArgumentError, match=r"N=4611686018427387904 a value of `4\*N`"):
        compiled(np.ones(4, np.float32), N=2**62)


# -- 6: nesting, arguments, names ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text", ["try(" * 500 + "simplify" + ")" * 500, "each(<scope>, " * 500 + "simplify" + ")" * 500]
)
def test_6_nesting_is_told(text: str) -> None:
    with pytest.raises(dojoir.ParseError, match="nest more than 64 deep"):
        dojoir.parse_pipeline(text)
    for query in ("not " * 1000 + "scope", "(" * 1000 + "scope" + ")" * 1000, "in " * 500 + "scope"):
        with pytest.raises(dojoir.ParseError, match="at most 64"):
            dojoir.find(dojoir.parse(PAIR), query)


@pytest.mark.parametrize("junk", [None, 1, 1.5, "softmax", b"x", [], ["split(0, 4)"], {}, object(), PAIR])
def test_6_what_is_no_kernel_and_no_move_is_told(junk: Any) -> None:
    kernel = dojoir.parse(PAIR)
    for ask in (
        dojoir.moves,
        dojoir.candidates,
        dojoir.prove,
        dojoir.Trace,
        dojoir.compile,
        dojoir.cost,
        dojoir.to_text,
    ):
        with pytest.raises(dojoir.ArgumentError):
            ask(junk)
    for call in (dojoir.check, dojoir.apply, dojoir.suggest, lambda k, m: dojoir.Trace(k).apply(m)):
        with pytest.raises((dojoir.ArgumentError, dojoir.ParseError)):
            call(kernel, junk)
    if not isinstance(junk, dict):
        with pytest.raises(dojoir.ArgumentError):
            dojoir.compile(kernel).run(junk)


def test_6_check_and_suggest_answer_alike() -> None:
    kernel = dojoir.parse(PAIR)
    for move in (
        "split(9, 4)",
        "split(@none, 4)",
        "reuse_dims(none, 0)",
        "vectorize(<writes none>)",
        "split(0, 0)",
    ):
        assert dojoir.check(kernel, move).code == dojoir.suggest(kernel, move).code
    for move in ("split(", "", "nonsense(1)", "split(0)"):
        for ask in (dojoir.check, dojoir.suggest):
            with pytest.raises(dojoir.ArgumentError):
                ask(kernel, move)


def test_6_no_kernel_takes_the_name_of_a_library_function() -> None:
    from dojoir.codegen.c.symbols import symbol

    for name in ("posix_memalign", "vaddq_f32", "sinf64x", "accept", "strdupa", "arc4random"):
        assert symbol(name) != name
    kernel = dojoir.parse(PAIR.replace("kernel pair", "kernel posix_memalign"))
    assert "int posix_memalign(" not in dojoir.emit(kernel, "avx512")
