"""The kinds of unsoundness that were found in other systems of this sort, one test for each."""

from __future__ import annotations

import numpy as np
import pytest

import dojoir
from dojoir.proof.check import compare, identity


def kernel(text: str) -> dojoir.Kernel:
    made = dojoir.parse(text)
    dojoir.prove(made)
    return made


def refused(before: dojoir.Kernel, move: str, code: str) -> dojoir.Verdict:
    """The verdict on a move that must be illegal, with this code, and which a trace does not make."""
    verdict = dojoir.check(before, move)
    assert verdict.status == "illegal", f"{move} should not be legal"
    assert verdict.code == code, str(verdict)
    with pytest.raises(dojoir.IllegalMove):
        dojoir.Trace(before).apply(move)
    return verdict


def test_fusing_loops_whose_ranges_differ() -> None:
    """Two neighbours are one loop only where they run alike: over N and M they do not, over N and N they do, and so
    they do over extents that are written alike because of a fact."""
    text = """kernel f(N, M)
in  x: f32[N]
in  z: f32[M]
out y: f32[N]
out w: f32[M]
N
| y[{0}] = x[{0}]
M
| w[{0}] = z[{0}]
"""
    refused(kernel(text), "join_scopes(0, 1)", "extra-instance")
    refused(kernel(text.replace("in  x", "where M <= N\nin  x")), "join_scopes(0, 1)", "extra-instance")
    equal = kernel(text.replace("in  x", "where N == M\nin  x"))
    assert dojoir.check(dojoir.apply(equal, "set_extent(1, N)"), "join_scopes(0, 1)")


def test_fusing_with_a_consumer_that_reads_ahead_or_in_reverse() -> None:
    """The producer of what an iteration reads must have run by then."""
    text = """kernel f(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N]
N
| t[{0}] = x[{0}]
N
| y[{0}] = t[INDEX]
"""
    refused(kernel(text.replace("INDEX", "N - 1 - {0}")), "join_scopes(0, 1)", "lost-value")
    assert dojoir.check(kernel(text.replace("INDEX", "{0}")), "join_scopes(0, 1)")


ZERO_TRIP = """kernel f(N)
in  x: f32[N]
inout y: f32[N]
inout s: f32
EXTENT @i
| s = x[0]
| N @j
| | y[{j}] = s * x[{j}]
"""


def test_a_loop_that_may_run_zero_times_as_if_it_ran() -> None:
    """What stands in a loop over N - 1 does not run where N is 1: it cannot be taken out of the loop, nor can its
    first iteration be peeled, nor a scope around it left out. Of a loop over N it can."""
    may_not = kernel(ZERO_TRIP.replace("EXTENT", "N - 1"))
    does = kernel(ZERO_TRIP.replace("EXTENT", "1"))
    refused(may_not, "peel(@i)", "may-not-run")
    refused(may_not, "remove_scope(@i)", "runs-more")
    assert dojoir.check(does, "remove_scope(@i)")
    assert dojoir.check(kernel(ZERO_TRIP.replace("EXTENT", "N")), "peel(@i)")
    hoisted = dojoir.parse(
        "kernel f(N)\nin  x: f32[N]\ninout y: f32[N]\ninout s: f32\n"
        "s = x[0]\nN - 1 @i\n| N @j\n| | y[{j}] = s * x[{j}]\n"
    )
    verdict = compare(may_not, hoisted, identity(may_not))
    assert verdict.status == "illegal"


def test_a_temporary_that_only_a_loop_of_zero_trips_writes() -> None:
    """Where the loop does not run, the last assignment is the one before it."""
    text = """kernel f(N)
in  x: f32[N]
out y: f32
tmp t: f32
t = 0
N - 1
| t = x[{0}]
y = t
"""
    before = kernel(text)
    refused(before, "inline(2, t)", "several-values")
    without = dojoir.parse(text.replace("t = 0\n", ""))
    with pytest.raises(dojoir.KernelError):
        dojoir.prove(without)


def test_recomputation_past_a_non_zero_start() -> None:
    """Each of these sums begins with what the one before left, not with zero: computing one again gives another."""
    text = """kernel f(N, M)
in  x: f32[N, M]
out y: f32[N]
tmp t: f32[N]
N
| t[{0}] = START
| M
| | t[{0}] += x[{0}, {1}]
N
| y[{0}] = t[{0}]
"""
    again = dojoir.apply(kernel(text.replace("START", "3")), "recompute(1.0, t, u)")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert dojoir.interpret(again, {"x": x})["y"].tolist() == [6, 15]
    carried = kernel(
        """kernel f(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N + 1]
t[0] = 3
N
| t[{0} + 1] = t[{0}] + x[{0}]
N
| y[{0}] = t[{0} + 1]
"""
    )
    refused(carried, "recompute(2.0, t, u)", "no-instance")
    wrong = dojoir.parse(str(again).replace("u[{1}] = 3", "u[{1}] = 0"))
    assert str(wrong) != str(again)
    done = dojoir.parse_move("recompute(1.0, t, u)").rewrite(kernel(text.replace("START", "3")))
    verdict = compare(kernel(text.replace("START", "3")), wrong, done.instances)
    assert verdict.status == "illegal"


