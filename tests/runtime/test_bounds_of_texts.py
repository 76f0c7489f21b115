"""The bounds of `verify` for every text of practice: what the interpreter gives in the declared types is right."""

from __future__ import annotations

import pytest
from practice_calls import calls_of
from practice_texts import TEXTS

from dojoir.meaning.interpreter import Interpreter
from dojoir.meaning.packed import unpacked
from dojoir.runtime.verification.compare import compare
from dojoir.runtime.verification.inputs import make_inputs
from dojoir.runtime.verification.oracle import Oracle
from dojoir.runtime.verification.slack import slack_of

FEW, MANY = 8_000, 60_000
"""The statements of a call, and where it has no sizes for so few."""


@pytest.mark.parametrize("name", TEXTS)
def test_what_the_text_gives_in_its_order_is_allowed(name: str) -> None:
    """At the longest of small sizes, with inputs among which rounding may decide. One accumulator, as here, may be
    off by more than the parts that are asked of a target."""
    text, kernel = TEXTS[name], TEXTS[name].kernel
    sizes = (calls_of(text, FEW) or calls_of(text, MANY))[:3][-1]
    inputs = text.inputs(sizes) if text.made else make_inputs(kernel, sizes, 1, "wide")
    given, expected = Interpreter(kernel).run(inputs, sizes), Oracle(kernel, "llvm", 60.0).expected(sizes, inputs)
    for output, known in expected.items():
        buffer = kernel.buffer(output)
        actual = unpacked(buffer, given[output]).reshape(known.values.shape)
        found = compare(output, buffer.dtype, actual, known, 4 * slack_of(kernel))
        assert found.ok, f"{sizes}: {found.worst}"
