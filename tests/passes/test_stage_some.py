"""`stage` of some of the accesses of an array, and of windows that are gone through backwards."""

import pytest

import dojoir

GRAM = dojoir.parse("""kernel gram(N, M)
where N % 8 == 0
in  a: f32[N, M]
out c: f32[M, M]
M @i
| M @j
| | c[{i}, {j}] = 0
| | N // 8 @k
| | | 8 @l
| | | | c[{i}, {j}] += a[8*{k} + {l}, {i}] * a[8*{k} + {l}, {j}]
""")


def test_each_operand_of_a_product_with_itself_has_a_copy() -> None:
    trace = dojoir.Trace(GRAM)
    trace.apply("stage(@l, a, left, in, 0)")
    trace.apply("stage(@l, a, right, in)")
    last = dojoir.to_text(trace.kernel).rstrip().splitlines()[-1]
    assert last.endswith("c[{0}, {1}] += left[{3}, 0] * right[{3}, 0]")
    assert dojoir.certify(trace)
    dojoir.verify(trace.kernel, sizes={"N": 16, "M": 5})
    while trace.moves:
        trace.undo()
    assert trace.kernel == GRAM


def test_unstage_of_one_copy_is_undone_as_that() -> None:
    staged = dojoir.apply(GRAM, "stage(@l, a, right, in, 1)")
    trace = dojoir.Trace(staged)
    trace.apply("unstage(@l, right)")
    assert trace.kernel == GRAM
    trace.undo()
    assert trace.kernel == staged


@pytest.mark.parametrize(
    ("move", "code"),
    [
        ("stage(@l, a, t, in, 2)", "not-used"),
        ("stage(@l, c, t, out, 0)", "unknown-direction"),
        ("stage(@l, a, t, inout, 1)", "unknown-direction"),
    ],
)
def test_what_is_no_access_or_is_written_is_refused(move: str, code: str) -> None:
    with pytest.raises(dojoir.IllegalMove) as refused:
        dojoir.apply(GRAM, move)
    assert refused.value.diagnostic.code == code


def test_a_copy_of_what_the_node_writes_is_stale() -> None:
    text = "kernel t(N)\ninout x: f32[N]\nN\n| x[{0}] = x[{0}] + 1\n| x[{0}] = x[{0}] * x[{0}]\n"
    with pytest.raises(dojoir.IllegalMove):
        dojoir.apply(dojoir.parse(text), "stage(0, x, t, in, 3)")


def test_accesses_in_scopes_of_other_extents_share_a_copy() -> None:
    """How far each access goes is said by the scopes around it, and not by others of the same depth."""
    kernel = dojoir.parse(
        "kernel f(N, K)\nin x: f32[K, 64]\nout y: f32[N, 64]\nN @i\n| 1 @o\n| | 64\n| | | y[{i}, {2}] = 0\n"
        "| | K\n| | | 64\n| | | | y[{i}, {3}] += x[{2}, {3}]\n"
    )
    trace = dojoir.Trace(kernel)
    trace.apply("stage(@o, y, t, out)")
    assert "tmp t: f32[1, 64]\n" in dojoir.to_text(trace.kernel)
    assert dojoir.certify(trace)
    trace.undo()
    assert trace.kernel == kernel


BACKWARDS = """kernel backwards(N, C)
in  x: f32[N + 2]
in  f: f32[C, 3]
out y: f32[N]
N @i
| y[{i}] = 0
| C @c
| | 3 @p
| | | y[{i}] += x[{i} - {p} + 2] * f[{c}, 2 - {p}]
"""


@pytest.mark.parametrize(
    ("move", "copied"),
    [
        ("stage(@i, f, t, in)", "t[{0}, {1}] = f[{0}, {1}]"),
        ("stage(@c, f, t, in)", "t[{1}, {2}] = f[{1}, {2}]"),
        ("stage(@c, x, t, in)", "t[{1}] = x[{0} + {1}]"),
        ("stage(@i, x, t, in)", "t[{0}] = x[{0}]"),
    ],
)
def test_a_window_that_is_gone_through_backwards_is_copied(move: str, copied: str) -> None:
    kernel = dojoir.parse(BACKWARDS)
    trace = dojoir.Trace(kernel)
    trace.apply(move)
    assert copied in dojoir.to_text(trace.kernel), str(trace.kernel)
    assert dojoir.certify(trace)
    assert dojoir.verify(trace.kernel, against=kernel, sizes={"N": 9, "C": 2}).ok
    trace.undo()
    assert trace.kernel == kernel


def test_how_far_an_open_scope_goes_back_is_not_plain() -> None:
    text = "kernel f(N)\nin  x: f32[N]\nout y: f32[N]\nN @i\n| y[{i}] = x[N - 1 - {i}]\n"
    assert dojoir.check(dojoir.parse(text), "stage(@i, x, t, in)").code == "not-linear"
