"""Rollouts of several agents on the same tasks, with several seeds, side by side: one table.

    for seed in 0 1 2; do
        dojoir learn agent --kernel softmax --kernel matmul --steps 500 --seed $seed -o agent$seed.safetensors
        dojoir rollout random held-out --seed $seed -o random-$seed     # likewise beam, maxq:agent$seed.safetensors
    done
    python benchmarks/rollouts.py random-* beam-* maxq-*

Each folder is what `dojoir rollout -o` wrote; those of one agent (a file of Max-Q counts as `maxq`) are a column.
A cell has with how many seeds the task was solved, the median over the seeds of the gain (how many times as fast
the answer is as what its task compares it with; of a diagnosis, as the trace with the move that is named) with the
smallest and the largest, the median share of the machine's ceiling, and, where it was not always solved, the gate
that said so. The sums have a figure for each seed, in the order of the seeds."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from dojoir.evidence import from_text
from dojoir.tasks import Rollout, Row, summary


def cell(rows: list[Row]) -> str:
    """What an agent came to at a task, with each of its seeds."""
    if not rows:
        return ""
    solved = sum(row.status == "solved" for row in rows)
    words = [f"**{solved} of {len(rows)}**" if solved == len(rows) else f"{solved} of {len(rows)}"]
    gains = sorted(row.gain.median for row in rows if row.gain is not None)
    shares = [row.share for row in rows if row.share is not None]
    if gains:
        words.append(f"{median(gains):.3g}x" + (f" ({gains[0]:.3g} to {gains[-1]:.3g})" if len(gains) > 1 else ""))
    if shares:
        words.append(f"{median(shares):.0%} of {next(row.of for row in rows if row.share is not None)}")
    failed = Counter(
        next((gate.name for gate in row.gates if gate.status != "pass"), row.reason or row.status)
        for row in rows if row.status != "solved"
    )  # fmt: skip
    words += [f"not {' or '.join(failed)}"] if failed else []
    return ", ".join(words)


def of_kind(found: list[Rollout], kind: str) -> str:
    """The sums over the tasks of a kind, a figure for each seed."""
    sums = [summary(one)[kind] for one in found]
    words = [f"{_each(sums, 'solved', 'd')} of {sums[0]['tasks']} solved"]
    if all(one["gain"] is not None for one in sums):
        words.append(f"{_each(sums, 'gain', '.3g')} times in the geometric mean")
    words += [f"{_each(sums, 'seconds', '.0f')} s", f"{_each(sums, 'states', 'd')} states"]
    return "; ".join(words)


def _each(sums: list[dict[str, Any]], name: str, form: str) -> str:
    return ", ".join(format(one[name], form) for one in sums)


def statuses(found: list[Rollout]) -> str:
    """How many states ended with each status, over all seeds."""
    counts = Counter[str]()
    for one in found:
        for row in one.rows:
            counts.update(row.cost.statuses)
    return ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+", type=Path)
    agents: dict[str, list[Rollout]] = {}
    for path in parser.parse_args().folders:
        one = from_text(Rollout, (path / "rollout.json").read_text(), str(path))
        agents.setdefault(one.agent.partition(":")[0], []).append(one)
    for found in agents.values():
        found.sort(key=lambda one: one.seed)
    every = [one for found in agents.values() for one in found]
    tasks = {row.task: row for one in every for row in one.rows}
    heads = [f"{name}, seeds {', '.join(str(one.seed) for one in found)}" for name, found in agents.items()]
    print(f"| task | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for task in tasks:
        cells = [cell([row for one in found for row in one.rows if row.task == task]) for found in agents.values()]
        print(f"| `{task}` | {' | '.join(cells)} |")
    print(f"\n| | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for kind in summary(every[0]):
        print(f"| {kind} | {' | '.join(of_kind(found, kind) for found in agents.values())} |")
    print(f"| states by status | {' | '.join(map(statuses, agents.values()))} |")


if __name__ == "__main__":
    main()
