"""Pair statements: what they are written out as, where their keys are made and read, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from able import can_run
from paired_texts import BOTH, LEAST, MIDDLE, RAGGED, ROWS, same

import dojoir

HOST = ("llvm", "c", "avx2", "avx512")

WRITTEN_OUT = """kernel rows(M, N)
where N <= 2147483648
in  x: f32[M, N]
out m: f32[M]
out at: i32[M]
tmp m_at: i64[M]

M @i
| m_at[{0}] = argmax_key(f32(-inf), 0)
| N @j
| | m_at[{0}] max= argmax_key(x[{0}, {1}], {1})
| m[{0}] = value_of(f32, m_at[{0}])
| at[{0}] = argmax_of(i32, m_at[{0}])
"""


# -- text --------------------------------------------------------------------------------------------------
def test_a_pair_is_written_out_as_its_key() -> None:
    kernel = dojoir.parse(ROWS)
    assert dojoir.to_text(kernel) == WRITTEN_OUT
    for text in (ROWS, LEAST, MIDDLE, BOTH, RAGGED):
        kernel = dojoir.parse(text)
        dojoir.prove(kernel)
        for names in (False, True):
            again = dojoir.parse(dojoir.to_text(kernel, names=names))
            assert again == kernel
            assert again.hash == kernel.hash


def test_the_builder_says_the_same() -> None:
    with dojoir.build.kernel("rows", "M", "N") as b:
        x = b.input("x", "f32", ["M", "N"])
        m, at = b.output("m", "f32", ["M"]), b.output("at", "i32", ["M"])
        with b.scope("M") as i:
            b.set((m[i], at[i]), (-float("inf"), 0))
            with b.scope("N") as j:
                b.max((m[i], at[i]), (x[i, j], j))
    assert b.kernel == dojoir.parse(ROWS)
    with dojoir.build.kernel("k", "N") as b, b.scope("N") as i:
        m, at = b.inout("m", "f32", ["N"]), b.inout("at", "i32", ["N"])
        for target, value in (((m[i], at[i]), 3), (m[i], (3.0, 4)), ((m[i], at[i]), (at[i], 3))):
            with pytest.raises(dojoir.ArgumentError) as caught:
                b.max(target, value)
            assert caught.value.diagnostic.code == "bad-pair"
        b.min((m[i], at[i]), (1.0, i))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        # nothing else uses the halves in all of the time loop but what reads them: the inner scope alone
        (
            "T\n| (m[0], at[0]) = (-inf, 0)\n| N\n| | (m[0], at[0]) max= (x[{0}, {1}], {1})\n| y[{0}] = m[0]\n",
            [
                "| N",
                "| | m_at[0] max= argmax_key(x[{0}, {1}], {1})",
                "| m[0] = value_of(f32, m_at[0])",
                "| at[0] = argmax_of(i32, m_at[0])",
                "| y[{0}] = m[0]",
            ],
        ),
        # a running maximum is read in each step
        (
            "m[0] = -inf\nat[0] = 0\nT\n| (m[0], at[0]) max= (x[{0}, 0], {0})\n| y[{0}] = m[0]\n",
            [
                "| m_at[0] = -9223372036854775808",
                "| m_at[0] max= argmax_key(x[{0}, 0], {0})",
                "| at[0] = argmax_of(i32, m_at[0]) if m_at[0] > argmax_key(m[0], at[0])",
                "| m[0] = value_of(f32, m_at[0]) if m_at[0] > argmax_key(m[0], -2147483648)",
                "| y[{0}] = m[0]",
            ],
        ),
        # a whole nest reduces; the elements are those of an inner scope, and a guard inside of it
        (
            "T\n| (m[{0}], at[{0}]) = (-inf, 0)\nN\n| T\n| | if {1} > 0\n"
            "| | | (m[{1} - 1], at[{1} - 1]) max= (x[{1}, {0}], {0})\nT\n| y[{0}] = m[{0}]\n",
            [
                "T",
                "| if {0} > 0",
                "| | m_at[{0} - 1] = -9223372036854775808",
                "N",
                "| T",
                "| | if {1} > 0",
                "| | | m_at[{1} - 1] max= argmax_key(x[{1}, {0}], {0})",
            ],
        ),
        # the scope inside is longer in each iteration: around the one statement
        (
            "T\n| (m[{0}], at[{0}]) = (-inf, 0)\nT\n| {0} + 1\n| | (m[{1}], at[{1}]) max= (x[{0}, 0], {0})\n"
            "T\n| y[{0}] = m[{0}]\n",
            ["T", "| {0} + 1", "| | m_at[{1}] = -9223372036854775808"],
        ),
    ],
)
def test_where_a_key_is_made_and_read(text: str, lines: list[str]) -> None:
    head = "kernel k(T, N)\nin x: f32[T, N]\nout y: f32[T]\ntmp m: f32[T]\ntmp at: i32[T]\n\n"
    kernel = dojoir.parse(head + text)
    written = dojoir.to_text(kernel).splitlines()
    assert any(written[n : n + len(lines)] == lines for n in range(len(written))), "\n".join(written)
    dojoir.prove(kernel)
    x = np.random.default_rng(1).integers(-3, 4, (7, 5)).astype(np.float32)
    expected = dojoir.interpret(kernel, {"x": x})
    for target in filter(can_run, HOST):
        assert same(dojoir.compile(dojoir.optimize(kernel, target).kernel, target).run({"x": x}), expected)


# -- errors ------------------------------------------------------------------------------------------------
def _rows(old: str, new: str) -> str:
    assert old in ROWS
    return ROWS.replace(old, new)


@pytest.mark.parametrize(
    ("text", "code", "cure"),
    [
        (
            _rows("f32", "f64"),
            "bad-pair",
            "at[{0}] = {1} if x[{0}, {1}] > m[{0}], and behind it m[{0}] max= x",
        ),
        (_rows("f32", "i64"), "bad-pair", "write at[{0}] = "),
        (_rows("x: f32", "x: f64"), "bad-pair", "write f32(x[{0}, {1}])"),
        (_rows("m: f32", "m: bool"), "bad-pair", "declare it i32"),
        (_rows("at: i32", "at: f32"), "bad-pair", "declare it i32"),
        (_rows("max=", "+="), "bad-pair", "by max= or min=, not by +="),
        (_rows("], {j})", "], {i} * {j})"), "bad-pair", "write i32({0} * {1})"),
        (_rows("], {j})", "], i64({j}))"), "bad-pair", "write i32(i64({1}))"),
        (_rows("], {j})", "], u32({j}))"), "bad-pair", "write i32(u32({1}))"),
        (_rows("], {j})", "], 0.5)"), "bad-pair", "write i32(0.5)"),
        (_rows("], {j})", "], 4294967296)"), "bad-pair", "write i32(4294967296)"),
        (_rows("at[{i}]) max=", "at[{j}]) max="), "bad-pair", "index both alike"),
        (_rows("at[{i}]) max=", "m[{i}]) max="), "bad-pair", "one for the values and one for the places"),
        (_rows("(x[{i}, {j}], {j})", "(x[{i}, {j}], at[{i}])"), "bad-pair", "copy these into a tmp"),
        (_rows("(x[{i}, {j}], {j})", "x[{i}, {j}]"), "bad-pair", "a pair is assigned a pair"),
        (_rows("(m[{i}], at[{i}]) max=", "m[{i}] max="), "bad-pair", "a pair stands behind a pair"),
        (_rows("x: f32", "x: i32"), "type-mismatch", "f32(x[{0}, {1}])"),
        (_rows("(-inf, 0)", "(-inf, 0.5)"), "type-mismatch", "i32(0.5)"),
    ],
)
def test_what_is_no_pair_is_refused_with_its_cure(text: str, code: str, cure: str) -> None:
    with pytest.raises(dojoir.KernelError) as caught:
        dojoir.parse(text)
    assert caught.value.diagnostic.code == code
    assert cure in str(caught.value), caught.value
    assert caught.value.diagnostic.span is not None


def test_a_pair_at_an_index_from_data_names_what_to_write() -> None:
    """And that is right: the pairs of each group."""
    head = "kernel k(N, M)\nin x: f32[N]\nin idx: i32[N]\nout m: f32[M]\nout at: i32[M]\n"
    pair = "N\n| (m[idx[{0}]], at[idx[{0}]]) max= (x[{0}], {0})\n"
    with pytest.raises(dojoir.KernelError) as caught:
        dojoir.parse(f"{head}\nM\n| (m[{{0}}], at[{{0}}]) = (-inf, 0)\n{pair}")
    message = str(caught.value)
    line = "key[idx[{0}]] max= argmax_key(x[{0}], {0})"
    for part in (line, "-9223372036854775808", "value_of(f32, key[…])", "argmax_of(i32, key[…])"):
        assert part in message
    text = f"{head}tmp key: i64[M]\n\nM\n| key[{{0}}] = -9223372036854775808\nN\n| {line}\n"
    text += "M\n| m[{0}] = value_of(f32, key[{0}])\n| at[{0}] = argmax_of(i32, key[{0}])\n"
    kernel = dojoir.parse(text.replace("(N, M)", "(N, M)\nwhere N <= 2147483648"))
    x, idx = np.array([3, 1, 3, 7], np.float32), np.array([0, 1, 0, 1], np.int32)
    for target in filter(can_run, HOST):
        found = dojoir.compile(kernel, target).run({"x": x, "idx": idx}, M=2)
        assert (found["m"].tolist(), found["at"].tolist()) == ([3, 7], [0, 3])


@pytest.mark.parametrize(
    ("value", "cure"),
    [
        ("argmax_key(1.5, 0)", "write f32(1.5)"),
        ("argmax_key(x[{0}], 0)", "write f32(x[{0}])"),
        ("argmin_key(f32(x[{0}]), k[{0}])", "write i32(k[{0}])"),
        ("argmin_key(f32(x[{0}]), 1.0)", "write i32(1.0)"),
        ("i64(value_of(f64, k[{0}]))", "write f64(value_of(f32, k[{0}]))"),
        ("i64(argmax_of(f32, k[{0}]))", "write f32(argmax_of(i32, k[{0}]))"),
        ("argmax_of(i64, i32(k[{0}]))", "an i64, and i32(k[{0}]) is i32"),
    ],
)
def test_types_of_keys(value: str, cure: str) -> None:
    with pytest.raises(dojoir.KernelError) as caught:
        dojoir.parse(f"kernel k(N)\nin x: f64[N]\ninout k: i64[N]\n\nN\n| k[{{0}}] = {value}\n")
    assert caught.value.diagnostic.code == "type-operand"
    assert cure in str(caught.value), caught.value


def test_a_call_with_too_many_places_breaks_a_fact() -> None:
    kernel = dojoir.parse(ROWS)
    assert [str(fact) for fact in kernel.facts]
    with pytest.raises(dojoir.DojoError, match="N <= 2147483648"):
        dojoir.parse(ROWS).specialize(N=2**31 + 1)
