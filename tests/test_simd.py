"""The targets with intrinsics: every library kernel and random ones, as this processor runs them, and how the text
and the tables are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import everywhere
import pytest
from differential import examine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runnable import runnable_kernel

import dojoir
from dojoir import kernels
from dojoir.codegen.isa import MASKS, Row
from dojoir.codegen.isas import ISAS
from dojoir.codegen.lir import Type
from dojoir.dtypes import DTYPES
from dojoir.runtime import host
from dojoir.runtime.c_toolchain import find

NATIVE = [name for name, isa in ISAS.items() if host.architecture() == isa.architecture]
PARTS = 4


def runs(target: str) -> None:
    """Skips a test of a target that this machine does not run."""
    try:
        find()
        host.check_features(ISAS[target])
    except dojoir.ToolchainError as error:
        pytest.skip(error.diagnostic.message)


@pytest.mark.parametrize("part", range(PARTS))
def test_library_kernels(part: int, tmp_path: Path) -> None:
    """Each kernel as scheduled for each target in C, and after random moves, these through LLVM as well."""
    targets = [target for target in ("c", *NATIVE) if everywhere.runs_here(target)]
    found = list(everywhere.subjects(kernels.names()[part::PARTS], Random(part), targets))
    counts: Counter[str] = Counter()
    for target in ("llvm", *targets):
        wrong = list(everywhere.differences(target, found, tmp_path, counts))
        assert not wrong, "\n\n".join(wrong)
    assert all(counts[target] > len(found) / len(targets) for target in targets), counts


@pytest.mark.parametrize("target", NATIVE)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
def test_random_kernels(target: str, random: Random) -> None:
    runs(target)
    exact = random.random() < 0.5
    kernel = runnable_kernel(random, exact)
    assert examine(kernel, random, exact, [target]) is None


# -- the tables --------------------------------------------------------------------------------------------
def every_row() -> Iterator[tuple[str, Row]]:
    for name, isa in ISAS.items():
        yield from ((name, row) for row in isa.table)


def test_every_word_of_every_spelling_is_known() -> None:
    for name, row in every_row():
        isa = ISAS[name]
        dtypes = {dtype.name: dtype for dtype in (*DTYPES.values(), *MASKS.values())}
        type = Type(dtypes[row.dtype], 4)
        source = Type(dtypes[row.source], 4) if row.source else None
        known = {*isa.words(type), "list", "reversed", "wide"}
        known |= {f"from_{word}" for word in isa.words(source)} if source else set()
        assert set(re.findall(r"<(\w+)>", row.spelling)) <= known, (name, row)


# -- libraries ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("target", ISAS)
def test_a_library_is_told_what_its_target_needs(target: str, tmp_path: Path) -> None:
    trace = dojoir.Trace(kernels.load("relu"))
    if target not in NATIVE:
        with pytest.raises(dojoir.ToolchainError, match=f"built on a {ISAS[target].architecture} machine"):
            dojoir.write_library([trace], tmp_path / "lib", target=target)
        return
    runs(target)
    dojoir.write_library([trace], tmp_path / "lib", target=target, check=False)
    for option in ISAS[target].options:
        assert f" {option} " in (tmp_path / "lib" / "CMakeLists.txt").read_text(encoding="utf-8")
