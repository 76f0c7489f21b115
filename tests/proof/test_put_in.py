"""What a move puts back, or takes away as dead, is decided by what it touches: other nests cost nothing."""

import pytest

import dojoir
from dojoir.proof.certificate import InstanceMap
from dojoir.proof.check import is_legal, prove_rewrite

NEST = """N @i
| 8 @j
| | {t}[{{i}}, {{j}}] = 2 * x[{{i}}]
| y{n}[{{i}}] = {t}[{{i}}, 3] + {t}[{{i}}, 5]
"""
MANY, FEW_STEPS = 12, 1_000


def kernel(dead: str, many: int = MANY) -> dojoir.Kernel:
    outs = "".join(f"out y{n}: f32[N]\n" for n in range(many))
    temporaries = "".join(f"tmp t{n}: f32[N~, 8]\n" for n in range(many))
    nests = "".join(NEST.format(t=f"t{n}", n=n) for n in range(many))
    return dojoir.parse(f"kernel many(N)\nin x: f32[N]\n{outs}{temporaries}tmp dead: f32[N]\n\n{nests}{dead}")


WRITTEN = "N @i\n| dead[{i}] = 1\n"


@pytest.mark.parametrize(("dead", "move"), [(WRITTEN, "delete_temporary(dead)"), ("", "delete_temporary(dead)")])
def test_a_dead_temporary_goes_in_few_steps(dead: str, move: str) -> None:
    before = kernel(dead)
    assert dojoir.check(before, "split(0, 4)")  # the kernel is known to be well-formed then
    assert dojoir.check(before, move, step_limit=FEW_STEPS)


def test_a_node_is_put_back_in_steps_that_other_nests_add_nothing_to() -> None:
    before = kernel(WRITTEN, many=80)
    assert dojoir.check(before, "split(0, 4)")
    assert dojoir.check(before, 'restore_node(80.1, "if {0} >= N; | dead[{0}] = 0")', step_limit=30_000)


@pytest.mark.parametrize(
    ("move", "code"),
    [
        (f'restore_node({MANY}.1, "if {{0}} >= 1; | y0[{{0}}] = 0")', "wrong-value"),
        ('restore_node(1, "N; | dead[{0} + 1] = 0")', "out-of-bounds"),
        ('restore_node(0, "N; | dead[{0}] = t0[{0}, 0]")', "read-before-write"),
    ],
)
def test_what_is_put_back_is_held_to_be_nothing(move: str, code: str) -> None:
    verdict = dojoir.check(kernel(WRITTEN), move)
    assert not verdict, verdict
    assert verdict.code == code, verdict


def test_what_is_read_is_not_dead() -> None:
    verdict = dojoir.check(kernel(WRITTEN + "N @i\n| y0[{i}] = dead[{i}]\n"), "delete_temporary(dead)")
    assert not verdict
    assert verdict.code == "still-read"


@pytest.mark.parametrize("origins", [(), (None, None, None)])
def test_a_certificate_that_does_not_fit_is_refused(origins: tuple[None, ...]) -> None:
    """A backward one has an entry for each statement of the kernel before."""
    after = kernel(WRITTEN)
    before = dojoir.apply(after, "delete_temporary(dead)")
    verdict = prove_rewrite(before, after, InstanceMap(origins, backward=True))
    assert verdict.code == "lost-statement", verdict
    assert not is_legal(before, after, InstanceMap(origins, backward=True))
