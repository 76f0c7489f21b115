"""What a model's plans come to: feedback is worth something, effort follows the headroom, chats are replayed and
gone on with, and tasks are played."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fake_models import KEY, STOP, Does, Request, Say, plans, serving
from scripted_players import Deaf, Follower, Reader

import dojoir
from dojoir.llm.families import FAMILIES
from dojoir.llm.models.exchange import CHARACTERS_OF_A_TOKEN, Question, Reply
from dojoir.llm.planner.cards import CardBottleneck, Cards
from dojoir.llm.planner.plan_making import made
from dojoir.llm.planner.system import SYSTEM
from dojoir.llm.planner.tries import Try, interval_of
from dojoir.passes.engine.catalogue import MOVES
from dojoir.runtime import Evaluation
from dojoir.search.actions import make
from dojoir.verbs import main

pytest.importorskip("openai", reason="needs the extra llm")
pytest.importorskip("sqlalchemy", reason="needs the extra agents")

SOFTMAX = dojoir.kernels.load("softmax")
SIZES = {"N": 64, "M": 96}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # what others measure meanwhile is not waited for


def tuned(strategy: str, options: dict[str, Any], **more: Any) -> dojoir.search.Tuned:
    given: dict[str, Any] = {"sizes": SIZES, "timer": "static", "start": dojoir.Trace(SOFTMAX)}
    return dojoir.tune(SOFTMAX, strategy=strategy, options=options, **{**given, **more})


# -- feedback ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["softmax", "cross_entropy", "rmsnorm", "log_softmax", "gemv", "swiglu"])
def test_a_player_that_reads_feedback_beats_one_that_does_not(name: str) -> None:
    """At equal measurements, by the deterministic cost of a named machine."""
    kernel, target = dojoir.kernels.load(name), "llvm@znver4"
    sizes = dict.fromkeys(kernel.runtime_sizes, 64 if name in ("swiglu", "cross_entropy") else 256)
    seconds = []
    for player in (Deaf, Reader):
        found = dojoir.tune(
            kernel, target, sizes=sizes, strategy="llm:random", timer="static", start=dojoir.Trace(kernel),
            budget=dojoir.Budget(states=16),
            options={"model": player, "choices": 0, "patience": 30, "listed": 60},
        )  # fmt: skip
        assert len(found.states) == 16
        seconds.append(dojoir.search.estimate(found.trace.kernel, sizes, target, 1))
    assert seconds[1] < seconds[0]


@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "gemv", "swiglu"])
def test_a_player_that_follows_the_estimates_needs_a_tenth_of_the_states_of_beam(name: str) -> None:
    kernel, target = dojoir.kernels.load(name), "llvm@znver4"
    sizes = dict.fromkeys(kernel.runtime_sizes, 128)
    seconds = []
    for strategy, states, options in (("beam", 80, {}), ("llm:random", 8, {"model": Follower, "patience": 9})):
        found = dojoir.tune(
            kernel, target, sizes=sizes, strategy=strategy, timer="static", start=dojoir.Trace(kernel),
            budget=dojoir.Budget(states=states), options=options, hints=False,
        )  # fmt: skip
        seconds.append(dojoir.search.estimate(found.trace.kernel, sizes, target, 1))
    assert seconds[1] <= 1.02 * seconds[0]


@pytest.mark.parametrize("name", ["softmax", "conv2d", "attention"])
def test_a_question_is_short_and_what_it_lists_is_apart(name: str) -> None:
    """At most 2,500 tokens, whatever the kernel; every move with an estimate, the best first, and choices that lead
    to different kernels."""
    kernel, asked = dojoir.kernels.load(name), list[Question]()

    class Listens(Follower):
        def ask(self, question: Question, seconds: float) -> Reply:
            asked.append(question)
            return super().ask(question, seconds)

    sizes = dict.fromkeys(kernel.runtime_sizes, 32)
    budget = dojoir.Budget(states=8)
    dojoir.tune(
        kernel, sizes=sizes, strategy="llm:random", timer="static", options={"model": Listens}, budget=budget
    )
    assert len(asked) > 1
    for question in asked:
        text = question.messages[0].text
        assert len(text) <= 2500 * CHARACTERS_OF_A_TOKEN
        moves, _, choices = text.partition("## Some legal moves")[2].partition("## Choices")
        ratios = [float(one) for one in re.findall(r": about ([\d.e+-]+)x", moves)]
        assert ratios == sorted(ratios, reverse=True) and len(ratios) > 4
        assert "Ceilings, " in text and "no schedule is faster than" in text
        made_of = re.findall(r"(?m)^\d+ (.*): about .*x as fast", choices)
        start = dojoir.Trace(kernel)
        if question is asked[0]:
            hashes = [make(start.copy(), one, "llvm").kernel.hash for one in made_of]
            assert len(set(hashes)) == len(hashes) > 2


def test_every_family_of_moves_is_told_of_once() -> None:
    words = re.findall(r"\b[a-z]+(?:_[a-z]+)*\b", re.sub(r"\([^)]*\)", "", FAMILIES))
    assert {kind.name for kind in MOVES} <= set(words) and FAMILIES in SYSTEM


def test_a_hypothesis_is_confirmed_falsified_or_open() -> None:
    def one(**more: Any) -> str:
        return Try(1, dojoir.Trace(SOFTMAX), 0, **{"expect": 1.5, "status": "ok", **more}).hypothesis

    assert one(interval=(1.5, 1.6)) == "confirmed"
    assert one(interval=(1.4, 1.6)) == "open"
    assert one(interval=(1.3, 1.49)) == "falsified"
    assert one(status="wrong") == "falsified"
    assert one(status="") == one(expect=None, interval=(2, 3)) == one(interval=None) == "open"
    of = Evaluation("a", "ok", 2.0, (1.9, 2.2))
    low, high = interval_of(2.0, Evaluation("b", "ok", 1.0, (0.9, 1.1)), of, 0.02)
    assert low == pytest.approx(1.9 / 1.1) and high == pytest.approx(2.2 / 0.9)
    low, high = interval_of(2.0, Evaluation("b", "ok", 1.0, (0.9, 1.1)), None, 0.02)
    assert low < 2.0 < high


def test_steps_before_one_that_is_refused_stay_made() -> None:
    told: list[tuple[str, str]] = []
    steps = ("1", "reuse_dims(e, 7)", "vectorize(0.1)")
    found = made(dojoir.Trace(SOFTMAX), steps, {"1": "join_scopes(0, 1)"}, "llvm", lambda _, one: told.extend(one))
    assert [str(move) for move in found.trace.moves] == ["join_scopes(0, 1)"] == [*found.steps]
    assert found.refused[0].startswith("step 2, reuse_dims(e, 7): [")
    assert told == [("join_scopes(0, 1)", "legal"), ("reuse_dims(e, 7)", "refused")]


@pytest.mark.parametrize(
    ("share", "told"), [(0.95, "near the limit: 95% of the memory"), (0.8, "Give 2 plans"), (0.3, "Give 4 plans")]
)
def test_effort_goes_where_the_headroom_is(share: float, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cards, "of", lambda self, kernel: CardBottleneck("bound by bytes", share, "memory"))
    with serving(lambda request: STOP) as server:
        found = tuned("llm:openai/m", {"base_url": server.url("openai")})
    said = server.requests[0].texts[0] if server.requests else found.stopped
    assert told in said
    assert ("bound by bytes" in said) == bool(server.requests)


def test_a_card_says_what_bounds_a_state_that_is_measured() -> None:
    sizes = {"N": 256, "M": 256}
    found = Cards("llvm", sizes, 1, "measure").of(SOFTMAX)
    assert found.words.startswith("bound by ") and "GB/s" in found.words and "hot line: " in found.words
    assert found.share is None or "ceiling" in found.words
    assert "estimated" in Cards("llvm", sizes, 1, "cluster").of(SOFTMAX).words


# -- chats -------------------------------------------------------------------------------------------------------
ROUNDS = (
    plans("join_scopes(0, 1)", "default_schedule"),
    Say(calls=(("suggest", {"move": "reuse_dims(m, 0)"}),)),
    plans("split(0, 4)", of=1, reflection="joining gains"),
    plans("split(0, 8)", of=2),
    STOP,
)


def rounds(request: Request) -> Does:
    """What is said next, by how many tries the question tells of and what was asked in its round."""
    tries = sum(line.startswith("#") and " from #" in line for line in request.texts[0].splitlines())
    return ROUNDS[{0: 0, 2: 1 if len(request.texts) == 1 else 2, 3: 3, 4: 4}[tries]]


def test_a_chat_is_replayed_to_the_same_trace_without_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = tmp_path / "chat.jsonl"
    with serving(rounds) as server:
        first = tuned("llm:openai/m", {"base_url": server.url("openai"), "chat": str(chat)})
    assert len(server.requests) == 5 and len(first.states) == 5
    monkeypatch.delenv("OPENAI_API_KEY")
    again = tuned("llm:openai/m", {"replay_chat": chat, "chat": tmp_path / "copy.jsonl"})
    assert [one.hash for one in again.states] == [one.hash for one in first.states]
    assert [*map(str, again.trace.moves)] == [*map(str, first.trace.moves)]
    assert again.stopped == "the model has nothing more to try: all was tried"
    assert {name: again.spent[name] for name in ("calls", "tokens")} == {"calls": 5, "tokens": 5500}
    shorter = tmp_path / "shorter.jsonl"
    shorter.write_text("".join(chat.read_text().splitlines(keepends=True)[:3]), encoding="utf-8")
    assert tuned("llm:openai/m", {"replay_chat": shorter}).stopped.startswith("the chat that is replayed")


class Killed(BaseException):
    """Ends a search as a signal would: nothing of it is caught."""


@pytest.mark.parametrize("states", [2, 4])
@pytest.mark.parametrize("cut", [0, 40], ids=["whole", "cut"])
def test_a_run_that_was_killed_asks_no_question_twice(states: int, cut: int, tmp_path: Path) -> None:
    """`cut` takes the end of the last line away: that question alone is asked again."""
    from dojoir.records import Database

    left = [states]

    def killing(evaluation: Evaluation, trace: dojoir.Trace, best: float) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    chat = tmp_path / "chat.jsonl"
    with serving(rounds) as server, Database(tmp_path / "a.db") as database:
        options = {"base_url": server.url("openai"), "chat": str(chat)}
        with pytest.raises(Killed):
            tuned("llm:openai/m", options, db=database, run="r", progress=killing)
        before = len(server.requests)
        assert 0 < before < 5
        if cut:
            chat.write_bytes(chat.read_bytes()[:-cut])
        found = tuned("llm:openai/m", options, db=database, run="r")
        assert len(server.requests) == 5 + bool(cut)
        asked = [json.dumps(one.body, sort_keys=True) for one in server.requests]
        assert len(set(asked)) == 5
    assert found.stopped == "the model has nothing more to try: all was tried"
    assert len(found.states) == 5 and found.spent["calls"] == 5
    assert len(chat.read_text(encoding="utf-8").splitlines()) == 6


def test_a_conversation_that_goes_on_is_the_one_that_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was measured then is not told anew in its middle."""
    chat = tmp_path / "chat.jsonl"
    asks = Say(calls=(("plan", {}),))
    with serving(lambda request: STOP if len(request.texts) > 1 else asks) as server:
        options = {"base_url": server.url("openai"), "chat": str(chat)}
        monkeypatch.setattr(Cards, "of", lambda self, kernel: CardBottleneck("measured then"))
        tuned("llm:openai/m", options)
        chat.write_text("".join(chat.read_text().splitlines(keepends=True)[:2]), encoding="utf-8")
        monkeypatch.setattr(Cards, "of", lambda self, kernel: CardBottleneck("measured now"))
        tuned("llm:openai/m", options)
    assert len(server.requests) == 3
    assert server.requests[2].texts == server.requests[1].texts
    assert "measured then" in server.requests[2].texts[0]


