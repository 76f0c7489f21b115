"""A text with labels is printed with them wherever a person reads it; what identifies a kernel has none."""

from __future__ import annotations

from pathlib import Path

import pytest
from folders import ROOT

import dojoir
from dojoir.ir.comments import commented_text
from dojoir.ir.text import canonical_text

TEXT = """kernel k(N, M)
in  x: f32[N, M]
out y: f32[N, M]

N @row
| M
| | y[{row}, {1}] = x[{row}, {1}]
"""


def test_labels_are_printed_as_they_were_written() -> None:
    kernel = dojoir.parse(TEXT)
    assert str(kernel) == TEXT and dojoir.parse(str(kernel)) == kernel
    assert dojoir.to_text(kernel, labels=True) == TEXT
    assert "y[{0}, {1}]" in dojoir.to_text(kernel) and "@row" in dojoir.to_text(kernel)
    assert "row" not in canonical_text(kernel)


def test_a_trace_and_a_move_show_them() -> None:
    trace = dojoir.Trace(dojoir.parse(TEXT))
    trace.apply("split(0.0, 8)")
    assert "y[{row}, 8*{1} + {2}]" in str(trace.kernel)
    assert "{0}" in "\n".join(trace.to_json()["kernel"]), "what is kept has depths"


@pytest.mark.parametrize("name", ["softmax", "matmul", "conv2d", "layernorm", "heat3d", "attention", "cholesky"])
def test_formatting_twice_is_formatting_once(name: str) -> None:
    if name not in dojoir.kernels.names():
        pytest.skip(f"there is no {name}")
    once = formatted(dojoir.kernels.source(name))
    assert formatted(once) == once and once.count("#") == dojoir.kernels.source(name).count("#")


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.dojo")), ids=lambda path: path.stem)
def test_examples_are_formatted_the_same_twice(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    once = formatted(text)
    assert formatted(once) == once
    assert dojoir.parse(once) == dojoir.parse(text)


def formatted(text: str) -> str:
    kernel = dojoir.parse(text)
    assert kernel.source is not None
    return commented_text(kernel, kernel.source)


def test_an_ambiguous_label_says_the_choices() -> None:
    kernel = dojoir.parse("kernel k(N)\nout y: f32[N]\nout z: f32[N]\nN @i\n| y[{i}] = 1\nN @i\n| z[{i}] = 2\n")
    with pytest.raises(dojoir.ArgumentError) as caught:
        kernel.path("@i")
    assert "0" in str(caught.value) and "1" in str(caught.value), caught.value
