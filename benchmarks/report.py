"""What was measured: its rows, the file that keeps them, and the text and the page that show them."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path

from peers import OWN

from dojoir.support.files import write_file


@dataclass(frozen=True)
class Row:
    """Seconds of dojoir and of its peers on a text, or why there are none."""

    name: str
    group: str = ""
    written: str = ""
    ours: float = 0.0
    peers: dict[str, float] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    """Peers that have no figure, and why."""
    error: float = 0.0
    """How far results are apart, as a share of the largest."""
    planned: float = 0.0
    """Seconds of the processor that `optimize` took."""
    moves: int = 0
    bytes: int = 0
    flops: int = 0
    schedule: str = ""
    failed: str = ""

    def ratio(self, peer: str) -> float:
        return self.peers[peer] / self.ours

    @property
    def best(self) -> float | None:
        """The ratio to the best of the others."""
        others = [seconds for peer, seconds in self.peers.items() if peer not in OWN]
        return min(others) / self.ours if others else None

    @property
    def order(self) -> float:
        """The worst rows first."""
        return self.best if self.best is not None else min(map(self.ratio, self.peers), default=math.inf)


@dataclass
class Record:
    """The rows of a suite, on what they were measured, and when."""

    suite: str
    target: str
    machine: str
    tree: str
    day: str
    command: str
    rows: dict[str, Row] = field(default_factory=dict)

    @classmethod
    def here(cls, suite: str, target: str, machine: str, command: str) -> Record:
        """An empty record of this machine, this checkout and this day."""
        folder = str(Path(__file__).resolve().parent)
        words = ["git", "-C", folder, "describe", "--always", "--dirty"]
        found = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
        return cls(suite, target, machine, found or version("dojoir"), str(date.today()), command)

    @classmethod
    def read(cls, paths: Sequence[Path]) -> Record:
        """The rows of files together; of one row in several the last counts."""
        records = []
        for path in paths:
            made = json.loads(path.read_text(encoding="utf-8"))
            records.append(cls(**made | {"rows": {name: Row(**row) for name, row in made["rows"].items()}}))
        for other in records[1:]:
            records[0].rows |= other.rows
        return records[0]

    def write(self, path: Path) -> None:
        write_file(path, json.dumps(asdict(self), indent=1, ensure_ascii=False))


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _of(ratios: Sequence[float]) -> str:
    few = f"{sum(r < 1 for r in ratios)} under 1, {sum(r < 0.7 for r in ratios)} under 0.7"
    return f"geometric mean {mean(ratios):.2f} of {len(ratios)} rows, {few}"


def means(rows: Mapping[str, Row]) -> list[str]:
    """The means beside each peer and beside the best, apart for groups of programs and for what was written
    later."""
    right = [row for row in rows.values() if not row.failed]
    peers = dict.fromkeys(peer for row in right for peer in row.peers)
    lines = [f"beside {peer}: {_of([row.ratio(peer) for row in right if peer in row.peers])}" for peer in peers]
    best = [(row, row.best) for row in right if row.best is not None]
    parts = {"beside the best peer": [r for _, r in best]}
    for when in sorted({row.written for row in right} - {""}):
        parts[f"written {when}, beside the best peer"] = [r for row, r in best if row.written == when]
    for group in ("programs", "matrix units", "no matrix units"):
        parts[f"{group}, beside the best peer"] = [r for row, r in best if row.group == group]
    lines += [f"{label}: {_of(ratios)}" for label, ratios in parts.items() if ratios]
    failed = [f"{name}: {row.failed}" for name, row in rows.items() if row.failed]
    return lines + [f"FAILED {line}" for line in failed]


def cells(row: Row, peers: Sequence[str], ceiling: Mapping[str, float]) -> list[str]:
    """A row's cells: milliseconds, ratios, the nearest ceiling, seconds to plan."""
    found = [f"{row.ours * 1e3:.4g}", *(f"{row.ratio(p):.2f}" if p in row.peers else "" for p in peers)]
    shares = {"memory": row.bytes / row.ours / ceiling["copy"], "FMA": row.flops / row.ours / ceiling["fma"]} \
        if ceiling else {}  # fmt: skip
    near = max(shares, key=lambda kind: shares[kind], default="")
    return [*found, f"{shares[near]:.0%} of {near}" if near else f"{row.bytes / row.ours / 1e9:.0f} GB/s",
            f"{row.planned:.1f}"]  # fmt: skip


def table(record: Record, ceiling: Mapping[str, float], page: bool = False) -> str:
    """The rows from the worst to the best, and the means: as text, or as a page of Markdown."""
    right = sorted((row for row in record.rows.values() if not row.failed), key=lambda row: row.order)
    peers = list(dict.fromkeys(peer for row in right for peer in row.peers))
    heads = ["text", "ms", *(f"x {peer}" for peer in peers), "reached", "plan, s"]
    lines = [heads, *([row.name, *cells(row, peers, ceiling)] for row in right)]
    if not page:
        widths = [max(len(line[n]) for line in lines) for n in range(len(heads))]
        shown = ["  ".join(cell.ljust(w) if not n else cell.rjust(w) for n, (cell, w)
                           in enumerate(zip(line, widths, strict=True))) for line in lines]  # fmt: skip
        return "\n".join([*shown, *means(record.rows)])
    about = (
        f"`{record.command}`, {record.machine}, {record.day}, tree `{record.tree}`, target `{record.target}`. "
        "Milliseconds of dojoir, and how many times as long its peers take: above 1 dojoir is faster. All of a row "
        "run in turn, and results are compared first."
    )
    shown = [f"| {' | '.join(line)} |" for line in lines]
    shown.insert(1, "|---|" + "---:|" * (len(heads) - 1))
    why = [
        f"{name} without {peer}: {word}" for name, row in record.rows.items() for peer, word in row.lacking.items()
    ]
    return "\n\n".join([
        f"# The suite `{record.suite}`", about, "\n".join(f"- {line}" for line in means(record.rows)),
        "\n".join(shown), *(["\n".join(f"- {line}" for line in why)] if why else []),
    ]) + "\n"  # fmt: skip
