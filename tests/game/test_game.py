"""The environment: what Gymnasium asks of one, masks, rewards, budgets, and that a seed is an episode."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dojoir
from dojoir.ir.text import canonical_text
from dojoir.runtime import Evaluation

pytest.importorskip("gymnasium", reason="needs the extra agents")

import gymnasium
from gymnasium.utils.env_checker import check_env

from dojoir.game import HashEncoder, KernelEnv, Suite, encoder, library, make_vec
from dojoir.game.encoders import MOVE_SIZE, ModelEncoder, lines_of, move_row, shape_at
from dojoir.game.environment import REWARDS, WORST
from dojoir.game.observing import WAYS

SIZES = {"N": 4096}


def env(**more: Any) -> KernelEnv:
    return KernelEnv(**{"kernel": "relu", "sizes": SIZES, "timer": "static", "capacity": 48} | more)


def played(one: KernelEnv, seed: int, steps: int) -> list[tuple[str, float, bool]]:
    """An episode of random legal actions, without stopping: the hash of each state, its reward, and whether the
    episode was cut off."""
    _, info = one.reset(seed=seed)
    one.action_space.seed(seed)
    found = [(info["hash"], 0.0, False)]
    for _ in range(steps):
        mask = info["action_mask"].copy()
        mask[0] = 0
        _, reward, _, cut, info = one.step(one.action_space.sample(mask))
        found.append((info["hash"], float(reward), cut))
        if cut:
            break
    return found


@pytest.mark.parametrize("observation", [*WAYS, WAYS])
def test_gymnasium_finds_nothing_to_complain_of(observation: str | tuple[str, ...]) -> None:
    made = gymnasium.make(
        "dojoir/Kernel-v0", kernel="relu", sizes=SIZES, timer="static", observation=observation, capacity=48,
        render_mode="ansi", disable_env_checker=True,
    )  # fmt: skip
    check_env(made.unwrapped)  # every warning is an error here
    made.close()


def test_the_mask_is_what_is_legal() -> None:
    one = env(capacity=512)
    _, info = one.reset(seed=0)
    assert isinstance(one.trace, dojoir.Trace)
    legal = [str(move) for move in dojoir.moves(one.trace.kernel, "llvm")]
    mask = info["action_mask"]
    assert mask.dtype == np.int8 and mask.shape == (512,)
    assert [one.meaning(a) for a in range(512) if mask[a]] == ["stop", *legal]
    assert (one.action_masks() == mask.astype(bool)).all()
    assert info["left_out"] == 0
    small = env(capacity=8)
    _, info = small.reset(seed=0)
    assert info["left_out"] == len(legal) - 7
    chosen = [small.meaning(a) for a in range(1, 8)]
    assert chosen == [move for move in legal if move in chosen]
    small.reset(seed=1)
    assert [small.meaning(a) for a in range(1, 8)] != chosen


def test_an_action_that_is_none_changes_nothing_and_says_why() -> None:
    one = env(undo=True)
    _, before = one.reset(seed=0)
    for action in (1, 47, 48, -1):
        _, reward, stop, cut, info = one.step(action)
        assert (info["hash"] == before["hash"] and "action" in info["verdict"]) or "undo" in info["verdict"]
        assert (reward, stop, cut) == (0.0, False, False)
    assert one.ledger.moves == 4


def test_undo_takes_a_move_back() -> None:
    one = env(undo=True)
    _, before = one.reset(seed=0)
    assert not before["action_mask"][1]
    _, gained, _, _, info = one.step(_number(one, "vectorize", "split(0, 8)"))
    assert info["action_mask"][1] and one.meaning(1) == "undo"
    _, lost, _, _, info = one.step(1)
    assert info["hash"] == before["hash"]
    assert math.isclose(gained + lost, 0.0, abs_tol=1e-12)


def _number(one: KernelEnv, *wanted: str) -> int:
    return next(a for a in range(one.capacity) if one.meaning(a).startswith(wanted))


MOVES = ["split(0, 8)", "vectorize(0.0)", "unroll(0.0)"]


@pytest.mark.parametrize("reward", REWARDS)
def test_rewards_are_logarithms_of_ratios_of_times(reward: str) -> None:
    one = env(reward=reward, capacity=512)
    one.reset(seed=0)
    kernel = dojoir.kernels.load("relu")
    times = [dojoir.search.estimate(kernel, SIZES, "llvm", 1)]
    rewards = []
    for _ in range(3):
        moves = [one.meaning(a) for a in range(512)]
        wanted = next((move for move in MOVES if move in moves), "reverse_scope(0)")
        assert one.trace is not None
        times.append(dojoir.search.estimate(dojoir.apply(one.trace.kernel, wanted), SIZES, "llvm", 1))
        rewards.append(one.step(moves.index(wanted))[1])
    rewards.append(one.step(0)[1])
    values = [math.log(times[0] / after) for after in times]
    best = np.maximum.accumulate(values)
    share = dojoir.search.floor(kernel, SIZES, "llvm", 1) / times[0]
    expected = {
        "each": [*np.diff(values), 0.0],
        "state": [*values[1:], values[-1]],
        "last": [0.0, 0.0, 0.0, values[-1]],
        "max": [*np.diff(best), 0.0],
        "sol": [*np.diff(np.minimum(1, share * np.exp(values))) / (1 - share), 0.0],
    }[reward]
    np.testing.assert_allclose(np.array(rewards, float), expected, atol=1e-9)


def test_the_same_seed_is_the_same_episode_and_another_is_not() -> None:
    assert played(env(), 3, 4) == played(env(), 3, 4)
    assert played(env(), 3, 4) != played(env(), 4, 4)


@pytest.mark.parametrize("name", ["moves", "states", "builds", "measurements"])
def test_a_budget_ends_an_episode_where_it_says(name: str) -> None:
    one = env(budget=dojoir.Budget(**{name: 2}))
    found = played(one, 0, 6)
    assert getattr(one.ledger, name) == 2
    assert found[-1][2] and not any(cut for _, _, cut in found[:-1])
    with pytest.raises(dojoir.ArgumentError, match="no-episode"):
        one.step(0)
    assert played(one, 0, 1)[0] == found[0]


def test_a_budget_of_seconds_ends_an_episode() -> None:
    one = env(budget=dojoir.Budget(seconds=0.0))
    assert [cut for _, _, cut in played(one, 0, 3)] == [False, True]


def test_reset_takes_a_kernel_sizes_and_moves() -> None:
    one = env()
    options = {"kernel": "softmax", "sizes": {"N": 8, "M": 16}, "moves": ["split(0, 4)"]}
    _, info = one.reset(seed=0, options=options)
    assert one.sizes == {"N": 8, "M": 16}
    assert info["hash"] == dojoir.apply(dojoir.kernels.load("softmax"), "split(0, 4)").hash
    with pytest.raises(dojoir.IllegalMove):
        one.reset(options={"moves": ["parallelize(7)"]})
    with pytest.raises(dojoir.ArgumentError, match="kernel, sizes and moves"):
        one.reset(options={"kernels": 1})


def test_a_fork_goes_its_own_way() -> None:
    one = env()
    played(one, 0, 2)
    other = one.fork()
    assert isinstance(one.trace, dojoir.Trace) and isinstance(other.trace, dojoir.Trace)
    assert other.trace.kernel == one.trace.kernel and other.ledger.moves == one.ledger.moves
    before = one.trace.kernel
    other.step(_number(other, "split", "unroll", "cut"))
    assert one.trace.kernel == before != other.trace.kernel
    assert other.ledger.moves == one.ledger.moves + 1


def test_it_renders_as_text() -> None:
    one = env(render_mode="ansi")
    one.reset(seed=0)
    assert "kernel relu(N)" in one.render() and one.render().startswith("# 0 moves")


def test_what_cannot_be_run_is_the_worst() -> None:
    class Broken:
        def evaluate(self, kernels: Any, best: object = None) -> Any:
            for kernel in kernels:
                first = kernel == dojoir.kernels.load("relu")
                yield Evaluation(kernel.hash, "ok" if first else "crashed", 1.0 if first else None)

    one = env(reward="state", evaluator=Broken())
    one.reset(seed=0)
    _, reward, _, _, info = one.step(1)
    assert (reward, info["status"]) == (WORST, "crashed")


def test_it_is_timed_on_this_machine() -> None:
    with_times = env(timer="measure")
    found = played(with_times, 0, 1)
    assert with_times.evaluation.status == "ok" and with_times.evaluation.cases
    assert math.isfinite(found[-1][1])
    with_times.close()


# -- several, suites, databases -----------------------------------------------------------------------------
def test_a_vector_plays_the_episodes_of_single_ones() -> None:
    options: dict[str, Any] = {"sizes": SIZES, "timer": "static", "capacity": 48}
    alone = []
    for seed in (5, 6):
        one = env()
        alone.append([one.reset(seed=seed)[0], *(one.step(a)[0] for a in (1, 2))])
    vector = make_vec(2, "relu", **options)
    seen = [vector.reset(seed=5)[0], *(vector.step(np.array([a, a]))[0] for a in (1, 2))]
    vector.close()
    for i in range(2):
        for got, want in zip(seen, alone[i], strict=True):
            np.testing.assert_array_equal(got[i], want)


def test_environments_in_processes_of_their_own_share_an_evaluator() -> None:
    code = """
