"""`dojoir learn`: an agent that plays, an encoder that reads, or a language model that answers."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import dojoir
from dojoir.cli.error_report import DIFFERS, FINE
from dojoir.cli.streams import say
from dojoir.verbs.kernel_options import answered, check_writable, database_of

if TYPE_CHECKING:
    from dojoir.data import Trained

EACH = 60.0
"""After so many seconds an agent that learns is written, at the end of an episode."""


def _check_fits(options: argparse.Namespace, settings: Mapping[str, object]) -> None:
    """Raises ArgumentError where an agent that is there was made otherwise than the options say."""
    for name in ("operator", "encoder"):
        asked = getattr(options, name)
        if asked is not None and asked != settings[name]:
            message = (
                f"the agent in {options.output} was made with --{name} {settings[name]}: leave the option out, "
            )
            raise dojoir.ArgumentError(f"{message}or name another file", "bad-arguments")


def _note(options: argparse.Namespace, steps: int, what: str, value: float) -> None:
    line = f"{steps:6} steps, {what} {value:.3f}"
    say(json.dumps({"progress": {"steps": steps, what: value}}) if options.json else line)


def agent(options: argparse.Namespace) -> int:
    """Trains a Max-Q agent, or goes on with that of the file; it is written every minute, at the end, and on
    Control-C. Raises DojoError, before anything is learned for options that do not fit the agent of the file."""
    from dojoir.game import MaxQ, encoder, library
    from dojoir.game.arena import KernelArena
    from dojoir.game.scoring import Scorer
    from dojoir.search.needs import needed

    check_writable(options.output)
    needed("torch", "learn", "Max-Q").set_num_threads(1)  # small networks: threads would only wait for each other
    database = database_of(options, needed=False)
    scorer = Scorer(timer=options.timer, seed=options.seed, db=database)
    resumed = os.path.exists(options.output)
    learner = MaxQ.load(options.output) if resumed else None
    if learner is not None:
        _check_fits(options, learner.settings)
    encoding = str(learner.settings["encoder"]) if learner is not None else options.encoder or "hash"
    arena = KernelArena(
        library(options.kernels or None), scorer, length=options.length, encoding=encoder(encoding)
    )  # fmt: skip
    if learner is None:
        learner = MaxQ(
            arena.state_size, arena.action_size, operator=options.operator or "max", seed=options.seed,
            encoder=encoding, fall=max(1, options.steps // 2),
        )  # fmt: skip
    trained, curve, written = learner, list[float](), time.monotonic()

    def note(steps: int, best: float) -> None:
        nonlocal written
        curve.append(best)
        if time.monotonic() - written > EACH:
            trained.save(options.output)
            written = time.monotonic()
        if len(curve) % 20 == 0:
            _note(options, steps, "mean of the best of 20 episodes, as a logarithm", sum(curve[-20:]) / 20)

    try:
        learner.learn(arena, options.steps, note)
    except KeyboardInterrupt:
        say("stopped: what was learned is written")
    finally:
        scorer.close()
    learner.save(options.output)
    data = {"agent": options.output, "steps": learner.steps, "operator": learner.operator, "episodes": len(curve)}
    text = f"{options.output}: {learner.steps} steps, operator {learner.operator}, {len(curve)} episodes now\n"
    return answered(options, {"learned": data}, text)


def encoder(options: argparse.Namespace) -> int:
    """Trains a small language model of kernels."""
    from dojoir.game.language import train_encoder

    check_writable(options.output)

    def note(steps: int, loss: float) -> None:
        if steps % 20 == 0:
            _note(options, steps, "loss", loss)

    losses = train_encoder(
        options.output, kernels=options.kernels, steps=options.steps, width=options.width, seed=options.seed,
        progress=note,
    )  # fmt: skip
    data = {"encoder": options.output, "steps": len(losses), "loss": losses[-1]}
    text = f"lm:{options.output}: {len(losses)} steps, loss {losses[0]:.2f} to {losses[-1]:.2f}\n"
    return answered(options, {"learned": data}, text)


def chats(options: argparse.Namespace) -> int:
    """Tunes a language model on chats, and writes it. Raises DojoError."""
    from dojoir.data import check_training, read_training, train

    settings = read_training(options.settings)
    check_training(settings)
    found = train(settings, lambda steps, loss: _note(options, steps, "loss", loss))
    return _trained(options, found, FINE)


def smoke(options: argparse.Namespace) -> int:
    """A short run of the same on a tiny model; status 3 where its loss does not fall."""
    from dojoir.data import read_training
    from dojoir.data import smoke as tried

    found = tried(read_training(options.settings), lambda steps, loss: _note(options, steps, "loss", loss))
    return _trained(options, found, FINE if found.has_learned else DIFFERS)


def check(options: argparse.Namespace) -> int:
    """Holds a file of settings, of a training or a rollout, to all that it names. Raises DojoError."""
    from dojoir.data import check_training, read_training
    from dojoir.evidence.bundle_reading import read_text
    from dojoir.records.plain_data import to_data

    if re.search(r"(?m)^agent\s*=", read_text(Path(options.settings))):
        return _playing(options)
    settings = read_training(options.settings)
    found = check_training(settings)
    text = (
        f"{options.settings}: {found.chats} chats of {found.kernels} kernels, the longest of {found.longest} "
        f"tokens; {found.left_out} have more than {settings.length} and are left out\n"
        f"{settings.steps} steps of {settings.batch} chats, "
        f"{settings.steps * settings.batch / found.chats:.3g} times through all\n"
    )
    return answered(options, {"checked": {**to_data(settings), **to_data(found)}}, text)


def _playing(options: argparse.Namespace) -> int:
    from dojoir.records.plain_data import to_data
    from dojoir.tasks import agent_named, find_tasks, read_playing

    given = read_playing(options.settings)
    tasks = find_tasks(given.tasks, given.kind)
    if not given.agent.startswith("llm:"):
        agent_named(given.agent, given.seed or 0)
    text = f"{options.settings}: {given.agent} plays {len(tasks)} tasks\n"
    return answered(options, {"checked": {**to_data(given), "tasks": [task.name for task in tasks]}}, text)


def _trained(options: argparse.Namespace, found: Trained, status: int) -> int:
    losses = found.losses
    where = f"{found.output}: " if found.output else ""
    text = f"{where}{len(losses)} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}\n"
    data = {"output": found.output, "steps": len(losses), "losses": losses, "has_learned": found.has_learned}
    return answered(options, {"learned": data}, text, status)
