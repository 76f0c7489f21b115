"""`dojoir learn`: an agent that plays, or an encoder that reads."""

from __future__ import annotations

import argparse
import json
import os

from dojoir.cli.output import write_result
from dojoir.cli.streams import say
from dojoir.verbs.given import check_writable, database_of


def _note(options: argparse.Namespace, steps: int, what: str, value: float) -> None:
    line = f"{steps:6} steps, {what} {value:.3f}"
    say(json.dumps({"progress": {"steps": steps, what: value}}) if options.json else line)


def agent(options: argparse.Namespace) -> int:
    """Trains a Max-Q agent, or goes on with that of the file; it is written at the end and on Control-C."""
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
    encoding = str(learner.settings["encoder"]) if learner is not None else options.encoder
    arena = KernelArena(
        library(options.kernels or None), scorer, length=options.length, encoding=encoder(encoding)
    )  # fmt: skip
    if learner is None:
        learner = MaxQ(
            arena.state_size, arena.action_size, operator=options.operator, seed=options.seed, encoder=encoding,
            fall=max(1, options.steps // 2),
        )  # fmt: skip
    curve: list[float] = []

    def note(steps: int, best: float) -> None:
        curve.append(best)
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
    write_result(json.dumps({"learned": data}) + "\n" if options.json else text, None)
    return 0


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
    write_result(json.dumps({"learned": data}) + "\n" if options.json else text, None)
    return 0
