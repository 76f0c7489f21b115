"""Quick answers of the checker: what is seen from the text, broken values, and answers that are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from threading import Thread

import pytest
from faults import FAULTS
from walks import MARK_CODES, draw_moves, full_answer, start_kernel

import dojoir
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Extent, Kernel
from dojoir.passes.base.move import Refusal, Rewrite
from dojoir.passes.engine.engine import rewrite
from dojoir.proof import wellformed
from dojoir.proof.check import (
    InstanceMap,
    _is_same_tree,
    _is_seen_to_differ,
    _meaning_of,
    answer,
    compare,
    identity,
    is_legal,
    is_plain,
)
from dojoir.proof.claim import Claim
from dojoir.proof.core import compare as correspondence
from dojoir.proof.core.check import form, well_formed
from dojoir.proof.core.compare import Correspondence
from dojoir.proof.difference import change_of
from dojoir.proof.facts.aliasing import never_meet
from dojoir.proof.patterns.refilled import reads_no_more
from dojoir.proof.patterns.staging import _reads_the_box, _spans, _staging
from dojoir.proof.patterns.written_before import is_written
from dojoir.proof.refute.refuters import differs_somewhere
from dojoir.proof.refute.small_run import goes_wrong, reads_unwritten
from dojoir.proof.slice import slice_of
from dojoir.sets.limits import StepLimitReached, limited

NEST = """kernel f(N, M)
in  x: f32[N, M]
out y: f32[N, M]
{0}
"""


def nest(*lines: str) -> Kernel:
    kernel = dojoir.parse(NEST.format("\n".join(lines)))
    dojoir.prove(kernel)
    return kernel


ROWS = ("N", "| M", "| | y[{0}, {1}] = 2 * x[{0}, {1}]")


def is_seen(before: Kernel, after: Kernel, instances: InstanceMap | None = None) -> bool:
    return is_plain(Claim(before, after, identity(after) if instances is None else instances))


@pytest.mark.parametrize(
    "move",
    [
        "split(0, 4)", "split(0.0, 16)", "cut(0, N - 1)", "cut(0.0, 1)", "peel(0)", "shift(0, 3)",
        "shift(0.0, {0})", "skew(0, 1)", "tile(0, 0.0, 8, 16)", "swap_scopes(0)", "stage(0, x, t, in)",
        "stage(0, y, t, out)",
        "stage(0.0, x, t, in)", "stage(0.0, y, t, out)",
    ],
)  # fmt: skip
def test_it_is_seen_from_the_text(move: str) -> None:
    kernel = nest(*ROWS)
    done = dojoir.parse_move(move).rewrite(kernel)
    assert is_plain(Claim(kernel, done.kernel, done.instances))
    assert full_answer(kernel, done.kernel, done) is None


WRONG = {
    "one iteration less": ("N - 1", "| M", "| | y[{0}, {1}] = 2 * x[{0}, {1}]"),
    "blocks that lose the rest": ("N // 4", "| 4", "| | M", "| | | y[4*{0} + {1}, {2}] = 2 * x[4*{0} + {1}, {2}]"),
    "the last block too long": (
        "(N + 3) // 4",
        "| 4",
        "| | M",
        "| | | y[4*{0} + {1}, {2}] = 2 * x[4*{0} + {1}, {2}]",
    ),
    "another element": ("N", "| M", "| | y[{0}, {1}] = 2 * x[{0}, 0]"),
    "a gap between the ranges": (
        *("1", "| M", "| | y[{0}, {1}] = 2 * x[{0}, {1}]"),
        *("N - 2", "| M", "| | y[{0} + 2, {1}] = 2 * x[{0} + 2, {1}]"),
    ),
    "a guard too much": ("N", "| M", "| | if {0} >= 1", "| | | y[{0}, {1}] = 2 * x[{0}, {1}]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_loops_are_not_seen_to_be_alike(name: str) -> None:
    before = nest(*ROWS)
    after = dojoir.parse(NEST.format("\n".join(WRONG[name])))
    moves = map(dojoir.parse_move, ("split(0, 4)", "cut(0, 1)"))
    for instances in (identity(after), *(move.rewrite(before).instances for move in moves)):
        if len(instances.origins) == len(after.sites):
            assert not is_plain(Claim(before, after, instances))


CHAIN = """kernel f(N, M)
inout a: f32[N, M]
out s: f32[N]
tmp t: f32[N]
N
| t[{{0}}] = a[{{0}}, 0]
| M
| | a[{{0}}, {{1}}] = a[{}] + t[{{0}}]
| s[{{0}}] = t[{{0}}]
"""


@pytest.mark.parametrize(
    ("source", "move", "legal"),
    [
        ("{0}, {1}", "parallelize(0)", True),
        ("{0}, {1}", "vectorize(0.1)", True),
        ("{0}, M - 1 - {1}", "parallelize(0)", True),
        ("{0}, M - 1 - {1}", "vectorize(0.1)", False),
        ("N - 1 - {0}, {1}", "parallelize(0)", False),
        ("{0}, {1}", "split_scopes(0, 1)", True),
        ("{0}, {1}", "swap_siblings(0.1)", True),
        ("{0}, {1}", "swap_siblings(0.0)", False),
        ("N - 1 - {0}, {1}", "split_scopes(0, 1)", True),
    ],
)
def test_conflicts(source: str, move: str, legal: bool) -> None:
    kernel = dojoir.parse(CHAIN.format(source))
    assert bool(dojoir.check(kernel, move)) == legal
    assert (dojoir.parse_move(move) in dojoir.moves(kernel)) == legal


STAGED = """kernel f(N)
inout a: f32[N, 8]
tmp t: f32[{0}]
N
| {1}
| | t[{{1}}] = a[{{0}}, {{1}}]
| 4
| | t[{{1}} + {2}] += 1
| {3}
| | a[{{0}}, {{1}}] = t[{{1}}]
"""

ON_THE_ARRAY = """kernel f(N)
inout a: f32[N, 8]
N
| 4
| | a[{0}, {1} + 4] += 1
"""


@pytest.mark.parametrize(
    ("parts", "legal"),
    [
        (("8", "8", "4", "8"), True),
        (("8", "8", "3", "8"), False),  # another part of the array
        (("8", "7", "4", "7"), False),  # not all is copied
        (("8", "8", "4", "7"), False),  # not all is copied back
        (("8", "7", "4", "8"), False),  # what is copied back was never written
    ],
)
def test_copies(parts: tuple[str, ...], legal: bool) -> None:
    before, after = dojoir.parse(ON_THE_ARRAY), dojoir.parse(STAGED.format(*parts))
    instances = InstanceMap((None, *identity(before).origins, None))
    assert not is_plain(Claim(before, after, instances)) or legal
    assert bool(compare(before, after, instances)) == legal


def decided(before: Kernel, done: Rewrite) -> tuple[bool, bool] | None:
    """What is said without a reason, and by the comparison with one; None where that is not known."""
    verdict = compare(before, done.kernel, done.instances, 300_000)
    if verdict.status == "unknown":
        return None
    return is_legal(before, done.kernel, done.instances), bool(verdict)


@pytest.mark.parametrize("block", range(4))
def test_quick_answers_are_those_of_the_full_comparison(block: int) -> None:
    seen = 0
    for number in range(5):
        random = Random(f"quick {block} {number}")
        kernel, _ = start_kernel(random)
        for move in draw_moves(kernel, random, 12):
            try:
                done = move.rewrite(kernel)
            except (Refusal, dojoir.DojoError):
                continue
            answers = decided(kernel, done)
            if answers is None:
                continue
            assert answers[0] == answers[1], f"{move}\n{kernel}"
            if done.instances.rule is not None:
                continue
            try:
                with limited(300_000):
                    quick = is_plain(Claim(kernel, done.kernel, done.instances).forth)
                    full = full_answer(kernel, done.kernel, done) if quick else None
            except StepLimitReached:
                continue
            seen += quick
            assert full is None or full.code in MARK_CODES, f"{move}: {full}\n{kernel}"
    assert seen > 5


@pytest.mark.parametrize("block", range(3))
def test_settled_buffers_need_no_comparison(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    for number in range(4):
        random = Random(f"settled {block} {number}")
        kernel, _ = start_kernel(random)
        strict = kernel.fp == "strict"
        for move in draw_moves(kernel, random, 10):
            try:
                done = move.rewrite(kernel)
            except (Refusal, dojoir.DojoError):
                continue
            if done.instances.rule is not None or done.instances.backward:
                continue
            wrong = (fault(done, random) for fault in random.sample(FAULTS, 4))
            for other in (done, *wrong):
                if other is None:
                    continue
                before, after, forth = kernel, other.kernel, other.instances
                if any(failure is not None for failure in form(Claim(before, after, forth))):
                    continue
                seen += bool(Correspondence(Claim(before, after, forth), strict).settled)
                try:
                    with limited(300_000):
                        quick = Correspondence(Claim(before, after, forth), strict).difference()
                        with monkeypatch.context() as patch:
                            patch.setattr(correspondence, "settled", lambda *_: frozenset())
                            full = Correspondence(Claim(before, after, forth), strict).difference()
                except StepLimitReached:
                    continue
                assert (quick is None) == (full is None), f"{move} {forth}: {quick} {full}\n{kernel}"
    assert seen > 5


def said_in_full(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """What the full comparison of two whole kernels says, marks aside."""
    if Correspondence(Claim(before, after, instances), before.fp == "strict").difference() is not None:
        return False
    return well_formed(Claim(before, after, instances)) is None


def said_of_a_slice(before: Kernel, after: Kernel, instances: InstanceMap) -> bool | None:
    """What a slice says of two kernels, or None where it says nothing."""
    change = change_of(before, after, instances)
    part = slice_of(before, after, instances, change) if change is not None else None
    if change is None or part is None:
        return None
    meant = not _is_seen_to_differ(part) and _meaning_of(part)
    if not meant:
        return meant
    return all(
        reads_no_more(before, after, change, name) or is_written(after, after.buffer(name)) for name in part.filled
    )


def rewrites(kernel: Kernel, random: Random, moves: int, faults: int) -> Iterator[Rewrite]:
    """Some moves on a kernel, legal or not, and rewrites that are wrong."""
    for move in draw_moves(kernel, random, moves):
        try:
            done = move.rewrite(kernel)
        except (Refusal, dojoir.DojoError):
            continue
        if done.instances.rule is None and not done.instances.backward:
            yield done
            yield from filter(None, (fault(done, random) for fault in random.sample(FAULTS, faults)))


@pytest.mark.parametrize("block", range(6))
def test_slices_and_runs_say_what_the_full_comparison_says(block: int) -> None:
    smaller = refuted = 0
    for number in range(4):
        random = Random(f"slices {block} {number}")
        kernel, _ = start_kernel(random, 0.9)
        for done in rewrites(kernel, random, 8, 4):
            pair = kernel, done.kernel, done.instances
            if any(failure is not None for failure in form(Claim(*pair))) or _is_same_tree(Claim(*pair)):
                continue
            try:
                with limited(300_000):
                    sliced, wrong = said_of_a_slice(*pair), goes_wrong(*pair)
                    full = said_in_full(*pair)
            except StepLimitReached:
                continue
            assert sliced in {None, full}, f"{sliced} {full}: {done}\n{kernel}"
            assert not (wrong and full), f"{done}\n{kernel}"
            smaller += sliced is not None
            refuted += wrong
    assert smaller > 10
    assert refuted > 0


@pytest.mark.parametrize("block", range(3))
def test_storage_answers_of_the_users_alone_are_those_of_the_whole(block: int) -> None:
    """A rewrite of storage alone is asked of the statements that touch it."""
    verdicts: Counter[bool] = Counter()
    for number in range(6):
        random = Random(f"storage {block} {number}")
        kernel, _ = start_kernel(random, 0.9)
        for done in rewrites(kernel, random, 8, 12):
            pair = kernel, done.kernel, done.instances
            if (
                kernel.buffers != done.kernel.buffers
                and not done.instances.backward
                and _is_same_tree(Claim(*pair))
            ):
                said, full = answer(*pair).legal, bool(compare(*pair))
                assert said == full, f"{said} {full}: {done.kernel}\n{kernel}"
                verdicts[said] += 1
    for name in ("softmax", "layernorm", "attention"):
        kernel = dojoir.kernels.load(name)
        for move in dojoir.candidates(kernel):
            if move.name == "reuse_dims":
                done = move.rewrite(kernel)
                said, full = (
                    answer(kernel, done.kernel, done.instances).legal,
                    bool(compare(kernel, done.kernel, done.instances)),
                )
                assert said == full, f"{name}: {move}"
                verdicts[said] += 1
    assert verdicts[True] and verdicts[False]


LOST = """kernel f(N)
inout a: f32[N]
inout b: f32[N]
tmp t: f32[N]
N
| t[{0}] = 2 * a[{0}]
N
| a[{0}] = t[{0}] + 1
| b[{0}] += a[{0}]
"""


@pytest.mark.parametrize("place", [(1, 0), (1, 1)])
def test_what_a_slice_no_longer_writes_is_returned(place: tuple[int, int]) -> None:
    before = dojoir.parse(LOST)
    origins = identity(before).origins
    kept = InstanceMap((*origins[: 1 + place[1]], *origins[2 + place[1] :]))
    after = before.replace_node(place)
    assert said_of_a_slice(before, after, kept) is False
    assert not is_legal(before, after, kept)


CARRIED = """kernel f(N)
in  x: f32[N]
out y: f32[N]
tmp b: f32[1]
tmp t: f32[1]
{0}N
| b[0] = x[{{0}}]
{1}"""


def test_a_copy_may_carry_a_value_from_one_iteration_to_the_next() -> None:
    before = dojoir.parse(CARRIED.format("", "| y[{0}] = b[0]\n"))
    first = "b[0] = x[0]\nt[0] = b[0]\n"
    late = dojoir.parse(CARRIED.format(first, "| y[{0}] = t[0]\n| t[0] = b[0]\n"))
    own = identity(before).origins
    assert not is_legal(before, late, InstanceMap((None, None, *own, None)))
    plain = dojoir.parse(CARRIED.format("", "| t[0] = b[0]\n| y[{0}] = t[0]\n"))
    assert is_legal(before, plain, InstanceMap((own[0], None, own[1])))


AGAIN = """kernel f(N)
inout x: f32[N + 2]
out y: f32[N]
tmp t: f32[N + 2]
N + 2
| t[{0}] = 2 * x[{0}]
N
| y[{0}] = t[{0}] + t[{0} + 2]
"""


BOX = """kernel f(N)
in  x: f32[N, 32]
out y: f32[N]
tmp w: f32[N, 32]

