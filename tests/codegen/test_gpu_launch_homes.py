"""Temporaries of launches that host code repeats: declared inside, with nothing of the launch before."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from gpu_kernels import ALL
from gpu_walks import RULES
from on_harness import run

import dojoir
from dojoir.passes import MOVES

BUFFERS = """kernel repeated()
in x: f32[32]
inout y: f32[32]
inout z: f32[32]
tmp t: f32{shape} {storage}

"""
BESIDE = "| 32 : gx\n| | z[{1}] += 1\n"
"""A launch of its own, so that what is around it is host code."""

BODIES = {
    "set in a loop": "3\n" + BESIDE + "| 32\n| | 1\n| | | t = x[{1}]\n| | y[{1}] += t\n",
    "set in a loop by itself": "3\n" + BESIDE + "| 1\n| | t = x[{0}]\n| y[{0}] += t\n",
    "set under a condition": "3\n" + BESIDE + "| if {0} >= 0\n| | t = x[{0}]\n| y[{0}] += t\n",
    "two loops of the host": "3\n| 2\n| | 32 : gx\n| | | z[{2}] += 1\n"
    "| | 32\n| | | 1\n| | | | t = x[{2}]\n| | | y[{2}] += t\n",
}  # fmt: skip


@pytest.mark.parametrize("storage", ["reg", "stack", "shared"])
@pytest.mark.parametrize("name", BODIES)
def test_a_temporary_of_one_launch_is_declared_in_it(name: str, storage: str) -> None:
    """Before, `KeyError: 't'`: it was declared where host code is, outside of the loops that run in order."""
    kernel = dojoir.parse(BUFFERS.format(shape="", storage=storage) + BODIES[name])
    dojoir.prove(kernel)
    given = dojoir.testing.random_inputs(kernel, seed=1)
    found, expected = run(kernel, given, {}), dojoir.interpret(kernel, given)
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-6)


CARRIED = {
    "a variable": ("", "3\n" + BESIDE + "| 1\n| | if {0} <= 0\n| | | t = 1\n| | y[{1}] += t\n"),
    "an array": ("[32]", "3\n" + BESIDE + "| 32\n| | if {0} <= 0\n| | | t[{1}] = x[{1}]\n| | y[{1}] += t[{1}]\n"),
    "a sum": (
        "[32]", "3\n" + BESIDE +
        "| 32\n| | if {0} <= 0\n| | | t[{1}] = 0\n| | t[{1}] += 1\n| | y[{1}] += t[{1}]\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("storage", ["stack", "shared"])
@pytest.mark.parametrize("name", CARRIED)
def test_what_a_launch_leaves_for_the_next_is_refused(name: str, storage: str) -> None:
    """It is the same launch in the text, made once more: nothing is left in its registers."""
    shape, body = CARRIED[name]
    kernel = dojoir.parse(BUFFERS.format(shape=shape, storage=storage) + body)
    dojoir.prove(kernel)
    with pytest.raises(dojoir.KernelError) as refused:
        dojoir.emit(kernel, "cuda")
    assert refused.value.diagnostic.code == "crosses-launches"
    assert "place(t, heap)" in str(refused.value)
    heap = dojoir.parse(BUFFERS.format(shape=shape, storage="heap") + body)
    given = dojoir.testing.random_inputs(heap, seed=1)
    np.testing.assert_allclose(run(heap, given, {})["y"], dojoir.interpret(heap, given)["y"], rtol=1e-6)


SHARING = ("unshare_buffer", "share_buffer", "place", "reuse_dims", "stage", "split_scopes", "delete_node", "bind")
"""What temporaries come and go by."""

KINDS = {kind.name: kind for kind in MOVES}


def next_move(kernel: dojoir.Kernel, random: Random) -> dojoir.Move | None:
    for _ in range(12):
        listed = list(KINDS[random.choice(SHARING)].candidates(kernel))
        if listed and dojoir.check(kernel, move := random.choice(listed), 100_000):
            return move
    return None


@pytest.mark.parametrize("name", sorted(ALL))
def test_walks_that_unshare_temporaries_are_emitted_at_each_step(name: str) -> None:
    random, kernel = Random(f"unshared {name}"), dojoir.parse(ALL[name])
    for _ in range(6):
        unshared = [m for m in KINDS["unshare_buffer"].candidates(kernel) if dojoir.check(kernel, m, 100_000)]
        move = random.choice(unshared) if unshared else next_move(kernel, random)
        if move is None:
            return
        kernel = dojoir.apply(kernel, move)
        try:
            dojoir.emit(kernel, "cuda")
        except dojoir.KernelError as error:
            assert error.diagnostic.code in RULES
