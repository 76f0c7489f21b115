"""Quick answers of the checker: what is seen from the text, held to the full comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from faults import FAULTS
from quick_answers import said_of_a_slice
from walks import MARK_CODES, draw_moves, full_answer, start_kernel

import dojoir
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel
from dojoir.passes.base.move import Refusal, Rewrite
from dojoir.proof.check import InstanceMap, _is_same_tree, answer, compare, identity, is_legal, is_plain
from dojoir.proof.claim import Claim
from dojoir.proof.core import compare as correspondence
from dojoir.proof.core.check import form_errors, well_formed
from dojoir.proof.core.compare import Correspondence
from dojoir.proof.core.data_writes import claim_without_data_writes
from dojoir.proof.refute.small_run import goes_wrong
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
    maps = (identity(after), *(move.rewrite(before).instances for move in moves))
    fitting = [instances for instances in maps if len(instances.origins) == len(after.sites)]
    assert len(fitting) == 2  # of its own, and one of the moves
    for instances in fitting:
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
| 8
| | a[{{0}}, {{1}}] *= 2
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
| 8
| | a[{0}, {1}] *= 2
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
    first, second = identity(before).origins
    instances = InstanceMap((first, None, second, None))
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
                claim = claim_without_data_writes(Claim(kernel, other.kernel, other.instances))
                if not isinstance(claim, Claim) or any(failure is not None for failure in form_errors(claim)):
                    continue
                before, after, forth = claim.before, claim.after, claim.certificate
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
            if any(failure is not None for failure in form_errors(Claim(*pair))) or _is_same_tree(Claim(*pair)):
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
