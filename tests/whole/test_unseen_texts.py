"""The texts of `benchmarks/unseen` and `benchmarks/fresh`: none is one that the rules were made beside, and what
stands beside them is the same mathematics. What the planner makes of them is not asked here."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import numpy as np
import pytest
from agreement import small_sizes
from folders import ROOT
from practice_texts import Texts, practice

import dojoir
from dojoir.records.likeness import lines

TEXTS = Texts("unseen", "fresh")
FAR, FAR_NARROW = 5e-6, 8e-3
"""How far results may be apart at small sizes, as a share of the largest, and those of bf16."""


def test_none_is_a_text_that_was_known() -> None:
    """Neither by its name nor by its lines without the names in them."""
    folders = [ROOT / "benchmarks" / "practice", ROOT / "benchmarks" / "polybench", ROOT / "dojoir" / "kernels"]
    known = {path.stem: dojoir.load(path) for folder in folders for path in folder.glob("*.dojo")}
    forms = {_nameless(kernel): name for name, kernel in known.items()}
    assert len(TEXTS) == 112 and len(known) > 200
    assert not TEXTS.keys() & known.keys()
    own = {name: _nameless(text.kernel) for name, text in TEXTS.items()}
    assert not {name: forms[form] for name, form in own.items() if form in forms}
    assert len(set(own.values())) == len(TEXTS)


def _nameless(kernel: dojoir.Kernel) -> str:
    return repr(sorted(lines(dojoir.to_text(kernel)).items()))


def _fixed(kernel: dojoir.Kernel) -> dict[str, int]:
    return {size.name: size.value for size in kernel.sizes if size.value is not None}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_well_formed_and_has_no_schedule(name: str) -> None:
    text = TEXTS[name]
    dojoir.prove(text.kernel)
    assert text.kernel.name == name and text.written
    for sizes in (text.sizes, text.gpu):
        assert sizes.keys() - _fixed(text.kernel).keys() == set(text.kernel.runtime_sizes)
        assert all(sizes.get(name, value) == value for name, value in _fixed(text.kernel).items())
    assert not re.search(r"^[| ]*[^=#]+ : [a-z]", dojoir.to_text(text.kernel).partition("\n\n")[2], re.MULTILINE)


@pytest.mark.parametrize("name", TEXTS)
def test_eager_is_the_same_mathematics(name: str) -> None:
    torch: Any = pytest.importorskip("torch", reason="needs PyTorch")
    text, shape_of, numpy_type = TEXTS[name], practice()["shape_of"], practice()["numpy_type"]
    sizes = small_sizes(text.kernel, Random(name))
    given = text.inputs(sizes)
    made = {
        b.name: given[b.name].copy() if b.role == "inout" else np.empty(shape_of(b, sizes), numpy_type(b))
        for b in text.kernel.arguments
        if b.role != "in"
    }
    run = dojoir.compile(text.kernel, threads=1).bind(
        *(made[b.name] if b.name in made else given[b.name] for b in text.kernel.arguments), **sizes
    )
    run()
    narrow = {b.name for b in text.kernel.arguments if str(b.dtype) == "bf16"}
    names = {
        n: (torch.from_numpy(array).view(torch.bfloat16) if n in narrow else torch.from_numpy(array))
        if array.shape
        else float(array)
        for n, array in given.items()
    }
    eager = eval(text.eager, {"torch": torch, "F": torch.nn.functional, **_fixed(text.kernel), **sizes, **names})
    for (result, bits), theirs in zip(made.items(), eager if isinstance(eager, tuple) else (eager,), strict=True):
        ours = (bits.astype(np.uint32) << 16).view(np.float32) if result in narrow else bits
        far = FAR_NARROW if result in narrow else FAR
        other = (theirs.float() if result in narrow else theirs).numpy()
        assert other.dtype == ours.dtype and other.shape == ours.shape and np.isfinite(ours).all()
        assert np.abs(ours.astype(float) - other).max() <= far * max(np.abs(other.astype(float)).max(), 1e-30)
