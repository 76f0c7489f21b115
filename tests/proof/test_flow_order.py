"""What isl is asked for sooner than by its own means: flow without dimensions that order nothing, dependences by
composition and among some statements alone, maps of which the bounds are parsed once. It is the same each time."""

from __future__ import annotations

from random import Random

import islpy as isl
import pytest
from drawing import draw
from gpu_kernels import MATMUL, STEPS

import dojoir
from dojoir.sets import flow_check
from dojoir.sets.data_writes import without_data_writes
from dojoir.sets.flow import _Given, dependences, flow_of, users_of
from dojoir.sets.kernel_sets import KernelSets, sets_of, workspace
from dojoir.sets.limits import StepLimitReached, integer, limited
from dojoir.support.memo import fresh_tables

KERNELS = {
    "softmax": lambda: dojoir.kernels.load("softmax"),
    "jacobi2d": lambda: dojoir.kernels.load("jacobi2d"),
    "matmul": lambda: dojoir.parse(MATMUL),
    "steps": lambda: dojoir.parse(STEPS),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_flow_is_that_of_all_dimensions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = KERNELS[name]()
    with fresh_tables():
        short = {b.name: flow_of(sets_of(kernel), b.name, sets_of(kernel).ordered(True)) for b in kernel.buffers}
        texts = {name: (str(flow.sources), str(flow.initial)) for name, flow in short.items()}
    with fresh_tables(), monkeypatch.context() as patched:
        patched.setattr(flow_check, "without_equal_dims", lambda schedule: schedule)
        for buffer in kernel.buffers:
            flow = flow_of(sets_of(kernel), buffer.name, sets_of(kernel).ordered(True))
            for mine, text in zip((flow.sources, flow.initial), texts[buffer.name], strict=True):
                assert mine.is_equal(isl.UnionMap.read_from_str(mine.get_ctx(), text))


def test_only_what_is_one_number_everywhere_is_left_out() -> None:
    context = isl.Context()
    schedule = isl.UnionMap.read_from_str(context, "{ a[i] -> [0, i, 1, 0]; b[i] -> [0, 5, 2, 0] }")
    expected = isl.UnionMap.read_from_str(context, "{ a[i] -> [i, 1]; b[i] -> [5, 2] }")
    assert flow_check.without_equal_dims(schedule).is_equal(expected)
    alone = isl.UnionMap.read_from_str(context, "{ a[] -> [3, 4] }")
    assert flow_check.without_equal_dims(alone).is_equal(isl.UnionMap.read_from_str(context, "{ a[] -> [] }"))


@pytest.mark.parametrize("steps", range(1, 60, 3))
def test_steps_that_end_while_a_number_is_read_are_the_limit(steps: int) -> None:
    """Where its steps are spent, isl gives a value that has no text: a TypeError of islpy before."""
    schedule = isl.UnionMap.read_from_str(workspace().context, "{ a[i] -> [0, i, 12, 0]; b[i] -> [0, 5, 12, 0] }")
    with pytest.raises(StepLimitReached), limited(steps):
        while True:
            flow_check.without_equal_dims(schedule)


@pytest.mark.parametrize("text", ["1/2", "NaN", "infty"])
def test_what_is_no_integer_is_an_error_of_isl(text: str) -> None:
    context = isl.Context()
    assert integer(isl.Val.read_from_str(context, str(-(2**70)))) == -(2**70)
    with pytest.raises(isl.Error):
        integer(isl.Val.read_from_str(context, text))


def by_flow(sets: KernelSets) -> isl.UnionMap:
    """The dependences as isl computes them: sources that nothing is sure of are all that ran before."""
    kernel, time = sets.kernel, sets.map(*map(sets.schedule_text, sets.numbers))
    found = sets.map()
    for buffer in kernel.buffers:
        assigned, read = [], []
        accumulated: dict[str, list[str]] = {}
        for k, site in enumerate(kernel.sites):
            if site.statement.target.buffer == buffer.name:
                texts = accumulated.setdefault(site.statement.op, []) if sets.is_free(k) else assigned
                texts.append(sets.write_text(k))
            read += [sets.read_by_statement(r) for r in sets.reads[k] if r.access.buffer == buffer.name]
        free = [text for texts in accumulated.values() for text in texts]
        apart = [(texts, [text for text in free if text not in texts]) for texts in accumulated.values()]
        written = assigned + free
        for first, second in ((written, assigned + read), (assigned + read, free), (read, assigned), *apart):
            info = isl.UnionAccessInfo.from_sink(sets.map(*second)).set_may_source(sets.map(*first))
            found = found.union(info.set_schedule_map(time).compute_flow().get_may_dependence())
    return found


def random_kernel(seed: int) -> dojoir.Kernel:
    random = Random(f"order {seed}")
    return without_data_writes(draw("runnable" if seed % 2 else "tangled", random))


@pytest.mark.parametrize("name", [*KERNELS, *range(12)])
def test_dependences_are_those_that_isl_computes(name: str | int) -> None:
    """And those among some statements are those whose ends both are."""
    kernel = random_kernel(name) if isinstance(name, int) else KERNELS[name]()
    with fresh_tables(), limited(20_000_000):
        sets = sets_of(kernel)
        found, numbers = by_flow(sets), sets.numbers
        assert dependences(sets).is_equal(found)
        for some in {numbers[:1], numbers[1:], numbers[1:3], numbers[len(numbers) // 2 :]}:
            ends = sets.domains_of(some)
            assert dependences(sets, some).is_equal(found.intersect_domain(ends).intersect_range(ends))


@pytest.mark.parametrize(
    "piece",
    [
        "{ s0[i0, i1] -> b_x[i0, 2*i1 + n_N] : 0 <= i0 < n_N and 0 <= i1 < min(8, n_N - 8*i0) }",
        "{ s0r1[i0, g0] -> b_x[g0] : 0 <= i0 < n_N and 0 <= g0 < 7 and i0 mod 3 = 1 }",
        "{ [i0] -> [] : 0 <= i0 and i0 <= floor((n_N)/4) and not (i0 = 2) }",
        "{ s2[] -> b_y[0] : n_N >= 5 }",
        "{ s2[] -> b_y[] : true }",
        "{ s0[i0] -> [0, i0, 1] }",
        "{ s0[i0] -> b_x[e0] : e0 < i0 and 0 <= e0 }",
        "{ s0[i0] -> b_x[i0] : exists (e0 : i0 = 2*e0) }",
        "{ s0[i0] -> b_x[i0]; s1[i0] -> b_x[i0 + 1] : i0 > 3 }",
    ],
)
def test_a_map_is_what_its_text_says(piece: str) -> None:
    sizes, text = "[n_N] -> { : n_N >= 1 }", f"[n_N] -> {piece}"
    with fresh_tables():
        space = workspace()
        expected = isl.UnionMap.read_from_str(space.context, text).intersect_params(space.sizes(sizes))
        assert space.union_map(sizes, (text,)).is_equal(expected)


def believed(sets: KernelSets, buffer: str) -> flow_check.FlowInput | None:
    """The accesses from which the flow through a buffer follows, if isl is believed without a check there."""
    sites = [sets.kernel.sites[k] for k in users_of(sets, buffer)]
    texts = _Given.of(sets, buffer, sets.ordered(True)).texts
    given = flow_check.FlowInput(*(sets.map(*part) for part in texts))
    safe = all(map(flow_check._is_difference_system, sites)) and not flow_check._has_quotients(given)
    return given if safe and (texts[0] or texts[1]) else None


def test_isl_is_right_where_it_is_believed() -> None:
    asked = 0
    for seed in range(130):
        with fresh_tables(), limited(50_000_000):
            sets = sets_of(random_kernel(seed))
            for buffer in sets.kernel.buffers:
                given = believed(sets, buffer.name)
                if given is not None:
                    assert flow_check.is_flow(given, *flow_check._by_isl(given))
                    asked += 1
    assert asked > 40


def test_it_is_not_believed_where_a_fact_divides() -> None:
    text = "kernel k(N)\nwhere N % 4 == 0\nin  x: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = x[{0}]\n"
    assert believed(sets_of(dojoir.parse(text)), "y") is None
    assert believed(sets_of(dojoir.parse(text.replace("where N % 4 == 0\n", ""))), "y") is not None


def guessed(sets: KernelSets, buffer: str) -> tuple[flow_check.FlowInput, tuple[isl.UnionMap, isl.UnionMap]] | None:
    """The accesses to a buffer beside the flow that is guessed for them, if one is."""
    texts = _Given.of(sets, buffer, sets.ordered(True)).texts
    must, may, reads, times = (sets.map(*part) for part in texts)
    given = flow_check.FlowInput(must, may, reads, flow_check.without_equal_dims(times))
    found = flow_check._of_one_iteration(given) if texts[0] or texts[1] else None
    return None if found is None else (given, found)


def test_a_guess_is_believed_where_it_is_the_flow() -> None:
    """And nowhere else, on random kernels."""
    seen = {True: 0, False: 0}
    for seed in range(130):
        with fresh_tables(), limited(50_000_000):
            sets = sets_of(random_kernel(seed))
            for buffer in sets.kernel.buffers:
                guess = guessed(sets, buffer.name)
                if guess is not None:
                    given, found = guess
                    believed_here = flow_check.is_flow(
                        given, *found, flow_check._domain_among(given.reads.domain())
                    )
                    right = flow_check._from_definition(given)
                    assert believed_here == all(a.is_equal(b) for a, b in zip(found, right, strict=True))
                    seen[believed_here] += 1
    assert min(seen.values()) > 0


def test_the_flow_of_a_copied_tile_is_guessed() -> None:
    text = """kernel k(N)
in  x: f32[64*N]
out y: f32[64*N]
tmp t: f32[8, 8]

N
| 64
| | t[{1} // 8, {1} % 8] = x[64*{0} + {1}]
| 8
| | 8
| | | y[64*{0} + 8*{1} + {2}] = t[{1}, {2}]
"""
    sets = sets_of(dojoir.parse(text))
    guess = guessed(sets, "t")
    assert guess is not None
    assert flow_check._guessed(guess[0]) is not None
    assert guess[1][0].is_equal(flow_check._from_definition(guess[0])[0])
