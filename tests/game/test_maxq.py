"""Max-Q: the two operators where they differ, learning on kernels, files, and agents as strategies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest

import dojoir

pytest.importorskip("gymnasium", reason="needs the extra agents")
pytest.importorskip("torch", reason="needs the extra learn")
pytest.importorskip("safetensors", reason="needs the extra learn")

from dojoir.game import MaxQ, library
from dojoir.game.arena import KernelArena
from dojoir.game.scoring import Scorer

LOSS, GAIN, GAMMA = -3.0, 2.0, 0.9


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The networks are small: threads would only wait for each other."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Place:
    """A state of the example with two branches: one may stop, or go on; a third action is never legal."""

    def __init__(self, number: int, value: float) -> None:
        self.number, self.value, self.asked = number, value, 0
        self.vector = np.eye(3, dtype=np.float32)[number]
        self.rows = np.eye(3, dtype=np.float32)

    def legal(self, action: int) -> bool:
        self.asked += 1
        return action < 2

    def shuffled(self, rng: Random) -> list[int]:
        return rng.sample(range(3), 3)


class Branches:
    """Stop at once for nothing, or go through a loss to the best state."""

    state_size = action_size = 3

    def begin(self, rng: Random) -> Place:
        return Place(0, 0.0)

    def act(self, place: Place, action: int) -> tuple[float, Place | None]:
        assert action < 2
        if action == 0:
            return place.value, None
        return (LOSS, Place(1, LOSS)) if place.number == 0 else (GAIN, None)


@pytest.mark.parametrize("operator", ["max", "sum"])
def test_the_sum_stops_before_a_loss_and_the_maximum_goes_through(operator: str) -> None:
    agent = MaxQ(
        3, 3, operator=operator, gamma=GAMMA, width=32, rate=5e-3, refresh=25, fall=10**9, epsilon=1.0, seed=1
    )
    agent.learn(Branches(), 400)
    first, second = Branches().begin(Random(0)), Place(1, LOSS)
    through = max(LOSS, GAMMA * GAIN) if operator == "max" else LOSS + GAMMA * GAIN
    np.testing.assert_allclose(agent.values(first)[:2], [0.0, through], atol=0.05)
    np.testing.assert_allclose(agent.values(second)[:2], [LOSS, GAIN], atol=0.05)
    assert agent.best(first) == (1 if operator == "max" else 0)
    assert agent.best(second) == 1


def test_legality_is_asked_in_order_and_no_further() -> None:
    agent = MaxQ(3, 3, width=8)
    place = Place(0, 0.0)
    order = np.argsort(-agent.values(place), kind="stable")
    best = agent.best(place)
    assert best == next(action for action in order if action < 2)
    assert place.asked == 1 + list(order).index(best)


def arena() -> KernelArena:
    return KernelArena(library(["relu"], statements=(4096,)), Scorer(timer="static"), length=3)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of an agent that has learned a little."""
    game = arena()
    agent = MaxQ(game.state_size, game.action_size, width=16, batch=8, fall=20, refresh=10)
    curve = agent.learn(game, 24)
    assert curve and all(np.isfinite(curve))
    path = tmp_path_factory.mktemp("agent") / "agent.safetensors"
    agent.save(str(path))
    return path


def test_an_agent_is_the_same_from_its_file(learned: Path, tmp_path: Path) -> None:
    agent, position = MaxQ.load(str(learned)), arena().begin(Random(0))
    assert agent.steps == 24
    agent.save(str(tmp_path / "again.safetensors"))
    again = MaxQ.load(str(tmp_path / "again.safetensors"))
    np.testing.assert_array_equal(agent.values(position), again.values(position))
    assert agent.optimizer.state_dict()["state"].keys() == again.optimizer.state_dict()["state"].keys()
    assert agent.optimizer.state_dict()["state"]
    for one in (agent, again):
        one.learn(arena(), 10)
    np.testing.assert_array_equal(agent.values(position), again.values(position))


@pytest.mark.parametrize("content", [b"", b"text", b"\x80\x04K\x01."])
def test_what_is_no_agent_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(dojoir.ArgumentError, match="bad-model"):
        MaxQ.load(str(tmp_path / "a.safetensors"))
    with pytest.raises(dojoir.ArgumentError, match="bad-model"):
        MaxQ.load(str(tmp_path / "none"))


def test_an_agent_is_a_strategy(learned: Path) -> None:
    kernel = dojoir.kernels.load("relu")
    found = dojoir.tune(
        kernel, sizes={"N": 4096}, strategy=f"maxq:{learned}", timer="static",
        budget=dojoir.Budget(states=8), options={"length": 3},
    )  # fmt: skip
    assert len(found.states) == 8
    assert found.trace.is_safe


def test_an_encoder_that_was_trained_is_read_and_pickles_are_not(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers", reason="needs the extra learn")
    from dojoir.game import encoder, train_encoder

    path = tmp_path / "model"
    losses = train_encoder(str(path), kernels=["relu", "add"], steps=8, width=32, texts=12)
    assert np.mean(losses[-2:]) < losses[0]
    encode = encoder(f"lm:{path}")
    vectors = [encode.encode(dojoir.kernels.load(name)) for name in ("relu", "add", "relu")]
    assert encode.size == 32 and vectors[0].shape == (32,)
    np.testing.assert_array_equal(vectors[0], vectors[2])
    assert np.abs(vectors[0] - vectors[1]).max() > 0
    assert abs(float(np.linalg.norm(vectors[0])) - 1) < 1e-5
    (weights,) = path.glob("*.safetensors")
    weights.unlink()
    torch.save({}, path / "pytorch_model.bin")
    with pytest.raises(dojoir.ArgumentError, match="bad-model"):
        encoder(f"lm:{path}")
