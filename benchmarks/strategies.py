"""How the strategies of search compare at equal budgets: a table that goes on where it was stopped.

    python benchmarks/strategies.py FILE [--states 100] [--seeds 3] [--kernels …] [--timer measure] [--text]
                                         [--strategies beam beam+trees beam+db maxq:agent.safetensors]

Each search is a line of FILE, written as it ends; with all there, the table is printed: how many times as fast as
the text the best state was after 30, 100 and 300 states, the geometric mean over kernels and seeds. `NAME+trees` is
a strategy with the cost model, `NAME+db` one with a database that holds searches by `beam` of the other kernels
(made first, a file a kernel, in FILE.db). `--text` begins with the text alone, else `default_schedule` is a start
as well.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from search import SIZES, sizes_of

import dojoir
from dojoir.records import Database
from dojoir.records.exchange import merge

AFTER = (30, 100, 300)


def remembered(folder: Path, names: list[str], states: int, timer: str) -> None:
    """A database a kernel, FOLDER/KERNEL.sqlite, with one search of it."""
    folder.mkdir(exist_ok=True)
    for name in names:
        file = folder / f"{name}.sqlite"
        if file.exists():
            continue
        kernel = dojoir.kernels.load(name)
        part = folder / f"{name}.{os.getpid()}.part"
        with Database(part) as database:
            budget = dojoir.Budget(states=states)
            dojoir.tune(kernel, sizes=sizes_of(kernel), budget=budget, seed=1000, timer=timer, db=database)
        part.rename(file)


def of_others(folder: Path, names: list[str], name: str, into: Path) -> Database:
    """A new database that holds what those of the other kernels hold."""
    database = Database(into)
    for other in names:
        if other != name:
            with Database(folder / f"{other}.sqlite") as kept:
                merge(database, kept)
    return database


def searched(
    name: str, strategy: str, seed: int, states: int, timer: str, text: bool, database: Database | None
) -> dict[str, Any]:
    """One search: the speed of the best after each state, beside what it took and how it ended."""
    kernel = dojoir.kernels.load(name)
    plain, _, addition = strategy.partition("+")
    bests: list[float] = []
    begin = time.process_time(), time.perf_counter()
    tuned = dojoir.tune(
        kernel,
        sizes=sizes_of(kernel),
        strategy=plain,
        budget=dojoir.Budget(states=states),
        seed=seed,
        timer=timer,
        start=dojoir.Trace(kernel) if text else None,
        cost_model=addition if addition and addition != "db" else None,
        db=database,
        progress=lambda evaluation, trace, best: bests.append(best),
    )
    return {
        "bests": [bests[min(count, len(bests)) - 1] for count in AFTER],
        "of optimize": None if tuned.ratio_to_optimize is None else tuned.ratio_to_optimize.median,
        "evaluated": len(tuned.states),
        "stopped": tuned.stopped,
        "seconds": [time.process_time() - begin[0], time.perf_counter() - begin[1]],
        "notes": [note for note in tuned.notes if note.startswith("cost model")],
    }


def show(rows: list[dict[str, Any]], strategies: list[str]) -> None:
    """A line a strategy."""
    print(f"{'strategy':16}", *(f"{f'after {count}':>10}" for count in AFTER), f"{'of optimize':>12} searches")
    for strategy in strategies:
        own = [row for row in rows if row["strategy"] == strategy]
        if not own:
            continue
        means = [statistics.geometric_mean(max(row["bests"][n], 1e-9) for row in own) for n in range(len(AFTER))]
        ratios = [row["of optimize"] for row in own if row["of optimize"] is not None]
        ratio = f"{statistics.geometric_mean(ratios):12.2f}" if ratios else f"{'':12}"
        words = "; ".join(note for row in own for note in row["notes"])
        print(f"{strategy:16}", *(f"{mean:10.2f}" for mean in means), ratio, f"{len(own):8}", words)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument(
        "--kernels", nargs="+", default=["softmax", "matmul", "gelu", "layernorm"], choices=[*SIZES]
    )
    parser.add_argument("--strategies", nargs="+", default=[*dojoir.search.STRATEGIES])
    parser.add_argument("--states", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--timer", choices=("measure", "static"), default="measure")
    parser.add_argument("--text", action="store_true")
    given = parser.parse_args()
    about = {"states": given.states, "timer": given.timer, "text": given.text}
    done = [json.loads(line) for line in given.file.read_text().splitlines()] if given.file.exists() else []
    rows = {(row["kernel"], row["strategy"], row["seed"]): row for row in done if about.items() <= row.items()}
    wanted = [(k, s, seed) for seed in range(given.seeds) for k in given.kernels for s in given.strategies]
    for kernel, strategy, seed in wanted:
        if (kernel, strategy, seed) not in rows:
            with tempfile.TemporaryDirectory() as scratch:
                database = None
                if strategy.endswith("+db"):
                    folder = given.file.with_suffix(".db")
                    remembered(folder, given.kernels, given.states, given.timer)
                    database = of_others(folder, given.kernels, kernel, Path(scratch) / "others.sqlite")
                found = searched(kernel, strategy, seed, given.states, given.timer, given.text, database)
            row = {"kernel": kernel, "strategy": strategy, "seed": seed, **about, **found}
            rows[kernel, strategy, seed] = row
            with given.file.open("a") as lines:
                lines.write(json.dumps(row) + "\n")
    print(f"times as fast as the text, {about}, {', '.join(given.kernels)}, {given.seeds} seeds")
    show([rows[key] for key in wanted], given.strategies)


if __name__ == "__main__":
    main()
