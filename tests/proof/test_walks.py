"""Random walks of legal moves, refused moves and planted faults; `tests/helpers/fuzz.py` runs more."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from faults import plant
from flows import has_gathers, wrong_flow
from races import race
from walks import draw_moves, some_sizes, start_kernel, walk

import dojoir
from dojoir.passes.base.move import Refusal
from dojoir.sets.data_writes import without_data_writes
from dojoir.sets.limits import StepLimitReached, limited


@pytest.mark.parametrize("block", range(16))
def test_walks_keep_the_meaning(block: int) -> None:
    made = 0
    for number in range(20):
        result = walk(Random(f"walk {block} {number}"), steps=1 + number % 6, small=1.0)
        assert not result.failures, "\n\n".join(f.what + "\n" + f.text() for f in result.failures)
        assert not result.counts["well-formedness undecided from the text"]
        made += result.counts["moves"]
    assert made > 30


@pytest.mark.parametrize(
    ("body", "races"),
    [
        ("y[0, {0}] = 1\n| t[{0}] = y[ids[0], {0}]", False),
        ("y[0, {0}] = 1\n| t[{0}] = y[ids[0], N - 1]", True),
        ("y[{0}, 0] = 1\n| t[{0}] = y[ids[0], 0]", True),
        ("y[{0}, 0] = 1\n| t[{0}] = y[{0}, ids[0]]", False),
    ],
)
def test_an_index_from_data_is_any_of_its_dimension_and_no_other(body: str, races: bool) -> None:
    """For the search for races by running, as for the proof."""
    text = f"kernel f(N)\nin ids: i64[N]\ninout y: f32[N, N]\ninout t: f32[N]\nN\n| {body}\n"
    assert dojoir.check(dojoir.parse(text), "parallelize(0)").status == ("illegal" if races else "legal")
    assert (race(dojoir.parse(text.replace("\nN\n", "\nN : p\n")), {"N": 3}) is not None) == races


@pytest.mark.parametrize("block", range(4))
def test_walks_on_large_kernels(block: int) -> None:
    for number in range(3):
        result = walk(Random(f"large {block} {number}"), ("llvm",), steps=5, depth=0.3)
        assert not result.failures, "\n\n".join(f.what + "\n" + f.text() for f in result.failures)


@pytest.mark.parametrize("block", range(4))
def test_faults_that_do_harm_are_refused(block: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(5):
        found = plant(Random(f"fault {block} {number}"), counts, tries=8)
        assert not found, "\n\n".join(fault.what + "\n" + fault.text() for fault in found)
    assert counts["planted, illegal"] > 10


@pytest.mark.parametrize("seed", range(40))
def test_flow_is_that_of_a_run(seed: int) -> None:
    random = Random(f"flow {seed}")
    kernel, _ = start_kernel(random)
    for move in draw_moves(kernel, random, 3):  # legal or not: whatever is well-formed has a flow
        try:
            after = move.rewrite(kernel).kernel
            dojoir.prove(after)
        except (Refusal, dojoir.DojoError):
            continue
        kernel = after
    kernel = without_data_writes(kernel)  # as the checker sees it
    sizes = some_sizes(kernel, random, 4)
    if has_gathers(kernel) or sizes is None:
        return
    try:
        with limited(500_000):
            wrong = wrong_flow(kernel, sizes, strict=random.random() < 0.5)
    except StepLimitReached:
        return
    assert wrong is None, f"{wrong}\n{kernel}"


SHARED = """kernel f(N)
in  x: i32[N]
out y: i32
tmp t: i32
y = 0
N : {mark}
| t = x[{{0}}]
| y {op} t
"""


@pytest.mark.parametrize(
    ("mark", "op", "races"), [("v", "+=", False), ("p", "+=", True), ("v", "=", True), ("p", "max=", True)]
)
def test_races_are_seen(mark: str, op: str, races: bool) -> None:
    kernel = dojoir.parse(SHARED.format(mark=mark, op=op))
    assert (race(kernel, {"N": 3}) is not None) == races
