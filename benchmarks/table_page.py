"""The table as a page of Markdown, for people who did not run it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rows import FAST
from table_report import Record, Result, summary

HEAD = """# dojoir beside what people use today

What `table.py` measured, target `{target}`. Times are milliseconds. A ratio above 1 says that dojoir is faster
than the fastest peer, in the rounds that the two shared. The share is that of the machine's ceiling for the row:
its bytes streamed once (me), or its operations at the peak of fused multiply-adds (ar), at the speeds measured
right before or after the row; the highest that were measured stand below. In cache is what the same code takes
where its arrays stay in a cache, shared out over the threads: what the cores need, whatever memory does.
`–` is an operation that a peer does not have. The kernels are exact up to the order of sums; but {fast}
may use algebra (`fp fast`), as their fastest peers do."""


def write_page(record: Record, file: str) -> None:
    """Writes the machine, its ceilings, and a table for each number of threads."""
    Path(file).write_text("\n".join(_lines(record)) + "\n", encoding="utf-8")


def _lines(record: Record) -> Iterator[str]:
    *others, last = sorted(FAST)
    yield HEAD.format(target=record.target, fast=f"{', '.join(others)} and {last}")
    yield ""
    yield "```text"
    yield record.head()
    yield "```"
    for threads in sorted({result.threads for result in record.results}):
        here = [result for result in record.results if result.threads == threads]
        yield ""
        yield f"## {threads} thread{'s' if threads > 1 else ''}"
        yield ""
        yield from _table(here, list(record.versions))
        yield ""
        yield "```text"
        yield summary(here)
        yield "```"


def _table(results: Sequence[Result], peers: Sequence[str]) -> Iterator[str]:
    heads = ["row", "dojoir", "share", "in cache", "fastest peer", "ratio", *peers]
    yield f"| {' | '.join(heads)} |"
    yield "|---" + "|---:" * 3 + "|---" + "|---:" * (1 + len(peers)) + "|"
    for r in results:
        ratio = "" if r.ratio is None else f"{r.ratio:.2f}"
        times = [
            f"{r.peers[name] * 1e3:.2f}" if name in r.peers else "failed" if name in r.failed else "–"
            for name in peers
        ]
        cached = "" if r.in_cache is None else f"{r.in_cache * 1e3:.2f}"
        cells = [r.row, f"{r.seconds * 1e3:.2f}", f"{r.share:.0%} {r.bound_by[:2]}", cached, r.best or "", ratio]
        cells += times
        yield f"| {' | '.join(cells)} |"
