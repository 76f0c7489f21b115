"""The ways of actions: what is offered in a state, and that every state stays legal whatever is done."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import dojoir

pytest.importorskip("gymnasium", reason="needs the extra agents")

import gymnasium
from gymnasium.utils.env_checker import check_env

from dojoir.game import KernelEnv
from dojoir.game.actions import NOT_COUNTED, WAYS
from dojoir.game.chances import OTHERS
from dojoir.game.choices import absent, choices, made, outcomes
from dojoir.game.observing import WAYS as SEEN
from dojoir.passes.schedule.plan import parts
from dojoir.search.actions import ACTIONS, FORMS, STRUCTURES, after

SIZES = {"N": 4096}


def env(**more: Any) -> KernelEnv:
    return KernelEnv(**{"kernel": "softmax", "sizes": {"N": 64, "M": 64}, "timer": "static", "undo": True} | more)


def played(one: KernelEnv, seed: int, steps: int) -> list[tuple[str, str, float, str]]:
    """Random actions that the mask offers: the action, the hash after it, the reward, and why it was refused."""
    _, info = one.reset(seed=seed)
    rng, found = np.random.default_rng(seed), []
    for _ in range(steps):
        offered = np.flatnonzero(info["action_mask"])[1:]
        if not len(offered):
            break
        action = int(rng.choice(offered))
        words = one.meaning(action)
        _, reward, _, cut, info = one.step(action)
        found.append((words, info["hash"], float(reward), info.get("verdict", "")))
        if cut:
            break
    return found


@pytest.mark.parametrize("actions", [way for way in WAYS if way != "legal"])
@pytest.mark.parametrize("observation", [*SEEN, SEEN])
def test_gymnasium_finds_nothing_to_complain_of(actions: str, observation: str | tuple[str, ...]) -> None:
    made = gymnasium.make(
        "dojoir/Kernel-v0", kernel="relu", sizes=SIZES, timer="static", actions=actions, observation=observation,
        undo=True, render_mode="ansi", disable_env_checker=True,
    )  # fmt: skip
    check_env(made.unwrapped)  # every warning is an error here


@pytest.mark.parametrize("actions", WAYS)
def test_every_state_is_legal_and_a_seed_is_an_episode(actions: str) -> None:
    one = env(actions=actions)
    steps = 2 if actions == "legal" else 12
    first = played(one, 3, steps)
    assert isinstance(one.trace, dojoir.Trace)
    assert one.trace.is_safe and dojoir.certify(one.trace)
    assert first == played(env(actions=actions), 3, steps) != played(one, 4, steps)


def test_candidates_are_proved_when_they_are_made() -> None:
    one = env(actions="candidates")
    _, info = one.reset(seed=0)
    assert isinstance(one.trace, dojoir.Trace)
    offered = [str(move) for move in dojoir.candidates(one.trace.kernel, "llvm")]
    assert [one.meaning(a) for a in np.flatnonzero(info["action_mask"])] == ["stop", *offered]
    legal = {str(move) for move in dojoir.moves(one.trace.kernel, "llvm")}
    refused = offered.index(next(text for text in offered if text not in legal)) + 2
    before = info["hash"]
    _, reward, stop, cut, info = one.step(refused)
    assert (info["hash"], reward, stop, cut) == (before, 0.0, False, False)
    assert one.meaning(refused) in info["verdict"] and one.ledger.moves == 0, "it was offered, and costs no step"
    assert not info["action_mask"][refused], "it was refused in this state"
    assert "verdict" in one.step(refused)[4] and one.ledger.moves == 1, "it was not offered any more"
    _, _, _, _, info = one.step(offered.index(next(iter(sorted(legal)))) + 2)
    assert info["hash"] != before and "verdict" not in info
    one.step(1)
    assert one.action_masks()[refused], "nobody has asked since the state was come back to"


def test_what_is_drawn_is_legal_and_as_many_as_fit() -> None:
    one = env(actions="drawn", capacity=10)
    _, info = one.reset(seed=0)
    assert isinstance(one.trace, dojoir.Trace)
    drawn = [one.meaning(a) for a in np.flatnonzero(info["action_mask"])[1:]]
    assert len(set(drawn)) == 8 and info["left_out"] == NOT_COUNTED
    listed = [str(move) for move in dojoir.moves(one.trace.kernel, "llvm")]
    assert set(drawn) <= set(listed)
    _, _ = one.reset(seed=1)
    assert [one.meaning(a) for a in range(2, 10)] != drawn


def test_a_draw_from_the_list_has_nothing_else() -> None:
    kernel = dojoir.kernels.load("relu")
    listed = dojoir.moves(kernel, "llvm")
    found = dojoir.search.draw(kernel, Random(0), 10_000, "llvm", listed=True)
    assert sorted(map(str, found)) == sorted(map(str, listed))


def test_choices_have_the_same_numbers_in_every_state_and_are_made_as_moves() -> None:
    one = env(actions="choices")
    one.reset(seed=0)
    words = [one.meaning(a) for a in range(one.capacity)]
    number = words.index("join_all")
    _, _, _, _, info = one.step(number)
    assert isinstance(one.trace, dojoir.Trace)
    assert [str(move) for move in one.trace.moves] == ["join_scopes(0, 1)"]
    assert [one.meaning(a) for a in range(one.capacity)] == words
    _, _, _, _, info = one.step(number)
    assert "changes nothing" in info["verdict"] and not info["action_mask"][number]
    one.step(words.index("default_schedule"))
    count = len(one.trace.moves)
    assert count > 2 and one.trace.replay() == one.trace.kernel
    _, _, _, _, info = one.step(1)
    assert info["moves"] == 1, "all moves of a choice are taken back together"
    assert one.validate(one.episode)


@pytest.mark.parametrize("actions", WAYS)
def test_a_chance_is_stated_for_all_that_is_offered(actions: str) -> None:
    one = env(actions=actions)
    _, info = one.reset(seed=0)
    mask, chances = info["action_mask"].astype(bool), info["action_chance"]
    assert (chances[~mask] == 0).all() and (chances[mask] > 0).all() and (chances <= 1).all()
    assert (chances[mask] == 1).all() == (actions in ("legal", "drawn"))


def test_what_is_offered_with_a_chance_holds_it() -> None:
    """On kernels of which no share was taken: the squares of what the chances are off by are below those of one
    number for all, and refusals leave the mask without an end."""
    squares, base = list[float](), list[float]()
    for name in ("log_softmax", "maxpool2d", "groupnorm"):
        one = KernelEnv(name, timer="static", actions="candidates", budget=dojoir.Budget(moves=8))
        _, info = one.reset(seed=0)
        rng = np.random.default_rng(0)
        for _ in range(40):
            action = int(rng.choice(np.flatnonzero(info["action_mask"])[1:]))
            offered = float(info["action_chance"][action])
            _, _, _, cut, info = one.step(action)
            made = "verdict" not in info
            squares.append((offered - made) ** 2)
            base.append((OTHERS - made) ** 2)
            if cut:
                _, info = one.reset(seed=1)
    assert sum(squares) < 0.85 * sum(base)


@pytest.mark.parametrize("name", ["softmax", "matmul", "gemv", "conv2d"])
def test_choices_that_are_not_offered_cannot_be_made(name: str) -> None:
    """The cheap test of a choice is no stricter than making it, and what `outcomes` has are different kernels."""
    could, trace = choices("llvm", 1), dojoir.Trace(dojoir.kernels.load(name))
    for _ in range(2):
        gone = absent(trace, could, "llvm")
        assert gone and all(isinstance(made(trace, could[number], "llvm"), str) for number in gone)
        found = [longer for _, _, longer in outcomes(trace, could, "llvm")]
        hashes = {longer.kernel.hash for longer in found}
        assert len(hashes) == len(found) and trace.kernel.hash not in hashes
        assert all(longer.is_safe for longer in found)
        trace = found[-1]


def test_the_choices_for_a_gpu_are_those_of_its_planner() -> None:
    assert (*FORMS,) == (*parts.FORMS,) and (*STRUCTURES,) == (*parts.STRUCTURES,)
    one = env(kernel=dojoir.kernels.load("softmax").specialize(M=64), sizes={"N": 64}, target="cuda",
              actions="choices")  # fmt: skip
    _, info = one.reset(seed=0)
    words = [one.meaning(a) for a in range(one.capacity)]
    nests = {words[a].partition(",")[0] for a in np.flatnonzero(info["action_mask"])}
    assert {"structure(0", "structure(1"} <= nests and "structure(2" not in nests
    one.step(words.index("arrange(joined)"))
    _, _, _, _, info = one.step(words.index("structure(0, rows_in_warps)"))
    assert "verdict" not in info and "lane" in one.render()
    offered = [words[a] for a in np.flatnonzero(info["action_mask"])]
    assert not [word for word in offered if word.startswith("structure")], "the nest is scheduled"
    _, _, _, _, info = one.step(words.index("structure(5, rules)"))
    assert "verdict" in info
    assert len(choices("llvm", 1)) < WAYS["choices"] and len(choices("cuda", 1)) < WAYS["choices"]


@pytest.mark.parametrize(
    "text",
    ["structure(0, rowsinwarps)", "structure(0.0, rules)", "structure(0, rules, avx2)", "arrange(apar)",
     "structure(0, large_tiles)"],
)  # fmt: skip
def test_a_part_of_a_plan_that_cannot_be_made_is_told(text: str) -> None:
    trace = dojoir.Trace(dojoir.kernels.load("softmax"))
    (element,) = dojoir.parse_pipeline(text)
    assert isinstance(element, dojoir.Pass)
    with pytest.raises((dojoir.ArgumentError, dojoir.IllegalMove)):
        element(trace)


def test_a_search_draws_what_the_planner_tries() -> None:
    """For a GPU a form or a structure, for a CPU the rules without one: made as moves, all of them legal."""
    kernel = dojoir.kernels.load("softmax").specialize(N=64, M=256)
    for target, family in (("cuda", "planned"), ("avx512", "without")):
        texts = [*ACTIONS[family](dojoir.machine_for(target), 1)]
        other = "avx512" if target == "cuda" else "cuda"
        assert texts and not [*ACTIONS[family](dojoir.machine_for(other), 1)]
        made = {text: trace for text in texts if (trace := after(dojoir.Trace(kernel), text, target)) is not None}
        assert len(made) >= 2 and all(dojoir.certify(trace) for trace in made.values())
        assert len({trace.kernel for trace in made.values()}) >= 2
