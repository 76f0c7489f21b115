"""What an environment is given, what can be changed later, episodes as data, and copies in other processes."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folders import ROOT

import dojoir
from dojoir.runtime import Evaluation

pytest.importorskip("gymnasium", reason="needs the extra agents")

from dojoir.game import Episode, KernelEnv, Suite, make_vec
from dojoir.game.scoring import Scorer

SIZES = {"N": 4096}
TEXT = "kernel half(N)\nin  x: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = x[{0}] / 2\n"


def env(**more: Any) -> KernelEnv:
    return KernelEnv(**{"kernel": "relu", "sizes": SIZES, "timer": "static", "actions": "candidates"} | more)


def played(one: KernelEnv, seed: int, steps: int) -> Episode:
    _, info = one.reset(seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        offered = np.flatnonzero(info["action_mask"])[1:]
        undo = one.undo and 1 in offered and len(one.made) % 4 == 3
        _, _, _, _, info = one.step(1 if undo else rng.choice(offered))
    return one.episode


# -- kernels --------------------------------------------------------------------------------------------------
def test_a_kernel_is_a_text_a_path_or_a_name(tmp_path: Path) -> None:
    path = tmp_path / "half.dojo"
    path.write_text(TEXT, encoding="utf-8")
    half, relu = dojoir.parse(TEXT), dojoir.kernels.load("relu")
    for given, kernel in ((TEXT, half), (str(path), half), (path, half), (half, half), ("library:relu", relu)):
        assert env(kernel=given).suite.entries[0][0] == kernel
    one = env()
    one.reset(options={"kernel": TEXT, "sizes": {"N": 8}})
    assert isinstance(one.trace, dojoir.Trace) and one.trace.start == half


ILL = TEXT.replace("y[{0}] =", "y[{0} + 1] =")


@pytest.mark.parametrize(
    "wrong",
    [
        {"kernel": 3}, {"kernel": "library:nothing"}, {"kernel": "no/such.dojo"}, {"sizes": {"M": 3}},
        {"sizes": {"N": 0}}, {"sizes": {"N": 2.5}}, {"sizes": {"N": True}}, {"sizes": {}}, {"sizes": [3]},
        {"sizes": {"N": 8, "M": 8}}, {"target": "abacus"}, {"target": 3}, {"threads": 0}, {"threads": "2"},
        {"actions": "all"}, {"actions": None}, {"budget": 40}, {"capacity": 2.5}, {"capacity": True},
        {"undo": "yes"}, {"start": "relu"}, {"start": [3]}, {"start": dojoir.Trace(dojoir.kernels.load("silu"))},
        {"db": 3}, {"evaluator": 3}, {"evaluator": Scorer("c", timer="static")}, {"encoder": 3},
        {"observation": 3}, {"observation": [["text"]]}, {"observation": ("text", "text")}, {"reward": 1},
        {"timer": True}, {"suite": 3, "kernel": None, "sizes": None}, {"render_mode": 1},
    ],
)  # fmt: skip
def test_what_does_not_fit_is_an_argument_error_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(dojoir.ArgumentError):
        env(**wrong)


def test_an_ill_formed_text_is_told_as_that() -> None:
    with pytest.raises(dojoir.KernelError):
        env(kernel=ILL)
    with pytest.raises(dojoir.ParseError):
        env(kernel="kernel f(N)\nin x\n")
    with pytest.raises(dojoir.ArgumentError):
        env(kernel=None, sizes=None, suite=Suite(((dojoir.kernels.load("relu"), {"M": 3}),)))


def test_gymnasium_finds_it_without_an_import() -> None:
    """Version 1 of Gymnasium looks at no entry points: the module is named in the id."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["project"]["entry-points"]["gymnasium.envs"]
    module, _, name = entries["dojoir"].partition(":")
    code = (
        "import gymnasium\n"
        "made = gymnasium.make('dojoir.game:dojoir/Kernel-v0', kernel='library:relu', timer='static')\n"
        "made.reset(seed=0)\n"
        "del gymnasium.registry['dojoir/Kernel-v0']\n"
        f"import {module} as one\n"
        f"one.{name}(); one.{name}()\n"
        "print(made.unwrapped.trace.start.name, 'dojoir/Kernel-v0' in gymnasium.registry)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.stdout == "relu True\n", done.stderr


# -- what can be changed later --------------------------------------------------------------------------------
def test_observation_and_reward_can_be_chosen_after_making() -> None:
    one = env(kernel="gemv", sizes={"N": 64, "M": 64}, observation="features", reward="each")
    seen, _ = one.reset(seed=0)
    assert seen in one.observation_space
    one.observation, one.reward = ("text", "embedding"), "last"
    assert one.observation == ("text", "embedding") and one.reward == "last"
    seen, reward, _, _, info = one.step(next(a for a in range(600) if one.meaning(a) == "vectorize(0)"))
    assert set(seen) == {"text", "embedding"} and seen in one.observation_space
    assert reward == 0.0 and info["value"] > 0
    assert one.step(0)[1] == info["value"]
    for name, wrong in (("observation", "smell"), ("reward", "none"), ("observation", None)):
        with pytest.raises(dojoir.ArgumentError):
            setattr(one, name, wrong)
    assert one.reward == "last" and one.observation == ("text", "embedding")
    assert one.validate(one.episode), "each step has the way of its reward"


# -- episodes ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("reward", ["each", "max", "state", "sol"])
def test_an_episode_is_data_that_validates(reward: str) -> None:
    one = env(reward=reward, undo=True)
    episode = played(one, 1, 12)
    assert any(step.verdict for step in episode.steps) and any(step.action == "undo" for step in episode.steps)
    again = Episode.from_json(json.loads(json.dumps(episode.to_json())))
    assert again == episode
    before = one.episode
    found = env().validate(again.to_json())
    assert found and found.steps == 12 and "agree" in str(found)
    assert one.validate(again) and one.episode == before


def test_an_episode_that_does_not_hold_says_where() -> None:
    one = env()
    episode = played(one, 2, 8)
    at = next(i for i, step in enumerate(episode.steps) if step.moves)
    step = episode.steps[at]
    others = {
        "the reward is": replace(step, reward=step.reward + 0.5),
        "the state is": replace(step, hash="0" * 8),
        "cannot be replayed": replace(step, moves=("parallelize(7)",)),
    }
    for words, other in others.items():
        wrong = replace(episode, steps=(*episode.steps[:at], other, *episode.steps[at + 1 :]))
        found = one.validate(wrong)
        assert not found and words in str(found) and f"step {at + 1}" in str(found)
    assert not one.validate(replace(episode, start=("split(9, 9)",)))
    with pytest.raises(dojoir.ArgumentError):
        one.validate(replace(episode, timer="measure"))
    with pytest.raises(dojoir.ArgumentError):
        one.validate({"steps": 3})


# -- copies and processes ---------------------------------------------------------------------------------------
def test_it_pickles_with_a_timer_that_has_timed(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="needs the extra agents")
    one = env(timer="measure", db=tmp_path / "a.db", actions="legal")
    one.reset(seed=0)
    vectorize = next(a for a in range(64) if one.meaning(a) == "vectorize(0)")
    one.step(vectorize)
    other = pickle.loads(pickle.dumps(one))
    assert other.trace.kernel == one.trace.kernel and other.evaluation == one.evaluation
    assert other.validate(one.episode, tolerance=0.0), "it knows what was timed"
    other.reset(seed=0)
    _, _, _, _, info = other.step(next(a for a in range(64) if other.meaning(a) == "split(0, 8)"))
    assert info["status"] == "ok" and info["hash"] == other.evaluation.hash
    other.close()
    one.close()


def test_an_evaluation_of_another_state_is_refused() -> None:
    class Mixed:
        def evaluate(self, kernels: Any, best: object = None) -> Any:
            for _ in kernels:
                yield Evaluation("another", "ok", 1.0)

    with pytest.raises(dojoir.RunError, match="another"):
        env(evaluator=Mixed()).reset(seed=0)


def test_a_vector_of_processes_measures() -> None:
    """Each is served by a thread of the process that has the evaluator: they mixed up what they asked for."""
    code = """
import numpy as np
from dojoir.game import KernelEnv, make_vec
if __name__ == "__main__":
    vector = make_vec(3, "library:relu", processes=True, timer="measure", sizes={"N": 4096}, actions="candidates")
    _, infos = vector.reset(seed=5)
    for turn in range(3):
        actions = [int(np.flatnonzero(mask)[2 + turn]) for mask in infos["action_mask"]]
        _, _, stopped, _, infos = vector.step(np.array(actions))
        assert not stopped.any() and np.isfinite(infos["seconds"]).all(), infos
    episodes = vector.get_attr("episode")
    vector.close()
    one = KernelEnv("library:relu", timer="measure", sizes={"N": 4096})
    print([bool(one.validate(episode, tolerance=3.0)) for episode in episodes])
    one.close()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert done.stdout == "[True, True, True]\n", done.stderr


RECIPE = """
import numpy as np
from stable_baselines3.common.vec_env import SubprocVecEnv
from dojoir.game import Shared

if __name__ == "__main__":
    with Shared(timer="static") as shared:
        make = shared.maker("library:relu", sizes={"N": 4096}, actions="candidates")
        vector = SubprocVecEnv([make, make], start_method="spawn")
        vector.seed(0)
        vector.reset()
        masks = vector.env_method("action_masks")
        _, rewards, _, infos = vector.step(np.array([int(np.flatnonzero(mask)[3]) for mask in masks]))
        print([info["hash"] for info in infos], rewards.shape)
        vector.close()
"""


def test_the_recipe_for_stable_baselines_shares_one_evaluator() -> None:
    pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not there")
    page = (ROOT / "docs" / "game.md").read_text(encoding="utf-8")
    assert RECIPE.replace('        print([info["hash"] for info in infos], rewards.shape)\n', "") in page
    done = subprocess.run([sys.executable, "-c", RECIPE], capture_output=True, text=True, timeout=240)
    one = env()
    one.reset(seed=0)
    _, _, _, _, info = one.step(3)
    assert done.stdout == f"{[info['hash']] * 2} (2,)\n", done.stderr


def test_what_is_shared_takes_no_timer_of_its_own() -> None:
    with pytest.raises(dojoir.ArgumentError):
        make_vec(2, "relu", processes=True, timer="static", capacity=1)
    with pytest.raises(dojoir.ArgumentError):
        make_vec(0, "relu")
