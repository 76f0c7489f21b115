"""Rollouts of several agents on the same tasks, side by side: one table.

    dojoir learn agent --kernel softmax --kernel matmul --steps 500 -o agent.safetensors
    dojoir rollout random held-out -o random            # likewise beam, maxq:agent.safetensors
    python benchmarks/rollouts.py random beam maxq

Each folder is what `dojoir rollout -o` wrote. A cell has the gain of the answer (how many times as fast it is
as what its task compares it with; of a diagnosis, as the trace with the move that is named) and the share of
the machine's ceiling; one that does not solve its task has the gate that says so instead of a mark."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from dojoir.evidence import from_text
from dojoir.tasks import Rollout, Row, summary


def cell(row: Row | None) -> str:
    """What an agent came to at a task."""
    if row is None:
        return ""
    gain, share = row.gain, row.share
    words = [] if gain is None else [f"{gain.median:.3g}x ({gain.low:.3g} to {gain.high:.3g})"]
    words += [] if share is None else [f"{share:.0%} of {row.of}"]
    if row.status == "solved":
        return ", ".join(["**solved**", *words])
    wrong = next((gate.name for gate in row.gates if gate.status != "pass"), row.reason or row.status)
    return ", ".join([f"not {wrong}", *words])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+", type=Path)
    found = [from_text(Rollout, (path / "rollout.json").read_text(), str(path)) for path in
             parser.parse_args().folders]  # fmt: skip
    names = [one.agent.partition(":")[0] for one in found]
    tasks = {row.task: row for one in found for row in one.rows}
    print(f"| task | asked | {' | '.join(names)} |\n|---|---|{'---|' * len(names)}")
    for task, first in tasks.items():
        rows = [next((row for row in one.rows if row.task == task), None) for one in found]
        print(f"| `{task}` | {first.kind} | {' | '.join(map(cell, rows))} |")
    print()
    print(f"| | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    sums = [summary(one) for one in found]
    for kind in sums[0]:
        cells = []
        for each in sums:
            one = each[kind]
            gain = "" if one["gain"] is None else f", {one['gain']:.3g}x in the geometric mean"
            cells.append(f"{one['solved']} of {one['tasks']} solved{gain}; {one['seconds']:.0f} s, "
                         f"{one['states']} states")  # fmt: skip
        print(f"| {kind} | {' | '.join(cells)} |")
    statuses = [json.dumps({s: sum(row.cost.statuses.get(s, 0) for row in one.rows)
                            for s in sorted({s for row in one.rows for s in row.cost.statuses})})
                for one in found]  # fmt: skip
    print(f"| states by status | {' | '.join(statuses)} |")


if __name__ == "__main__":
    main()
