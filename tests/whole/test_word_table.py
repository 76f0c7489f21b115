"""The table of `drawing` has every word of the language, and its settings draw them."""

from __future__ import annotations

import re
from random import Random

from drawing import draw
from drawing.table import TABLE, Tally, words_in
from folders import ROOT

import dojoir
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.nodes import FP_MODES, MARKS, RELATIONS
from dojoir.ir.operations import ACCUMULATIONS, CONVERSIONS, OPERATIONS
from dojoir.ir.words import ATTRIBUTES

GRAMMAR = ROOT / "grammar" / "dojo.lark"


def test_every_word_of_the_language_is_in_the_table() -> None:
    """A word that the language gets is drawn from then on, or this fails."""
    written = re.sub(r"//.*", "", GRAMMAR.read_text(encoding="utf-8"))
    assert set(re.findall(r'"([a-z]+)"', written)) == TABLE["word"].keys()
    assert TABLE["fp"].keys() == set(FP_MODES) and TABLE["mark"].keys() == set(MARKS)
    assert TABLE["type"].keys() == DTYPES.keys() and TABLE["relation"].keys() == set(RELATIONS)
    assert TABLE["attribute"].keys() == set(ATTRIBUTES)
    assert TABLE["operator"].keys() == {"=", *ACCUMULATIONS}
    assert TABLE["operation"].keys() == OPERATIONS.keys()
    assert TABLE["conversion"].keys() == {"cast", *CONVERSIONS}


NOT_DRAWN = {("attribute", "swizzle"): "walks on GPUs give it to arrays in shared memory, by the move"}
"""Words that no setting draws, and what does."""


def test_every_word_of_the_table_is_drawn() -> None:
    tally = Tally(1)
    for number in range(400):
        tally.add(draw("any", Random(f"words {number}")))
        if number % 4 == 0:
            tally.add(draw("runnable", Random(f"words {number}"), small=True, strided=True))
    assert {words[0] for words in tally.never(1)} == NOT_DRAWN.keys()


def test_words_are_read_off_the_tree() -> None:
    kernel = dojoir.parse("""kernel f(N)
where N >= 2
in ids: i32[8] distinct
inout y: f16[N, 16]

N : p
| 8
| | if {1} >= 1
| | | y[{0}, ids[7 - {1}]] += sat(f16, inf) if ids[{1} % 8] > 2 or not {0} == 1
""")
    assert words_in(kernel) == {
        *(("word", word) for word in ("kernel", "where", "in", "inout", "if", "or", "not", "inf")),
        ("fp", "reassoc"), ("relation", ">="), ("type", "i32"), ("type", "f16"), ("attribute", "distinct"),
        ("attribute", "heap"), ("mark", "p"), ("operator", "+="), ("conversion", "sat"), ("index", "data"),
        ("index", "reversed"), ("index", "scatter"), ("index", "%"), ("operation", "when"), ("operation", "gt"),
        ("operation", "or"), ("operation", "not"), ("operation", "eq"),
    }  # fmt: skip
    tally = Tally(3)
    tally.add(kernel)
    assert (("mark", "p"), ("operator", "+=")) not in tally.never(2)
    assert tally.had[("attribute", "distinct"), ("index", "scatter"), ("operation", "not")] == 1