import numpy as np
from dojoir.game import make_vec
if __name__ == "__main__":
    options = {"sizes": {"N": 4096}, "timer": "static", "capacity": 48}
    seen = []
    for processes in (False, True):
        vector = make_vec(2, "relu", processes=processes, **options)
        seen.append([vector.reset(seed=5)[0], *(vector.step(np.array([a, a]))[0] for a in (1, 2))])
        vector.close()
    np.testing.assert_array_equal(seen[0], seen[1])
    print("equal")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "equal\n", done.stderr


def test_a_suite_is_apart_by_kernel_and_taken_by_seed() -> None:
    whole = library(["relu", "softmax", "add", "mul"], statements=(1 << 10, 1 << 14))
    assert len(whole) == 8
    train, test = whole.split(0.5, seed=1)
    names = [{kernel.name for kernel, _ in part} for part in (train, test)]
    assert not names[0] & names[1] and len(train) == len(test) == 4
    one = KernelEnv(suite=whole, timer="static")
    hashes = [one.reset(seed=seed)[1]["hash"] for seed in range(8)]
    assert len(set(hashes)) > 1
    assert hashes == [one.reset(seed=seed)[1]["hash"] for seed in range(8)]
    with pytest.raises(dojoir.ArgumentError):
        Suite(())