N
| 32
| | w[{0}, {1}] = x[{0}, {1}]
N
| y[{0}] = 0
| NODE
"""


@pytest.mark.parametrize(
    ("node", "whole"),
    [
        (("4", "| 4", "| | y[{0}] += w[{0}, 4*{1} + {2}]"), True),
        (("4", "| 4", "| | y[{0}] += w[{0}, 2*{1} + {2}]"), True),
        (("4", "| 4", "| | y[{0}] += w[{0}, {1} + 4*{2}]"), True),
        (("4", "| y[{0}] += w[{0}, {1} + 7]"), True),
        (("4", "| y[{0}] += w[{0}, 7*{1}]"), True),
        (("4", "| 4", "| | y[{0}] += w[{0}, 5*{1} + {2}]"), False),
        (("4", "| 4", "| | y[{0}] += w[{0}, 4*{1} + 2*{2}]"), True),
        (("4", "| if {1} >= 1", "| | y[{0}] += w[{0}, {1}]"), False),
        (("min(4, N)", "| y[{0}] += w[{0}, {1}]"), None),
    ],
)
def test_a_box_that_is_read_whole_was_written(node: tuple[str, ...], whole: bool | None) -> None:
    lines = "\n".join(node).replace("\n", "\n| ")
    kernel = dojoir.parse(BOX.replace("NODE", lines))
    done = rewrite(kernel, "stage(1.1, w, w_copy, in)")
    change = change_of(kernel, done.kernel, done.instances)
    assert change is not None
    found = _staging(kernel, done.kernel, change, True, False)
    assert found is not None
    assert _reads_the_box(done.kernel, change, found) is bool(whole)
    if whole is not None:
        assert reads_no_more(kernel, done.kernel, change, "w") is whole


EARLY = """kernel f(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N]