def test_folding_a_buffer_that_a_reversed_consumer_still_reads() -> None:
    """One element for all rows is not enough where the reader begins with the last."""
    text = """kernel f(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N]
N
| t[{0}] = x[{0}]
N
| y[{0}] = t[N - 1 - {0}]
"""
    verdict = refused(kernel(text), "reuse_dims(t, 0)", "wrong-value")
    assert "with N=2" in verdict.reason


def test_folding_a_temporary_that_is_read_again_later() -> None:
    """The first reader is in the same iteration, the second in another loop."""
    text = """kernel f(N)
in  x: f32[N]
out y: f32[N]
out z: f32[N]
tmp t: f32[N]
N
| t[{0}] = x[{0}]
| y[{0}] = t[{0}]
N
| z[{0}] = t[{0}]
"""
    refused(kernel(text), "reuse_dims(t, 0)", "wrong-value")


def test_inlining_past_a_later_write_to_what_the_expression_reads() -> None:
    """`t` holds twice the old `x`, and the expression read later would be twice the new one."""
    k = kernel("""kernel f(N)
inout x: f32[N]
out y: f32[N]
tmp t: f32[N]
N
| t[{0}] = x[{0}] * 2
N
| x[{0}] = 0
N
| y[{0}] = t[{0}]
""")
    assert "`x[{0}] = 0`" in refused(k, "inline(2.0, t)", "wrong-value").reason


def test_deleting_what_is_live_out() -> None:
    """An output is not deleted, nor a temporary that is still read."""
    k = kernel("kernel f(N)\nin x: f32[N]\nout y: f32[N]\ntmp t: f32[N]\nN\n| t[{0}] = x[{0}]\n| y[{0}] = t[{0}]\n")
    refused(k, "delete_temporary(t)", "still-read")
    refused(k, "delete_temporary(y)", "not-a-temporary")
    inlined = dojoir.apply(k, "inline(0.1, t)")
    gone = dojoir.apply(inlined, "delete_temporary(t)")
    assert str(gone).endswith("N\n| y[{0}] = x[{0}]\n")
    without = dojoir.parse(dojoir.to_text(k).replace("| y[{0}] = t[{0}]\n", ""))
    assert compare(k, without, identity(without)).status == "illegal"


CARRIED = """kernel f(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[1]
t[0] = 0
N
| y[{0}] = t[0]
| t[0] = x[{0}]
"""


def test_sinking_an_allocation_whose_value_is_carried() -> None:
    """`t` carries a value from one iteration to the next: it is no temporary of the iteration, so the iterations
    are not independent, and no element of its own for each of them would do."""
    k = kernel(CARRIED)
    refused(k, "parallelize(1)", "shared-element")
    refused(k, "vectorize(1)", "shared-element")
    inside = dojoir.parse("""kernel f(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[1, N]
t[0, 0] = 0
N
| y[{0}] = t[0, {0}]
| t[0, {0}] = x[{0}]
""")
    assert compare(k, inside, identity(k)).status == "illegal"


def test_a_temporary_of_the_iteration_may_be_private() -> None:
    """The same with the value made in the iteration that reads it."""
    k = kernel(
        "kernel f(N)\nin x: f32[N]\nout y: f32[N]\ntmp t: f32[N~]\nN\n| t[{0}] = x[{0}]\n| y[{0}] = t[{0}]\n"
    )
    assert dojoir.check(k, "parallelize(0)")


def test_parallelising_an_outer_loop_while_a_nested_one_carries_a_dependence() -> None:
    """Every row updates the same `y`, in the nested loop."""
    k = kernel("""kernel f(N, M)
in x: f32[N, M]
inout y: f32[M]
N
| M
| | y[{1}] = 0.5 * y[{1}] + x[{0}, {1}]
""")
    refused(k, "parallelize(0)", "shared-element")
    assert dojoir.check(k, "parallelize(0.0)")


INSTRUCTION = """kernel f(N)
in    x: f32[N, SIZE]
in    w: f32[SIZE]
inout y: f32[N, SIZE]
N
| 16
| | BODY
"""


