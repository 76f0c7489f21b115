"""The text of a kernel: what is written once in it means what it meant when each operation was a line."""

from __future__ import annotations

import numpy as np
import pytest

import dojoir
from dojoir.errors import KernelError
from dojoir.meaning.inlining import MOST, inlined
from dojoir.meaning.interpreter import Interpreter, interpret


def test_what_is_used_once_is_written_there() -> None:
    lines = ["t1 = b0[i0]", "t2 = abs(t1)", "t3 = t1 + t2", "b1[i0] = t3"]
    assert inlined(lines) == ["t1 = b0[i0]", "b1[i0] = (t1 + (abs(t1)))"]


def test_elements_are_read_before_stores() -> None:
    lines = ["t1 = b1[i0]", "t2 = w1[i0] + 1.0", "w1[i0] = t2", "t3 = to_f16(t2)", "b2[i0] = t1", "b1[i0] = t3"]
    assert inlined(lines) == [
        "t2 = w1[i0] + 1.0", "t1 = b1[i0]", "w1[i0] = t2", "t3 = to_f16(t2)", "b2[i0] = t1", "b1[i0] = t3",
    ]  # fmt: skip


def test_a_rounding_stays_where_it_is() -> None:
    lines = ["t1 = b0[0]", "f32[0] = t1 + 1.0", "t2 = f32[0]", "f32[0] = t2 * 3.0", "t3 = f32[0]", "b1[0] = t3"]
    assert inlined(lines)[0] == "f32[0] = (b0[0]) + 1.0"
    assert inlined(lines)[1:] == lines[2:]


def test_a_long_chain_is_no_deep_one() -> None:
    """Python takes 200 nested parentheses; what is below here is nested more deeply."""
    lines = ["t0 = b0[0]", *(f"t{n} = abs(t{n - 1}) + 1.0" for n in range(1, 1000)), "b1[0] = t999"]
    written = inlined(lines)
    assert all(line.count("(") <= 2 * MOST for line in written)
    names: dict[str, object] = {"b0": [-3.0], "b1": [0.0]}
    exec("\n".join(written), names)
    assert names["b1"] == [1002.0]


def test_zeros_of_both_signs_are_two_numbers() -> None:
    kernel = dojoir.parse(
        "kernel f(N)\nin x: f64[N]\nout y: f64[N]\n"
        "N\n| y[{0}] = select(x[{0}] / 0.0 > 0 and x[{0}] / -0.0 < 0, 1, 2)\n"
    )
    assert interpret(kernel, {"x": np.array([1.0])})["y"][0] == 1


@pytest.mark.parametrize(
    "body",
    [
        "if {0} < 0\n| | s = 1\n| y[{0}] = s",
        "M - 5\n| | s = 1\n| y[{0}] = s",
        "if {0} < 0\n| | s = 1\n| | t = s\n| y[{0}] = s",
        "a[{0}] = 1\n| y[{0}] = a[{0} + 1]",
        "M - 5\n| | a[{1}] = 1\n| y[{0}] = a[i[{0}]]",
    ],
)
def test_what_was_not_written_shows(body: str) -> None:
    text = (
        "kernel f(N, M)\nin x: f32[N]\nin i: i32[N]\nout y: f32[N]\nin z: f32[M]\n"
        f"tmp s: f32\ntmp t: f32\ntmp a: f32[N + 1]\nN\n| {body}\n"
    )
    zeros = {"x": np.zeros(3, np.float32), "i": np.zeros(3, np.int32), "z": np.zeros(4, np.float32)}
    with pytest.raises(KernelError, match="is read before it is written") as caught:
        interpret(dojoir.parse(text), zeros)
    assert caught.value.diagnostic.code == "read-before-write"


def test_a_condition_on_data_holds_for_one_statement() -> None:
    """What is written and worked out under it is neither for the next statement."""
    text = "kernel f(N, M)\nin x: f32[N, M]\n{0}y: f32[N, M]\n"
    text += "N\n| M\n| | y[{{0}}, {{1}}] {1} 1 if x[{{0}}, 0] > 1\n{2}"
    x = np.array([[0, 1], [2, 3]], np.float32)
    after = "| | y[{0}, {1}] += x[{0}, {1}]\n"
    with pytest.raises(KernelError, match="is read before it is written"):
        interpret(dojoir.parse(text.format("out ", "=", after)), {"x": x})
    found = interpret(dojoir.parse(text.format("inout ", "+=", after)), {"x": x, "y": np.zeros((2, 2), np.float32)})
    assert found["y"].tolist() == [[0, 1], [3, 4]]


def test_what_is_run_again_gives_the_same() -> None:
    kernel = dojoir.kernels.load("softmax")
    again = Interpreter(kernel)
    random = np.random.default_rng(1)
    for shape in ((3, 5), (2, 7), (3, 5)):
        x = random.normal(size=shape).astype(np.float32)
        assert (again.run({"x": x}, {})["y"] == interpret(kernel, {"x": x})["y"]).all()
