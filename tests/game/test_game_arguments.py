"""What does not fit is an ArgumentError, wherever it is given: actions, resets, episodes, suites, agents."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import dojoir

pytest.importorskip("gymnasium", reason="needs the extra agents")

from dojoir.game import HashEncoder, KernelEnv, Suite, encoder, library, make_vec


def env() -> KernelEnv:
    return KernelEnv("dot", sizes={"N": 64}, timer="static", actions="candidates", capacity=16)


def refused(made: Any, code: str = "bad-arguments") -> None:
    """Holds that a call is refused."""
    with pytest.raises(dojoir.ArgumentError) as error:
        made()
    assert error.value.diagnostic.code == code


@pytest.mark.parametrize("what", ["step", "meaning", "action_masks", "render", "episode"])
def test_before_the_first_reset_there_is_no_episode(what: str) -> None:
    one = env()
    given = (0,) if what in ("step", "meaning") else ()
    refused(lambda: one.episode if what == "episode" else getattr(one, what)(*given), "no-episode")


@pytest.mark.parametrize("action", ["1", 1.0, None, np.array([1, 2]), float("nan"), np.float32(2)])
def test_an_action_is_a_whole_number(action: Any) -> None:
    one = env()
    one.reset(seed=0)
    refused(lambda: one.step(action))
    refused(lambda: one.meaning(action))
    assert one.made == [] and one.ledger.moves == 0


@pytest.mark.parametrize("action", [3, np.int64(3), np.array(3)])
def test_numbers_of_numpy_are_actions(action: Any) -> None:
    one = env()
    one.reset(seed=0)
    assert one.meaning(action) == one.meaning(3)
    one.step(action)
    assert len(one.made) == 1


RESETS: tuple[dict[str, Any], ...] = (
    {"seed": -1}, {"seed": "a"}, {"seed": 1.5}, {"options": [1]}, {"options": {"moves": "split(0, 2)"}},
    {"options": {"moves": None}}, {"options": {"moves": [3]}}, {"options": {"kernel": 3}}, {"options": {"size": 3}},
)  # fmt: skip


@pytest.mark.parametrize("given", RESETS, ids=str)
def test_a_reset_that_does_not_fit_leaves_no_episode(given: dict[str, Any]) -> None:
    one = env()
    one.reset(seed=0)
    refused(lambda: one.reset(**given))
    refused(lambda: one.step(0), "no-episode")
    one.reset(seed=0)
    one.step(0)


def test_a_reset_to_an_illegal_move_leaves_no_episode() -> None:
    one = env()
    one.reset(seed=0)
    with pytest.raises(dojoir.IllegalMove):
        one.reset(options={"moves": ["split(1, 4)", "vectorize(0)"]})
    refused(lambda: one.step(0), "no-episode")


FIELDS: tuple[tuple[str, Any], ...] = (
    ("kernel", 3), ("sizes", [3]), ("sizes", {"N": "x"}), ("target", None), ("start", "x"), ("start", [3]),
    ("seconds", "x"), ("seconds", None), ("seconds", 0), ("steps", "x"), ("steps", [3]), ("more", 1),
)  # fmt: skip
OF_STEPS: tuple[tuple[str, Any], ...] = (
    ("reward", "x"), ("way", "odd"), ("moves", [3]), ("moves", None), ("hash", 3), ("seconds", True), ("more", 1),
)  # fmt: skip


@pytest.fixture(scope="module")
def episode() -> dict[str, Any]:
    one = env()
    _, info = one.reset(seed=0)
    for _ in range(2):
        *_, info = one.step(int(np.flatnonzero(info["action_mask"])[-1]))
    data: dict[str, Any] = json.loads(json.dumps(one.episode.to_json()))
    assert one.validate(data) and len(data["steps"]) == 2
    return data


@pytest.mark.parametrize(("field", "value"), FIELDS)
def test_data_that_is_no_episode_is_told_with_its_field(field: str, value: Any, episode: dict[str, Any]) -> None:
    with pytest.raises(dojoir.ArgumentError, match=rf"no episode: .*{field if value != [3] else ''}"):
        env().validate({**episode, field: value})
    refused(lambda: env().validate({name: episode[name] for name in episode if name != field or field == "more"}
                                   | ({"more": 1} if field == "more" else {})))  # fmt: skip


@pytest.mark.parametrize(("field", "value"), OF_STEPS)
def test_a_step_that_is_none_is_told_with_its_number(field: str, value: Any, episode: dict[str, Any]) -> None:
    first, second = episode["steps"]
    with pytest.raises(dojoir.ArgumentError, match=rf"no episode: episode.steps\[1\].*{field}"):
        env().validate({**episode, "steps": [first, {**second, field: value}]})


@pytest.mark.parametrize("tolerance", ["x", -1, float("nan")])
def test_a_tolerance_is_a_number(tolerance: Any, episode: dict[str, Any]) -> None:
    refused(lambda: env().validate(episode, tolerance=tolerance))


def test_suites_and_encoders_that_are_none() -> None:
    both = library(["dot", "relu"])
    calls: tuple[Any, ...] = (
        lambda: Suite(3),  # type: ignore[arg-type]
        lambda: Suite((3,)),  # type: ignore[arg-type]
        lambda: Suite(()), lambda: both.split("x"),  # type: ignore[arg-type]
        lambda: both.split(2), lambda: both.split(0), lambda: library("dot"), lambda: library(["dot"], (0,)),
        lambda: HashEncoder("x"),  # type: ignore[arg-type]
        lambda: HashEncoder(0), lambda: make_vec(2, "dot", timer="static", evaluator=3),
        lambda: make_vec(0, "dot"), lambda: make_vec(2, "dot", timer="static", capacity="x"),
    )  # fmt: skip
    for call in calls:
        refused(call)
    refused(lambda: encoder(3), "bad-model")  # type: ignore[arg-type]


NUMBERS: dict[str, Any] = {
    "operator": "x", "gamma": 0, "width": 0, "rate": -1, "batch": 0, "updates": -1, "capacity": 0, "refresh": 0,
    "epsilon": 3, "least_epsilon": "x", "fall": 0, "seed": -1,
}  # fmt: skip


@pytest.mark.parametrize("name", [*NUMBERS])
def test_an_agent_is_made_of_numbers_that_fit(name: str) -> None:
    pytest.importorskip("torch", reason="needs the extra learn")
    from dojoir.game import MaxQ

    refused(lambda: MaxQ(8, 8, **{name: NUMBERS[name]}))