@pytest.mark.parametrize(
    ("body", "size"),
    [
        pytest.param("y[{0}, {1}] = fma(x[{0}, 2*{1}], w[{1}], y[{0}, {1}])", "32", id="elements that are apart"),
        pytest.param("y[{0}, {1}] = fma(x[{0}, 15 - {1}], w[{1}], y[{0}, {1}])", "16", id="a reversed read"),
        pytest.param("y[{0}, {1}] = fma(x[{0}, {1}], w[0], y[{0}, {1}])", "16", id="one element for all lanes"),
        pytest.param("y[{0}, {1}] = fma(x[{0}, {1}], w[{1}], x[{0}, {1}])", "16", id="another third operand"),
        pytest.param("y[{0}, {1}] = x[{0}, {1}] * w[{1}]", "16", id="another operation"),
        pytest.param("y[{0}, 0] = fma(x[{0}, {1}], w[{1}], y[{0}, 0])", "16", id="all lanes into one element"),
    ],
)
def test_ignoring_the_preconditions_of_an_instruction_on_matching(body: str, size: str) -> None:
    """An instruction stands for exactly its own text, on elements as far apart as that says."""
    right = kernel(
        INSTRUCTION.replace("SIZE", "16").replace("BODY", "y[{0}, {1}] = fma(x[{0}, {1}], w[{1}], y[{0}, {1}])")
    )
    assert dojoir.check(right, "use_instr(0.0, avx512_fmadd_ps)")
    wrong = kernel(INSTRUCTION.replace("SIZE", size).replace("BODY", body))
    refused(wrong, "use_instr(0.0, avx512_fmadd_ps)", "not-this-instruction")
    hinted = dojoir.parse(str(wrong).replace("| 16\n", "| 16 : use(avx512_fmadd_ps)\n"))
    with pytest.raises(dojoir.KernelError):
        dojoir.prove(hinted)


def test_an_instruction_of_another_width() -> None:
    """Fifteen iterations are not the sixteen lanes of the instruction."""
    text = INSTRUCTION.replace("SIZE", "16").replace("| 16\n", "| 15\n")
    wrong = kernel(text.replace("BODY", "y[{0}, {1}] = fma(x[{0}, {1}], w[{1}], y[{0}, {1}])"))
    refused(wrong, "use_instr(0.0, avx512_fmadd_ps)", "not-this-instruction")


def test_interchange_of_a_skewed_dependence() -> None:
    """(1, -1) would point backwards; (1, 1) stays as it is."""
    text = """kernel f(N, M)
inout a: f32[N, M]
N - 1
| M - 1
| | a[{0} + 1, {1}SECOND] = a[{0}, {1}FIRST]
"""
    skewed = kernel(text.replace("SECOND", "").replace("FIRST", " + 1"))
    refused(skewed, "swap_scopes(0)", "lost-value")
    refused(skewed, "tile(0, 0.0, 4, 4)", "lost-value")
    assert dojoir.check(kernel(text.replace("SECOND", " + 1").replace("FIRST", "")), "swap_scopes(0)")


@pytest.mark.parametrize("move", ["parallelize(0)", "vectorize(0)"])
def test_a_recurrence_run_in_parallel(move: str) -> None:
    """`x[i + 1] = x[i] + 1` is a chain; `x[2*i + 1] = x[2*i] + 1` is none."""
    text = "kernel f(N)\ninout x: f32[2*N]\nN - 1\n| x[TO] = x[FROM] + 1\n"
    refused(kernel(text.replace("TO", "{0} + 1").replace("FROM", "{0}")), move, "shared-element")
    assert dojoir.check(kernel(text.replace("TO", "2*{0} + 1").replace("FROM", "2*{0}")), move)


def test_wrong_outputs_that_keep_the_right_sum() -> None:
    """Elements are compared one by one: the same numbers in another order are wrong."""
    text = "kernel f(N)\nin x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = x[{0}]\n"
    backwards = dojoir.parse(text.replace("= x[{0}]", "= x[N - 1 - {0}]"))
    report = dojoir.verify(backwards, dojoir.parse(text), sizes={"N": 5})
    assert not report.ok
    assert report.reason is not None
    assert report.reason.startswith("wrong result: y[")


def test_a_tolerance_that_scales_with_the_candidate_s_own_output() -> None:
    """What is allowed follows from the reference alone: a result of 1e30 makes nothing else right, nor itself."""
    text = "kernel f(N)\nin x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = exp(x[{0}])\n"
    for wrong in ("select({0} == 0, 1e30, exp(x[{0}]))", "exp(x[{0}]) * 1e30", "inf", "exp(x[{0}]) + 0.001"):
        report = dojoir.verify(dojoir.parse(text.replace("exp(x[{0}])", wrong)), dojoir.parse(text), sizes={"N": 9})
        assert not report.ok, wrong