def test_a_chat_that_was_edited_is_not_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chat, other = tmp_path / "chat.jsonl", tmp_path / "other.jsonl"
    first = tuned("llm:random", {"chat": chat}, budget=dojoir.Budget(states=6))
    again = tuned("llm:random", {"replay_chat": chat}, budget=dojoir.Budget(states=6))
    assert [one.hash for one in again.states] == [one.hash for one in first.states]
    tuned("llm:random", {"chat": chat}, budget=dojoir.Budget(states=9))  # it goes on, and the lines with it
    lines = chat.read_text(encoding="utf-8").splitlines(keepends=True)
    assert len(lines) >= 3
    for edited in (
        [lines[0], lines[1].replace("split", "unroll", 1), *lines[2:]], [lines[0], *lines[2:]],
        [lines[0].replace("random", "openai/x"), *lines[1:]],
    ):  # fmt: skip
        other.write_text("".join(edited), encoding="utf-8")
        given = [
            "tune",
            "library:softmax",
            "-s",
            "N=64",
            "-s",
            "M=96",
            "--timer",
            "static",
            "--strategy",
            "llm:random",
        ]
        assert main([*given, "--replay-chat", str(other), "--states", "6"]) == 1
        assert "was changed since it was written" in capsys.readouterr().err
    without = [{name: value for name, value in json.loads(line).items() if name != "digest"} for line in lines]
    other.write_text("".join(f"{json.dumps(line)}\n" for line in without), encoding="utf-8")
    assert tuned("llm:random", {"replay_chat": other}, budget=dojoir.Budget(states=6)).states


