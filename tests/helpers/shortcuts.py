"""What each shortcut of the checker saves: the same questions with one of them switched off after the other.

    python tests/helpers/shortcuts.py [--after N] [--rounds N] [--only WORD] [KERNEL …]

The questions are all candidates of each kernel, and those after N of its legal moves, asked in fresh tables; and
the moves of the schedules that are stored for some kernels, proved one after another. A row has the shortcut that
is off, how much longer in CPU time the lists and schedules took than with all of them on (in turns, the shortest
of N rounds), how many steps more the lists took, and how many answers it changed: none may become legal. With
`--only`, rows whose name has that word.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from random import Random
from time import process_time
from typing import Any, NamedTuple
from unittest.mock import patch

import dojoir
from dojoir.ir.rewriting import substitution
from dojoir.passes.base.move import Refusal
from dojoir.passes.engine import answer_keys, engine
from dojoir.passes.engine.engine import candidates
from dojoir.proof import check, difference, wellformed
from dojoir.proof.core import written
from dojoir.proof.patterns import pattern_table, staging, written_before
from dojoir.proof.refute import first_iteration, small_run
from dojoir.sets import flow, kernel_sets, limits
from dojoir.support.memo import Memo, fresh_tables

KERNELS = ("softmax", "jacobi2d")
SCHEDULED = ("rmsnorm", "reduce_mean_0")

REFUTERS = {
    check: ("goes_wrong", "differs_somewhere", "shares_too_much"),
    first_iteration: ("runs_otherwise", "loses_its_value", "leaves_its_domain", "reads_first"),
    wellformed: ("write_one_element",),
}
MEMOS = {
    substitution: ("_kept",), engine: ("_made", "_answers"),
    answer_keys: ("_places", "_known", "_children"), check: ("_named", "_meanings"), difference: ("_changes",),
    wellformed: ("_proved",), written: ("_assigned_before",), staging: ("_forms",),
    pattern_table: ("_alike",), written_before: ("_known", "_found"), small_run: ("_runs",),
    flow: ("_flows", "_pairs"), kernel_sets: ("_maps", "_empty", "_sizes", "_kernels"), limits: ("_hard",),
}  # fmt: skip


def switches() -> Iterator[tuple[str, Callable[[], Any]]]:
    """What can be switched off, and the patch that does it."""
    yield "nothing", lambda: patch.object(check, "STEP_LIMIT", check.STEP_LIMIT)
    for pattern in pattern_table.TEXTUAL:
        rest = tuple(other for other in pattern_table.TEXTUAL if other is not pattern)
        yield f"pattern {pattern.name}", lambda rest=rest: patch.object(pattern_table, "TEXTUAL", rest)
    yield "all patterns of the text", lambda: patch.object(pattern_table, "TEXTUAL", ())
    yield "pattern same_order before slices", lambda: patch.object(check, "runs_alike", lambda *_: False)
    yield "pattern order", lambda: patch.object(check, "keeps_order", lambda _: False)
    yield "pattern independent", lambda: patch.object(wellformed, "seen_apart", lambda *_: frozenset())
    for module, names in REFUTERS.items():
        for name in names:
            off = lambda module=module, name=name: patch.object(module, name, lambda *_: False)  # noqa: E731
            yield f"refuter {name}", off
    yield "slices", lambda: patch.object(check, "slice_of", lambda *_: None)
    yield "slices of users", lambda: patch.object(check, "told_apart", lambda *_: None)
    for module, names in MEMOS.items():
        for name in names:
            memo = getattr(module, name)
            yield f"table {module.__name__}.{name}", lambda memo=memo: patch.object(memo, "get", lambda *_: None)
    yield "all tables", lambda: patch.object(Memo, "get", lambda *_: None)


class Asked(NamedTuple):
    """The seconds of the lists and of the schedules, the steps and the answers of the lists."""

    lists: float
    schedules: float
    steps: int
    found: list[bool]


def asked(kernels: list[dojoir.Kernel], traces: list[dojoir.Trace]) -> Asked:
    """All questions about some kernels, and the moves of some traces proved."""
    started, steps, found = process_time(), 0, []
    for kernel in kernels:
        with fresh_tables():
            for move in candidates(kernel):
                try:
                    done = move.rewrite(kernel)
                except Refusal:
                    continue
                answer = check.answer(kernel, done.kernel, done.instances)
                steps += answer.steps
                found.append(answer.legal)
    listed = process_time()
    for trace in traces:
        with fresh_tables():
            trace.replay()
    return Asked(listed - started, process_time() - listed, steps, found)


def states(names: list[str], after: int) -> list[dojoir.Kernel]:
    """The kernels that are asked about."""
    found = []
    for name in names:
        kernel = dojoir.kernels.load(name)
        found.append(kernel)
        legal = list(dojoir.moves(kernel))
        found += [dojoir.apply(kernel, move) for move in Random(name).sample(legal, after)]
    return found


def schedules(names: tuple[str, ...]) -> list[dojoir.Trace]:
    """The schedules for CPUs that are stored for some kernels."""
    found = []
    for name in names:
        for stored in dojoir.schedules.schedules(name):
            if ".gpu" not in stored.path:
                kernel = dojoir.kernels.load(name)
                found.append(stored.on(kernel.with_fp(stored.fp) if stored.fp else kernel))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", default=list(KERNELS))
    parser.add_argument("--after", type=int, default=1, metavar="N")
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--rounds", type=int, default=1, metavar="N")
    given = parser.parse_args()
    kernels, traces = states(given.kernels, given.after), schedules(SCHEDULED)
    asked(kernels, traces)
    print("| off | lists | schedules | steps | now legal | no longer |\n|---|---:|---:|---:|---:|---:|", flush=True)
    for name, off in switches():
        if given.only not in name:
            continue
        without, usual = [], []
        for _ in range(given.rounds):
            with off():
                without.append(asked(kernels, traces))
            usual.append(asked(kernels, traces))
        lists = min(each.lists for each in without) / min(each.lists for each in usual)
        scheduled = min(each.schedules for each in without) / min(each.schedules for each in usual)
        pairs = list(zip(without[0].found, usual[0].found, strict=True))
        gained, lost = (sum(now > then for now, then in pairs), sum(now < then for now, then in pairs))
        steps = without[0].steps / usual[0].steps
        print(f"| {name} | {lists:.2f} | {scheduled:.2f} | {steps:.2f} | {gained} | {lost} |", flush=True)


if __name__ == "__main__":
    main()
