"""Two checkouts held against each other: the same candidates and verdicts on the states of random walks.

    python tests/helpers/same_verdicts.py record FILE --moves 20000 [--seed 1] [--seconds 600]     in the one
    python tests/helpers/same_verdicts.py compare FILE                                             in the other

`record` walks from random kernels, and writes for each state the text of the kernel, its candidates, and the
verdict of some of them. `compare` asks the same of the same texts, prints each difference, then counts; its exit
status is 1 where there is one. Families of moves that only one of the two has are counted by themselves, and so are
verdicts that one of the two does not come to within its budget.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import process_time
from typing import TypedDict

from walks import TOO_LONG, start_kernel

import dojoir


class State(TypedDict):
    """A kernel, its candidates as texts, the status and code of some verdicts, and the families of moves."""

    kernel: str
    candidates: list[str]
    verdicts: dict[str, tuple[str, str | None]]
    families: list[str]


def verdict_of(kernel: dojoir.Kernel, move: str) -> tuple[str, str | None]:
    verdict = dojoir.check(kernel, move)
    return verdict.status, verdict.code


def states(seed: int, each: int) -> Iterator[State]:
    """The states of one walk after another, each with `each` verdicts."""
    number = 0
    while True:
        random = Random(f"same {seed} {number}")
        number += 1
        kernel = dojoir.parse(dojoir.to_text(start_kernel(random, 0.7)[0]))
        for _ in range(random.choice((1, 3, 6, 10))):
            text = dojoir.to_text(kernel)
            candidates = list(map(str, dojoir.candidates(kernel)))
            if len(text) > TOO_LONG or not candidates:
                break
            asked = random.sample(candidates, min(each, len(candidates)))
            verdicts = {move: verdict_of(kernel, move) for move in asked}
            families = [kind.name for kind in dojoir.MOVES]
            yield {"kernel": text, "candidates": candidates, "verdicts": verdicts, "families": families}
            legal = [move for move, (status, _) in verdicts.items() if status == "legal"]
            if not legal:
                break
            kernel = dojoir.parse(dojoir.to_text(dojoir.apply(kernel, random.choice(legal))))


def record(file: Path, moves: int, seed: int, seconds: float) -> None:
    count, began = 0, process_time()
    with file.open("w", encoding="utf-8") as out:
        for state in states(seed, 12):
            out.write(json.dumps(state) + "\n")
            count += len(state["verdicts"])
            if count >= moves or process_time() - began > seconds:
                break
    print(f"{count} verdicts in {process_time() - began:.0f} s of CPU")


def differences(state: State, counts: Counter[str]) -> Iterator[str]:
    kernel = dojoir.parse(state["kernel"])
    mine = list(map(str, dojoir.candidates(kernel)))
    alone = {kind.name for kind in dojoir.MOVES} ^ set(state["families"])
    counts["states"] += 1
    for one, other, said in ((state["candidates"], mine, "gone"), (mine, state["candidates"], "new")):
        for move in set(one) - set(other):
            name = move.partition("(")[0]
            if name in alone:
                counts[f"of a family that one has alone: {name}"] += 1
            else:
                counts[f"candidates {said}"] += 1
                yield f"candidate {said}: {move}"
    for move, (status, code) in state["verdicts"].items():
        if move.partition("(")[0] in alone:
            continue
        counts["verdicts"] += 1
        found = verdict_of(kernel, move)
        counts[f"verdicts {found[0]}"] += 1
        if "unknown" in {status, found[0]}:
            counts["undecided in one of the two"] += found[0] != status
        elif found != (status, code):
            counts["verdicts that differ"] += 1
            yield f"{move}: was {status} {code}, is {found[0]} {found[1]}"


def compare(file: Path, seconds: float) -> int:
    counts, began = Counter[str](), process_time()
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            state: State = json.loads(line)
            for difference in differences(state, counts):
                print(f"{difference}\n{state['kernel']}")
            if process_time() - began > seconds:
                break
    for what, count in sorted(counts.items()):
        print(f"{count:8} {what}")
    return int(bool(counts["verdicts that differ"] or counts["candidates gone"] or counts["candidates new"]))


def main() -> int:
    parser = ArgumentParser(description="Candidates and verdicts of two checkouts, held against each other.")
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--moves", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="of CPU, after which it ends")
    given = parser.parse_args()
    if given.what == "record":
        record(given.file, given.moves, given.seed, given.seconds)
        return 0
    return compare(given.file, given.seconds)


if __name__ == "__main__":
    sys.exit(main())
