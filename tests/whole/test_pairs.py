"""Every pair of features that a kernel may have is drawn by the generators."""

from __future__ import annotations

from collections import Counter
from random import Random

from able import can_run
from aimed import Drawn, aimed
from features import features
from pairs import EVERY, Pair, draw_pairs, impossible, pairs_of, wrong

import dojoir


def test_a_sample_leaves_no_pair_undrawn_but_impossible_ones() -> None:
    counts: Counter[Pair] = Counter()
    made = draw_pairs(Random("test pairs"), 100, counts)
    assert len(made) > 50
    assert [pair for pair in EVERY if not counts[pair] and pair not in impossible()] == []
    assert [pair for pair in impossible() if counts[pair]] == []


def test_impossible_pairs_are_refused_by_the_code_that_is_given() -> None:
    assert set(impossible()) <= set(EVERY)
    random = Random("impossible pairs")
    for pair, code in impossible().items():
        if code:
            refused: Counter[str] = Counter()
            assert aimed(dict(pair), random, refused, tries=8) is None, pair
            assert code in refused, f"{pair}: {refused}"


def test_features_are_read_off_the_tree() -> None:
    kernel = dojoir.parse("""kernel f(N)
in x: f32[N, 16]
in ids: i32[8]
inout y: f16[N, 16]

N : p
| min(8, N - 1) : v
| | if {1} >= 1
| | | y[{0}, ids[{1}]] += sat(f16, x[{0}, 7 - {1}])
""")
    (site,) = kernel.sites
    found = features(kernel, site, "c", 2)
    assert found == {
        ("mark", "p"), ("mark", "v"), ("storage", "heap"), ("operator", "+="), ("type", "f16"),
        ("word", "sat"), ("stride", "1"), ("guard", "iterators"), ("empty", "maybe"), ("stride", "scatter"),
        ("stride", "reversed"), ("single", "no"), ("attribute", "none"), ("threads", "2"),
        ("target", "c"), ("running", "none"),
    }  # fmt: skip
    assert (("mark", "v"), ("stride", "scatter")) in pairs_of(Drawn(kernel, "c", 2))


def test_aimed_kernels_compute_what_their_texts_say() -> None:
    """A few: `python tests/helpers/pairs.py --run` for all."""
    random = Random("run pairs 3")
    counts: Counter[str] = Counter()
    for target in ("llvm", "c", "avx512", "sve", "cuda", "hip"):
        for mark in ("v", "u", "none"):
            drawn = aimed({"target": target, "mark": mark}, random, Counter())
            assert drawn is not None
            assert list(wrong(drawn, random, counts)) == [], dojoir.to_text(drawn.kernel)
    assert counts["sve, lowered"] >= 6 and counts["hip, harness"] == 18
    assert counts["llvm, machine code"] == (9 if can_run("llvm") else 0)