N
| t[{0}] = x[{0}]
N
| y[{0}] = t[{0}]
"""


def test_a_read_before_anything_is_assigned_is_seen() -> None:
    kernel = dojoir.parse(EARLY)
    late = kernel.evolve(body=kernel.body[::-1])
    assert differs_somewhere(kernel, late, InstanceMap(identity(kernel).origins[::-1]))
    assert not differs_somewhere(kernel, kernel, identity(kernel))


def test_a_read_that_does_not_run_at_first_may_stand_before_the_assignment() -> None:
    text = EARLY.replace(
        "N\n| t[{0}] = x[{0}]\nN\n", "N\n| if {0} >= 1\n| | y[{0}] = t[{0} - 1]\n| t[{0}] = x[{0}]\n"
    )
    kernel = dojoir.parse(text)
    dojoir.prove(kernel)
    done = rewrite(kernel, "split(0, 4)")
    change = change_of(kernel, done.kernel, done.instances)
    assert change is not None
    assert {done.kernel.sites[k].statement.target.buffer for k in change.are} == {"t", "y"}
    assert not differs_somewhere(kernel, done.kernel, done.instances)


@pytest.mark.parametrize(("mode", "same"), [("strict", False), ("reassoc", True), ("fast", True)])
def test_where_rounding_is_free_a_fused_accumulation_is_the_same(mode: str, same: bool) -> None:
    kernel = dojoir.kernels.load("dot")
    done = dojoir.parse_move("to_fma(1.0, 0)").rewrite(kernel)
    before, after = kernel.with_fp(mode), done.kernel.with_fp(mode)
    assert is_plain(Claim(before, after, done.instances)) is same
    assert is_plain(Claim(after, before, done.instances)) is same
    assert bool(compare(before, after, done.instances)) is same


def test_a_diagonal_does_not_count_through_a_square() -> None:
    own, four = Affine.iterator(0), Affine.constant(4)
    box = [Extent((four,))] * 2
    assert _spans(Access("w", (own, Affine.iterator(1))), box, {0: four, 1: four}, ())
    assert not _spans(Access("w", (own, own)), box, {0: four, 1: four}, ())


@pytest.mark.parametrize(
    ("write", "legal"), [("", True), ("N + 2\n| x[{0}] = 0\n", False), ("N\n| y[{0}] = x[{0}]\n", True)]
)
def test_what_is_computed_again_reads_what_did_not_change(write: str, legal: bool) -> None:
    text = AGAIN.replace("N\n| y[{0}] = t", f"{write}N\n| y[{{0}}] = t")
    kernel = dojoir.parse(text)
    place = "2" if write else "1"
    move = dojoir.parse_move(f"recompute({place}, t, u)")
    assert bool(dojoir.check(kernel, move)) == legal
    done = move.rewrite(kernel)
    assert is_plain(Claim(kernel, done.kernel, done.instances)) == legal


def test_a_flow_that_is_not_believed_refutes_nothing() -> None:
    kernel = dojoir.parse("""kernel f(M)
