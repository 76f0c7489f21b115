"""Quick answers of the checker about storage: what is lost or never written, and answers that are kept."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from threading import Thread

import pytest
from quick_answers import said_of_a_slice
from walks import start_kernel

import dojoir
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Extent, Kernel
from dojoir.passes.engine.engine import rewrite
from dojoir.proof import wellformed
from dojoir.proof.check import InstanceMap, answer, compare, identity, is_legal, is_plain, prove_by_core
from dojoir.proof.claim import Claim
from dojoir.proof.difference import change_of
from dojoir.proof.facts.aliasing import never_meet
from dojoir.proof.patterns.staging import _reads_the_box, _spans, _staging
from dojoir.proof.patterns.written_before import reads_no_more
from dojoir.proof.refute.first_iteration import differs_somewhere
from dojoir.proof.refute.small_run import reads_unwritten
from dojoir.support.memo import fresh_tables

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
    def refuse(*_: object) -> None:
        raise AssertionError("proved again")

    kernel = dojoir.kernels.load("softmax")
    with fresh_tables():  # those of this thread are full of what other tests asked
        legal = dojoir.moves(kernel)
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


@pytest.mark.parametrize("again", ["cut(0, 16*(N // 16))", "cut(1, 0)", "cut(2, 0)", "cut(2, M)"])
def test_a_new_node_beside_the_one_that_it_stands_for_is_one_change(again: str) -> None:
    """One part of the range is the scope that was there, and the other never runs: what is new stands for what
    stayed. It was compared as a whole, of many statements too long to be decided."""
    body = "N\n| y[{0}, 0] = x[{0}, 0]\nM\n| y[0, {0}] = x[0, {0}]\n"
    text = "kernel f(N, M)\nin x: f32[N, M]\ninout y: f32[N, M]\n" + body * 2
    kernel = dojoir.apply(dojoir.parse(text), "cut(0, 16*(N // 16))")
    done = dojoir.parse_move(again).rewrite(kernel)
    change = change_of(kernel, done.kernel, done.instances)
    assert change is not None and len(change.new) == len(change.old) + 1
    assert answer(kernel, done.kernel, done.instances, 100_000).legal
    assert prove_by_core(kernel, done.kernel, done.instances)
    origins = done.instances.origins
    wrong = replace(done.instances, origins=(*origins[1:], origins[0]))
    assert change_of(kernel, done.kernel, wrong) is None or not answer(kernel, done.kernel, wrong).legal
