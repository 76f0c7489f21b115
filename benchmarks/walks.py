"""How long a single answer of the checker takes, over random walks of moves.

    python benchmarks/walks.py [--states N] [--jobs N] [--seed N] [--each N] [--kept FILE] [--again MILLISECONDS]

A walk begins with a kernel of the library, follows up to eight random legal moves, and asks the candidates of each
state (`--each` of them, by chance) one by one. Walks are numbered: a number and a seed always give the same states
and questions, by however many processes. Each begins with empty tables, so that none is quick because of another.
With `--kept`, what was found is added to a file, a line for each walk, and a later call goes on from there.

Printed are the median, the 99th percentile and the longest answers in CPU time, each with the state where it was
asked. `--again` asks those of the file that took longer once more, and puts what they take now in their place.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from statistics import median, quantiles
from time import process_time
from typing import NamedTuple, TypedDict

import dojoir

NAMES = tuple(dojoir.kernels.names())

LONG = 3000
"""A text of more characters is not walked on from."""

SHOWN = 8
"""How many of the longest answers are shown."""


class Question(NamedTuple):
    """A move that was asked, the moves behind which it was, and the CPU seconds of its answer."""

    seconds: float
    kernel: str
    before: list[str]
    move: str

    def asked_alone(self) -> Question:
        """The same, timed again, by itself: the moves before it are made, not timed."""
        dojoir.clear_caches()
        kernel = dojoir.kernels.load(self.kernel)
        for move in self.before:
            kernel = dojoir.apply(kernel, move)
        start = process_time()
        dojoir.check(kernel, self.move)
        return self._replace(seconds=process_time() - start)

    def __str__(self) -> str:
        after = f", after {'; '.join(self.before)}" if self.before else ""
        return f"{self.seconds:.3f} s  {self.kernel}: {self.move}{after}"


class Walk(TypedDict):
    """What was found on one walk: its number, how many states it had, the seconds of all answers, and the longest
    of them with what was asked."""

    number: int
    states: int
    seconds: list[float]
    longest: list[Question]


def walk(number: int, seed: int, each: int) -> Walk:
    """The answers along the walk of a number. Of a state with many candidates, `each` are asked."""
    dojoir.clear_caches()
    random = Random(f"{seed}, {number}")
    name = random.choice(NAMES)
    kernel, before = dojoir.kernels.load(name), list[str]()
    asked: list[Question] = []
    states = 0
    for _ in range(random.randint(1, 8)):
        states += 1
        some = dojoir.candidates(kernel)
        random.shuffle(some)
        legal = []
        for move in some[:each]:
            start = process_time()
            allowed = bool(dojoir.check(kernel, move))
            asked.append(Question(process_time() - start, name, before, str(move)))
            legal += [move] if allowed else []
        if not legal:
            break
        move = random.choice(legal)
        before = [*before, str(move)]
        kernel = dojoir.apply(kernel, move)
        if len(dojoir.to_text(kernel)) > LONG:
            break
    seconds = [round(question.seconds, 6) for question in asked]
    return Walk(number=number, states=states, seconds=seconds, longest=sorted(asked, reverse=True)[:SHOWN])


def kept(path: Path | None) -> dict[int, Walk]:
    """The walks of a file, by number. A last line that was not written to its end is left out."""
    found: dict[int, Walk] = {}
    for line in path.read_text().splitlines() if path is not None and path.exists() else ():
        try:
            one: Walk = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[one["number"]] = {**one, "longest": [Question(*question) for question in one["longest"]]}
    return found


def walks(states: int, seed: int, each: int, jobs: int, path: Path | None) -> list[Walk]:
    """Walks 0, 1, 2 … until they have so many states, those in the file first; new ones are added to it."""
    known = kept(path)
    found: list[Walk] = []
    count = 0
    for one in _in_turn(known, partial(walk, seed=seed, each=each), jobs):
        if one["number"] not in known and path is not None:
            with path.open("a") as file:
                file.write(json.dumps(one) + "\n")
        found.append(one)
        count += one["states"]
        if count >= states:
            break
    return found


def _in_turn(known: dict[int, Walk], made: partial[Walk], jobs: int) -> Iterator[Walk]:
    """Walks 0, 1, 2 …, in this order."""
    start = next(n for n in range(len(known) + 1) if n not in known)
    yield from (known[n] for n in range(start))
    if jobs == 1:
        n = start
        while True:
            yield known[n] if n in known else made(n)
            n += 1
    with ProcessPoolExecutor(jobs) as pool:
        ahead = {n: pool.submit(made, n) for n in range(start, start + 2 * jobs) if n not in known}
        n = start
        try:
            while True:
                yield known[n] if n in known else ahead.pop(n).result()
                n += 1
                last = n + 2 * jobs - 1
                if last not in known:
                    ahead[last] = pool.submit(made, last)
        finally:
            for waiting in ahead.values():
                waiting.cancel()


def again(path: Path, least: float) -> None:
    """Asks what took longer than `least` seconds once more, and writes the file anew."""
    lines = []
    for one in kept(path).values():
        old = one["longest"]
        new = [question.asked_alone() if question.seconds > least else question for question in old]
        left = sorted(one["seconds"])[: len(one["seconds"]) - len(old)]
        seconds = [*left, *(round(question.seconds, 6) for question in new)]
        lines.append(json.dumps({**one, "seconds": seconds, "longest": sorted(new, reverse=True)}) + "\n")
    path.write_text("".join(lines))


def report(found: Iterable[Walk]) -> str:
    """The median, the 99th percentile and the longest of the answers."""
    some = list(found)
    seconds = [second for one in some for second in one["seconds"]]
    longest = sorted((question for one in some for question in one["longest"]), reverse=True)
    states = sum(one["states"] for one in some)
    lines = [
        f"{len(seconds)} answers at {states} states of {len(some)} random walks, CPU time",
        f"median {median(seconds) * 1e3:.2f} ms, 99% within {quantiles(seconds, n=100)[-1] * 1e3:.1f} ms, "
        f"all within {max(seconds):.2f} s",
        "longest:",
        *(f"  {question}" for question in longest[:SHOWN]),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=2000, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=60, metavar="N", help="candidates asked at a state")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="what was found, to go on from")
    parser.add_argument("--again", type=float, metavar="MILLISECONDS", help="ask again what took longer")
    options = parser.parse_args()
    if options.again is not None:
        if options.kept is None:
            parser.error("--again needs --kept")
        again(options.kept, options.again / 1e3)
        print(report(kept(options.kept).values()))
        return
    print(report(walks(options.states, options.seed, options.each, options.jobs, options.kept)))


if __name__ == "__main__":
    main()