inout a: f32[M + 4]
inout b: f32[M]
28
| {0} // 4 - {0} % 4
| | if {0} // 4 >= 2*({0} % 4) and {0} // 4 < 2*({0} % 4) + 1
| | | if {1} % 2 == 0
| | | | if 2*({0} // 4) - 2*({0} % 4) >= 0 and 2*({0} // 4) - 2*({0} % 4) < M
| | | | | b[2*({0} // 4) - 2*({0} % 4)] = a[{0} // 4 - {0} % 4 + 1]
| | | | if {0} % 4 - {0} // 4 + 2 >= 0 and {0} % 4 - {0} // 4 + 2 < M
| | | | | a[{1} + {0} // 4 - {0} % 4 - 1] = b[{0} % 4 - {0} // 4 + 2]
""")
    move = dojoir.parse_move("swap_siblings(0.0.0.0.0)")
    done = move.rewrite(kernel)
    assert is_legal(kernel, done.kernel, done.instances) == bool(dojoir.check(kernel, move))


def fresh(kernel: Kernel) -> list[str]:
    """The legal moves by a thread of its own, which has kept no answers."""
    found: list[str] = []
    thread = Thread(target=lambda: found.extend(map(str, dojoir.moves(kernel))))
    thread.start()
    thread.join()
    return found


def test_no_list_of_moves_depends_on_what_was_kept() -> None:
    random = Random("kept")
    for name in ("softmax", "matmul", "transpose"):
        kernel = dojoir.kernels.load(name)
        for _ in range(3):
            legal = dojoir.moves(kernel)
            assert list(map(str, legal)) == fresh(kernel)
            kernel = dojoir.apply(kernel, random.choice(legal))


@pytest.mark.parametrize("number", [3, 4, 6, 7])
def test_no_list_for_a_random_kernel_depends_on_what_was_kept(number: int) -> None:
    random = Random(f"kept {number}")
    kernel, _ = start_kernel(random)
    for _ in range(3):
        legal = dojoir.moves(kernel)
        assert list(map(str, legal)) == fresh(kernel)
        kernel = dojoir.apply(kernel, random.choice(legal))


def test_a_listed_move_is_not_proved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = dojoir.kernels.load("softmax")
    legal = dojoir.moves(kernel)

    def refuse(*_: object) -> None:
        raise AssertionError("proved again")

    monkeypatch.setattr("dojoir.proof.check.compare", refuse)
    monkeypatch.setattr("dojoir.passes.engine.engine.prove", refuse)
    for move in legal:
        assert dojoir.apply(kernel, move) != kernel or move.name in {"label", "unlabel"}


def test_what_a_legal_move_gives_is_well_formed() -> None:
    kernel = dojoir.kernels.load("softmax")
    for move in dojoir.moves(kernel)[::5]:
        text = dojoir.to_text(dojoir.apply(kernel, move))
        wellformed.prove(dojoir.parse(text))


def test_a_dead_value_is_not_read_before_it_is_written_either() -> None:
    kernel = dojoir.parse("""kernel f(N)
in  x: i32[N]
out y: i32[N]

N
| if {0} < 2
| | y[{0}] = x[{0}]
N
| if {0} >= 2
| | y[{0}] = 0
| | N
| | | y[{0}] *= x[{1}]
| | y[{0}] = -1
""")
    assert dojoir.check(kernel, "swap_siblings(1.0.0)").status == "illegal"
    assert "swap_siblings(1.0.0)" not in map(str, dojoir.moves(kernel))


INLINED = """kernel f(N, M)
inout x: f32[N, M]
out y: f32[N, M]
tmp e: {dtype}[N, M]
tmp m: f32[N]

N
| m[{{0}}] = 0
| M
| | m[{{0}}] max= x[{{0}}, {{1}}]
| M
| | e[{{0}}, {{1}}] = exp(x[{{0}}, {{1}}] - m[{{0}}])
| {between}
| M
| | y[{{0}}, {{1}}] = {read}
{after}"""


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, None),
        ({"read": "e[{0}, {1}] * e[{0}, {1}]"}, None),
        ({"dtype": "f16"}, None),
        ({"after": "N\n| m[{0}] = 1\n"}, None),
        ({"read": "e[{0}, M - 1 - {1}]"}, None),
        ({"between": "m[{0}] = 1"}, "wrong-value"),
        ({"between": "x[{0}, 0] = 1"}, "wrong-value"),
        ({"between": "m[{0}] += 0"}, "wrong-value"),
        ({"between": "e[{0}, 0] = 1"}, "several-values"),
    ],
)
def test_what_is_inlined_is_seen_to_give_the_same(changes: dict[str, str], code: str | None) -> None:
    """And what is not to give it is held against the full comparison, which refuses it for its own reasons."""
    text = INLINED.format(
        **{"dtype": "f32", "between": "x[{0}, 0] = x[{0}, 0]", "read": "e[{0}, {1}]", "after": ""} | changes
    )
    kernel = dojoir.parse(text.replace("| x[{0}, 0] = x[{0}, 0]\n", ""))
    move = dojoir.parse_move("inline(0.4.0, e)" if "between" in changes else "inline(0.3.0, e)")
    verdict = dojoir.check(kernel, move)
    assert verdict.code == (code or "legal"), str(verdict)
    if code != "several-values":
        done = move.rewrite(kernel)
        assert is_plain(Claim(kernel, done.kernel, done.instances)) == (code is None)


def test_an_inlined_read_that_is_another_is_not_believed() -> None:
    """A map that names another instance, or another read."""
    kernel = dojoir.parse(
        INLINED.format(dtype="f32", between="m[{0}] max= 0", read="e[{0}, {1}]", after="").replace(
            "| m[{0}] max= 0\n", ""
        )
    )
    done = dojoir.parse_move("inline(0.3.0, e)").rewrite(kernel)
    assert is_plain(Claim(kernel, done.kernel, done.instances))
    (step,) = done.instances.inlined
    first = (Affine.iterator(0), Affine.constant(0))
    for wrong in (replace(step, iterators=first), replace(step, ordinal=1), replace(step, definition=0)):
        assert not is_plain(Claim(kernel, done.kernel, replace(done.instances, inlined=(wrong,))))
    assert not is_plain(Claim(kernel, kernel, done.instances))


@pytest.mark.parametrize(
    ("one", "other", "depth", "apart"),
    [
        pytest.param("t[{0}]", "t[{0} + 4]", 0, True, id="before and behind a cut"),
        pytest.param("t[{0} + 4]", "t[{0}]", 0, True, id="the other way round"),
        pytest.param("t[{0}]", "t[{0} + 3]", 0, False, id="one element in both"),
        pytest.param("t[2*{0}]", "t[2*{0} + 1]", 0, False, id="odd and even are not told apart"),
        pytest.param("t[{0}]", "t[{0} + 1]", 1, True, id="in one iteration around them"),
        pytest.param("t[{0}]", "t[{0} + 1]", 0, False, id="in several iterations"),
    ],
)
def test_which_accesses_never_meet(one: str, other: str, depth: int, apart: bool) -> None:
    k = dojoir.parse(f"kernel f()\nout t: f32[16]\n\n4\n| {one} = 1\n4\n| {other} = 2\n")
    first, second = k.sites
    pair = (first, first.statement.target), (second, second.statement.target)
    assert never_meet(k, *pair, depth) == apart
    assert never_meet(k, *reversed(pair), depth) == apart


def test_accesses_that_share_storage_meet() -> None:
    k = dojoir.parse("kernel f()\nout y: f32\ntmp t: f32[8~]\n\nt[0] = 1\nt[1] = 2\ny = t[1]\n")
    first, second, _ = k.sites
    assert not never_meet(k, (first, first.statement.target), (second, second.statement.target), 0)


def test_ranges_of_inner_scopes_are_told_apart() -> None:
    k = dojoir.parse(
        "kernel f(N)\nout t: f32[N, 2*N]\n\nN\n| N\n| | t[{0}, {1}] = 1\n| N\n| | t[{0}, N + {1}] = 2\n"
    )
    first, second = k.sites
    assert never_meet(k, (first, first.statement.target), (second, second.statement.target), 1)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("N\n| t[{0}] = 0\nN\n| y[{0}] = t[{0}]", False),
        ("N - 1\n| t[{0}] = 0\nN\n| y[{0}] = t[{0}]", True),
        ("N\n| t[{0}] += 1\nN\n| y[{0}] = t[{0}]", True),
        ("N\n| y[{0}] = x[{0}]\nN\n| y[{0}] += 1", False),
        ("N\n| y[{0}] += x[{0}]", True),
        ("N\n| x[{0}] += 1\n| y[{0}] = x[{0}]", False),
    ],
)
def test_reads_of_what_was_never_written(body: str, wrong: bool) -> None:
    k = dojoir.parse(f"kernel f(N)\nwhere N >= 2\ninout x: f32[N]\nout y: f32[N]\ntmp t: f32[N]\n\n{body}\n")
    assert reads_unwritten(k) == wrong
    if wrong:
        with pytest.raises(dojoir.KernelError):
            dojoir.prove(k)