def test_a_chat_of_something_else_is_refused(tmp_path: Path) -> None:
    chat = tmp_path / "chat.jsonl"
    tuned("llm:random", {"chat": chat}, budget=dojoir.Budget(states=3))
    relu = dojoir.kernels.load("relu")
    sizes = {"N": 8}
    for kernel, given in ((relu, {"sizes": sizes}), (SOFTMAX, {"sizes": {**sizes, "M": 8}})):
        with pytest.raises(dojoir.ArgumentError) as error:
            dojoir.tune(kernel, strategy="llm:random", timer="static", options={"chat": chat}, **given)
        assert error.value.diagnostic.code == "another-chat"
    for text, code in (("{}\n", "bad-record"), ("nonsense\n", "bad-record"), ('{"begun": 3}\n', "bad-record")):
        chat.write_text(text, encoding="utf-8")
        with pytest.raises(dojoir.ArgumentError) as error:
            tuned("llm:random", {"replay_chat": chat})
        assert error.value.diagnostic.code == code
    with pytest.raises(dojoir.ArgumentError) as error:
        tuned("llm:random", {"replay_chat": tmp_path / "none.jsonl"})
    assert error.value.diagnostic.code == "cannot-read"


# -- the commands ------------------------------------------------------------------------------------------------
def test_a_run_keeps_its_chat_in_its_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tune = ["tune", "library:softmax", "-s", "N=64", "-s", "M=96", "--timer", "static"]
    with serving(lambda request: STOP if "#2 from" in request.texts[0] else plans("join_scopes(0, 1)")) as server:
        command = [*tune, "--strategy", "llm:openai/m", "--base-url", server.url("openai"), "--prices", "1", "2"]
        more = ["--runs", str(tmp_path / "runs"), "--resume", "one", "--tokens", "100000", "--money", "9", "--json"]
        assert main([*command, *more]) == 0
        spent = json.loads(capsys.readouterr().out)["tuned"]["spent"]
        assert spent["calls"] == 2 and spent["money"] > 0
        asked = len(server.requests)
        assert main([*command, *more]) == 0  # it goes on, and asks nothing twice
        assert len(server.requests) == asked
    capsys.readouterr()
    bundle = tmp_path / "runs" / "one"
    listed = {one["name"] for one in json.loads((bundle / "run.json").read_text(encoding="utf-8"))["files"]}
    assert "chat.jsonl" in listed
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    chat = str(bundle / "chat.jsonl")
    assert main([*tune, "--strategy", "llm:openai/m", "--replay-chat", chat, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tuned"]["spent"]["calls"] == spent["calls"]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--tokens", "3"], 2),
        (["--strategy", "llm:random", "--money", "-1"], 2),
        (["--strategy", "llm:random", "--money", "1"], 1),
        (["--strategy", "llm:random", "--prices", "1", "x"], 2),
        (["--strategy", "llm:openai/m", "--base-url", "nonsense"], 1),
        (["--strategy", "llm:nobody/m"], 1),
    ],
)
def test_wrong_arguments_are_told(arguments: list[str], status: int, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["tune", "library:softmax", "-s", "N=64", "-s", "M=96", "--timer", "static", *arguments]
    try:
        found = main(command)
    except SystemExit as end:
        found = int(end.code or 0)
    assert found == status
    assert "error[" in capsys.readouterr().err


# -- tasks -------------------------------------------------------------------------------------------------------
def test_tasks_are_played_and_reported_as_by_other_agents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def brain(request: Request) -> Does:
        if "refused by the checker" in request.texts[0]:
            wrong = Say(calls=(("answer", {"move": 99}), ("explain", {"move": "reuse_dims(m, 0)", "state": 0})))
            return wrong if len(request.texts) == 1 else Say(calls=(("answer", {"move": 0}),))
        if "Name the number of the move" in request.texts[0]:
            return Say(calls=(("answer", {"move": 1, "bound": "bytes"}),))
        return plans("default_schedule", ["join_scopes(0, 1)"]) if "#1 from" not in request.texts[0] else STOP

    names = ["debug-softmax", "diagnose-softmax", "optimise-softmax"]
    with serving(brain) as server:
        command = ["rollout", "llm:openai/m", *names, "-o", str(tmp_path / "out"), "--timer", "static", "--states",
        "6", "--base-url", server.url("openai"), "--tokens", "100000", "--json"]  # fmt: skip
        assert main(command) == 0
    found = json.loads(capsys.readouterr().out)["rollout"]
    rows = {row["task"]: row for row in found["rows"]}
    assert rows["debug-softmax"]["status"] == "solved"
    assert rows["diagnose-softmax"]["answer"]["bound"] == "bytes"
    assert rows["optimise-softmax"]["cost"]["states"] == 3
    assert [rows[name]["cost"]["calls"] for name in names] == [2, 1, 2]
    assert found["summary"]["all"]["tokens"] == 5500
    chats = sorted((tmp_path / "out" / "runs").glob("*/chat.jsonl"))
    assert len(chats) == 3 and all(KEY not in chat.read_text(encoding="utf-8") for chat in chats)


def test_a_rollout_of_the_ablation_is_one_too(tmp_path: Path) -> None:
    from dojoir.tasks import agent_named, find_tasks, rollout

    tasks = [task.with_limits(6, None) for task in find_tasks(["diagnose-softmax", "optimise-softmax"])]
    found = rollout(agent_named("llm:random"), "llm:random", tasks, tmp_path / "out", timer="static",
                    models=dojoir.Budget(calls=1))  # fmt: skip
    assert [row.cost.calls for row in found.rows] == [1, 1]
    assert all(row.status != "failed" for row in found.rows)