def test_a_database_spares_what_is_known(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="needs the extra agents")
    from dojoir.records import Database

    with Database(tmp_path / "a.db") as database:
        first = env(db=database)
        found = played(first, 0, 3)
        second = env(db=database)
        assert played(second, 0, 3) == found
        assert first.ledger.builds > 0 == second.ledger.builds
        assert second.ledger.states == first.ledger.states


@pytest.mark.parametrize(
    "wrong",
    [
        {"reward": "none"}, {"observation": "smell"}, {"observation": ()}, {"capacity": 2}, {"timer": "clock"},
        {"kernel": None}, {"kernel": "nothing"}, {"suite": library(["relu"])}, {"encoder": "lm"},
        {"render_mode": "human"},
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(dojoir.ArgumentError):
        env(**wrong)


# -- encoders -----------------------------------------------------------------------------------------------
def test_the_hash_of_a_kernel_is_the_same_in_every_process() -> None:
    code = (
        "import dojoir, hashlib\nfrom dojoir.game import HashEncoder\n"
        "v = HashEncoder().encode(dojoir.kernels.load('softmax'))\n"
        "print(v.dtype, v.shape, hashlib.sha256(v.tobytes()).hexdigest())"
    )
    here = HashEncoder().encode(dojoir.kernels.load("softmax"))
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {f"float32 (512,) {hashlib.sha256(here.tobytes()).hexdigest()}\n"}
    assert hashlib.sha256(here.tobytes()).hexdigest()[:16] == "6c5039eda6d034d1"


def test_labels_do_not_count_and_moves_do() -> None:
    kernel = dojoir.kernels.load("softmax")
    encode = HashEncoder().encode
    plain = dojoir.parse(canonical_text(kernel))
    np.testing.assert_array_equal(encode(kernel), encode(plain))
    after = encode(dojoir.apply(kernel, "split(0, 8)"))
    assert 0.2 < float(after @ encode(kernel)) < 0.999
    assert math.isclose(float(np.linalg.norm(after)), 1, rel_tol=1e-5)


def test_every_move_has_a_row_within_bounds() -> None:
    kernel = dojoir.kernels.load("softmax")
    rows = {move_row(kernel, move).tobytes() for move in dojoir.candidates(kernel)}
    assert len(rows) > 0.9 * len(dojoir.candidates(kernel))
    for move in dojoir.candidates(kernel):
        row = move_row(kernel, move)
        assert row.shape == (MOVE_SIZE,) and np.abs(row).max() <= 1


def test_what_is_no_encoder_is_told(tmp_path: Path) -> None:
    for name in ("words", "lm:", "lm"):
        with pytest.raises(dojoir.ArgumentError, match="bad-model"):
            encoder(name)
    pytest.importorskip("transformers", reason="needs the extra learn")
    with pytest.raises(dojoir.ArgumentError, match="bad-model"):
        ModelEncoder(str(tmp_path))


def test_the_line_of_a_place_is_that_of_the_text() -> None:
    kernel = dojoir.apply(dojoir.kernels.load("softmax"), "vectorize(0.1)")
    assert lines_of(kernel)[(0, 1)] == "M : v"
    assert lines_of(kernel)[(0, 1, 0)] == "m[{0}] max= x[{0}, {1}]"
    assert shape_at(kernel, (0,)) == (1, 2, 2, 1, 0)
    assert shape_at(kernel, (0, 1, 0)) == (3, 0, 1, 0, 1)
    for name in dojoir.kernels.names():
        loaded = dojoir.kernels.load(name)
        assert all("=" in lines_of(loaded)[site.path] for site in loaded.sites)
