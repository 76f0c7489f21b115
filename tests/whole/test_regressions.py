"""What random tests once found, each as small as it can be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from flows import wrong_flow

import dojoir
from dojoir.proof.check import compare, identity, is_legal
from dojoir.sets.limits import limited

# isl's integer optimisation is wrong on the sets of these: the flow is right, or it is not given at all.
LAST_WRITES = {
    "a guard and an index of one collapsed scope": (
        """kernel f(M)
inout b: i32[8]

16
| if {0} // 4 < {0} % 4
| | M + {0} - {0} // 4
| | | if {1} >= {0}
| | | | b[-({0} % 4) + 6] = 1
""",
        {"M": 2},
    ),
    "a stride beside a quotient": (
        """kernel f()
inout b: i32

6
| 4
| | if {0} % 3 == 0 and 2 * (({0} + 1) // 3) >= {0} + {1} - 2
| | | b = {1}
""",
        {},
    ),
    "rows and columns that share a quotient": (
        """kernel f(N)
inout b: i32[6]

6
| 4
| | if 2 * (({0} + 1) // 3) >= {0} + {1} - 2 and {0} % 3 == 0
| | | b[{0} % 3] = {1}
""",
        {"N": 1},
    ),
    "quotients of a size alone": (
        """kernel f(N)
out y: i32[2*N]

16*((N + 1) // 16)
| min(2, (2*N + 2) // 3 - 2*{0})
| | y[6*{0} + 3*{1}] = 1
| | min(2, 2*N - 6*{0} - 3*{1} - 1)
| | | y[6*{0} + 3*{1} + {2} + 1] = 2
N - 16*((N + 1) // 16) + 1
| min(2, (2*N + 2) // 3 - 2*{0} - 32*((N + 1) // 16))
| | y[6*{0} + 3*{1} + 96*((N + 1) // 16)] = 1
| | min(2, 2*N - 6*{0} - 3*{1} - 96*((N + 1) // 16) - 1)
| | | y[6*{0} + 3*{1} + {2} + 96*((N + 1) // 16) + 1] = 2
""",
        {"N": 15},
    ),
    "indices that share a factor": (
        """kernel f()
inout b: i32[6, 6]

2
| 3
| | if 2*{0} + 4*{1} < 6
| | | b[2*{0} + 4*{1}, {0} + 2*{1}] = {0} + 2*{1} + b[{0} + 2*{1}, -{0} - 2*{1} + 5]
""",
        {},
    ),
}


@pytest.mark.parametrize(("text", "sizes"), LAST_WRITES.values(), ids=LAST_WRITES)
def test_the_last_write_is_the_last(text: str, sizes: dict[str, int]) -> None:
    kernel = dojoir.parse(text)
    dojoir.prove(kernel)
    with limited(5_000_000):
        assert wrong_flow(kernel, sizes, strict=False) is None


def test_arrays_on_the_stack_are_aligned_for_vectors() -> None:
    """gcc 12 stores vectors to an array on the stack as if it were aligned, and aligns the frame only if told:
    without that, the kernel crashed in every other process."""
    kernel = dojoir.parse("""kernel f()
out y: f32[6]
tmp t: f32[6, 24] stack
6 : v
| 24
| | t[{0}, {1}] = 3.0
6
| y[{0}] = t[{0}, 23]
""")
    assert "_Alignas(64) float t[144];" in dojoir.emit(kernel, "c")


def test_a_gather_from_a_dimension_without_storage() -> None:
    k = dojoir.parse("""kernel f(N)
in  x: f32[N]
in  ids: i32[N]
out y: f32[N]
tmp t: f32[1~]
out z: f32[N]
t[0] = x[0]
N
| y[{0}] = t[ids[0]]
N
| z[{0}] = x[{0}]
""")
    assert dojoir.check(k, "swap_siblings(1)")
    assert dojoir.check(k, "swap_siblings(0)").status == "illegal"


def test_scopes_that_are_joined_do_not_get_the_label_of_one_inside() -> None:
    k = dojoir.parse("""kernel f(N)
in  x: f32[N]
inout y: f32[N, N]
N @i
| y[0, {i}] = x[{i}]
N
| N @i
| | y[{1}, {0}] = 2 * x[{0}]
""")
    done = dojoir.parse_move("join_scopes(0, 1)").rewrite(k)
    assert dojoir.parse(dojoir.to_text(done.kernel)) == done.kernel
    assert "N\n| y[0, {0}]" in dojoir.to_text(done.kernel)


def test_flow_with_remainders_does_not_end_the_process() -> None:
    """isl 0.27 ends with a segmentation fault when it computes this flow."""
    kernel = dojoir.parse("""\
kernel folded(N)
out y: i32[N + 1, 2*N]
out z: i32

z = 0
N + 1
| 2*N
| | y[{0}, {1}] = 1
N
| if ({0} + 1) % 2 == 0
| | {0}
| | | if {0} <= 2*N - 3
| | | | y[{0}, {0} + 2] min= y[{1}, 2*N - {0} - 2]
| | | if {0} + {1} + 2 < 2*N and 2*N - 2*{0} - 1 >= 0
| | | | z += y[{0} + 1, {0} + {1} + 2] + y[{1}, 2*N - 2*{0} - 1]
""")
    wrong = dojoir.check(kernel, "swap_siblings(1)")
    assert wrong.status != "legal"


def test_a_number_for_an_iterator_fits_its_type_even_where_nothing_runs() -> None:
    kernel = dojoir.parse("""\
kernel f()
out y: u64[3, 1]

7
| if ({0} + 1) % 2 < 1
| | y[({0} - 1) // 2, ({0} + 1) % 2] = ({0} + 1) % 2 * (({0} - 1) // 2)
""")
    verdict = dojoir.check(kernel, "peel(0)")
    assert verdict.code == "number-range" and "-1 does not fit in u64" in str(verdict)


EXTRACTED = """kernel f(N)
in  x: f32[N + 4]
out y: f32[N]
tmp t: f32[{dim}]

{fill}
N
| y[{{0}}] = 2 * x[{{0}}{offset}]
"""


@pytest.mark.parametrize(
    ("changes", "move", "code"),
    [
        ({}, "extract(1.0, 2, t[{0}])", "legal"),
        (
            {"dim": "N + 1", "fill": "N + 1\n| t[{0}] = x[{0}]", "offset": " + 1"},
            "extract(1.0, 2, t[{0} + 1])",
            "legal",
        ),
        ({"offset": " + 1"}, "extract(1.0, 2, t[{0} + 1])", "out-of-bounds"),
        ({"dim": "N~"}, "extract(1.0, 2, t[{0}])", "shared-storage"),
        ({"fill": "N - 1\n| t[{0}] = x[{0}]"}, "extract(1.0, 2, t[{0}])", None),
    ],
)
def test_an_extracted_read_is_of_an_element_that_is_there(
    changes: dict[str, str], move: str, code: str | None
) -> None:
    """That the kernel with the read inlined is well-formed does not say that the one with the read is."""
    text = EXTRACTED.format(**({"dim": "N", "fill": "N\n| t[{0}] = x[{0}]", "offset": ""} | changes))
    kernel = dojoir.parse(text)
    verdict = dojoir.check(kernel, move)
    assert verdict.code == code if code else not verdict, str(verdict)
    assert bool(verdict) == (move in map(str, dojoir.moves(kernel)) or code == "legal")
    assert bool(verdict) == bool(dojoir.check(kernel, move))


def test_a_box_in_a_triangle_is_not_asked_whether_it_is_read_whole() -> None:
    """Its extent has an iterator of the node."""
    kernel = dojoir.parse("""kernel f(N)
inout a: f32[N + 2]

2
| N - {0}
| | if {1} % 2 == 0
| | | a[{0}] += a[{0}]
""")
    listed = {str(move) for move in dojoir.moves(kernel)}
    assert dojoir.check(kernel, "stage(0, a, a_copy, inout)")
    assert "stage(0, a, a_copy, inout)" in listed


@pytest.mark.parametrize("guard", ["{0} != {0}", "{0} == {0}", "{0} + N < {0} + 4", "2*({0} // 2) <= 2*({0} // 2)"])
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_guard_that_names_the_lane_on_both_sides(guard: str, target: str) -> None:
    """Its mask was one flag for all lanes, which LLVM refused (a walk of 2026-11-22)."""
    k = dojoir.parse(
        f"kernel f(N, M)\ninout a: i32[M]\nout y: f32[M]\n\nM : v\n| y[{{0}}] = 1\n| if {guard}\n"
        "| | a[{0}] min= 3\n| | y[{0}] = 2\n"
    )
    report = dojoir.verify(k, target=target, sizes=[{"N": 3, "M": 40}, {"N": 4, "M": 7}])
    assert report.ok, str(report)


def test_what_a_slice_decides_is_certified() -> None:
    """The comparison of the whole kernels takes more than the step limit, for a move that was made."""
    trace = dojoir.Trace(
        dojoir.parse("""kernel f()
in  a: i32[4, 4]
inout b: i32[10, 4]
inout y: i32[4, 8]

9 : prefetch(b, 512)
| if {0} >= 1
| | y[({0} - 1) // 2, ({0} - 1) // 2 - ({0} + 1) % 2 + 1] += b[({0} - 1) // 2 + 2, ({0} - 1) // 2]
2 : v
| 2 : u
| | 2
| | | b[{0}, -2*{0} + 3] *= 2*{1} + {2}
8
| min(2, 3)
| | if {0} // 2 >= 1
| | | min(2, -2*{1} + 5)
| | | | if 2*{1} + {2} >= {0} % 2 and 2*{1} + {2} < {0} % 2 + 3 and 2*{1} + {2} < -2*({0} % 2) + 5
| | | | | y[-({0} // 2) + 3, 2*{1} + {2} + 2*({0} % 2)] = 2*{1} + {2} + 2*({0} % 2)
| | | | | b[2*{1} + {2} + 2*({0} % 2), {0} // 2 - 1] = \
y[(2*{0} + 2*{1} + {2} + 1) % 4, 2*({0} // 2) - 2] + y[{0} // 2 - 1, 2*{0} + 2*{1} + {2} - 3*({0} // 2) - 1]
""")
    )
    trace.apply("swap_siblings(0)")
    assert dojoir.certify(trace)


def test_a_flow_is_checked_in_few_steps_where_tiles_do_not_divide_each_other() -> None:
    """To see that an iteration has a last write, isl took minutes: it has one where 16384*i + 128*j + 7*k can be
    what a formula with two floors says that it is."""
    kernel = dojoir.parse("""\
kernel f(M)
fp strict
inout a: i32[12]
tmp t: i32[M + 6]
inout y: f32[M]

(M + 6) // 16384 + 1
| min(128, (M + 6) // 128 - 128*{0} + 1)
| | min(19, (M - 16384*{0} - 128*{1} + 6) // 7 + 1)
| | | min(7, -7*{2} + 128, M - 16384*{0} - 128*{1} - 7*{2} + 7)
| | | | if 16384*{0} + 128*{1} + 7*{2} + {3} >= 1
| | | | | t[16384*{0} + 128*{1} + 7*{2} + {3} - 1] = a[(-16384*{0} - 128*{1} - 7*{2} - {3} + 3) % 12]
M + 1
| if {0} >= 1
| | t[{0}] max= t[{0} - 1]
""")
    # The quick answer and the full comparison, which had 200,000 each, have one budget.
    assert dojoir.check(kernel, "reuse_dims(t, 0)", step_limit=400_000).status == "illegal"


TWO_SUMS = """kernel f(N)
in  x: f32[2, N]
out y: f32[2]
tmp p: f32[4]
1 : p
| y[0] = 0
| 4
| | p[{1}] = 0
| N
| | p[{1} % 4] += x[0, {1}]
| 4
| | y[0] += p[{1}]
1 : p
| y[1] = 0
| 4
| | p[{1}] = 0
| N
| | p[{1} % 4] += x[1, {1}]
| 4
| | y[1] += p[{1}]
"""


def test_partial_results_that_something_else_uses_are_not_removed() -> None:
    for text in (TWO_SUMS, TWO_SUMS.replace(" : p", "")):
        kernel = dojoir.parse(text)
        verdict = dojoir.check(kernel, "merge_reduction(0.2, p)")
        assert (verdict.status, verdict.code) == ("illegal", "used-elsewhere")
        assert "merge_reduction" not in {move.name for move in dojoir.moves(kernel)}


@pytest.mark.parametrize("mark", ["", " : p"])
def test_a_kernel_that_uses_what_it_does_not_declare_is_refused(mark: str) -> None:
    """By the checker, whatever the move says; forwards and backwards."""
    kernel = dojoir.parse(TWO_SUMS.replace(" : p", mark))
    less = kernel.evolve(buffers=kernel.arguments)
    for backward in (False, True):
        same = replace(identity(kernel), backward=backward)
        assert compare(kernel, less, same).code == "unknown-buffer"
        assert not is_legal(kernel, less, same)
