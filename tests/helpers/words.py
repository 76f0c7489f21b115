"""Random kernels until each of the newer words of the language has had so many.

    python tests/helpers/words.py --each 2000 [--seed 0] [--words bitcast,packed] [--minutes 30] [--processes 16]

Each kernel is held against the interpreter on the targets of this machine, and walks of a few random moves begin at
some of them: every legal move is asked of the core, and the ends run too. Prints what differs, and how many kernels
had each word and each pair of words; exits 1 if anything differed.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from random import Random

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

from differential import examine
from runnable import runnable_kernel
from walks import Walk

import dojoir

WORDS = {
    "pairs": r"arg(max|min)_key",
    "conditions": r"^\|.*= .* if ",
    "assigned at data": r"^[| ]*\w+\[.*\w+\[[^=]*\].*\] = ",
    "accumulated at data": r"^[| ]*\w+\[.*\w+\[[^=]*\].*\] \S+= ",
    "distinct": r" distinct",
    "stated lengths": r" lengths\(",
    "offsets": r" offsets\(",
    "quotients": r"= .*(//|%)",
    "bits accumulated": r"[\^&|]= ",
    "bitcast": r"bitcast\(",
    "packed": r" packed",
    "sat": r"sat\(",
    "rounding": r"round_(away|to_zero)\(",
    "f8e8m0": r"f8e8m0",
    "four bits": r"\b[iu]4\b",
    "clamped": r"\[[^\]]*(min|max|clamp|abs)\(",
    "running values": r"^(out|tmp) v\d",
    "lengths": r"= .* if .*\{\d\} < i64\(",
    "lengths in lanes": r": [^\n]*v[^\n]*(\n[| ]*\w+( =|\[)[^\n]*)* if \{\d\} < i64\(",
}
"""By what a word is seen in a canonical text."""


def words_in(kernel: dojoir.Kernel) -> frozenset[str]:
    text = dojoir.to_text(kernel)
    return frozenset(word for word, seen in WORDS.items() if re.search(seen, text, re.MULTILINE))


@dataclass
class Found:
    """The kernels that ran, and what they had."""

    ran: int = 0
    walks: int = 0
    moves: int = 0
    had: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, ...]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        for name in ("ran", "walks", "moves", "had", "pairs", "failures"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def run(seed: str, numbers: range, wanted: frozenset[str], targets: tuple[str, ...]) -> Found:
    """The kernels of these numbers that have one of the wanted words."""
    found = Found()
    for number in numbers:
        random = Random(f"word {seed} {number}")
        exact = random.random() < 0.5
        kernel = runnable_kernel(random, exact, small=random.random() < 0.9, converts=random.random() < 0.4)
        words = words_in(kernel)
        if not words & wanted:
            continue
        found.ran += 1
        found.had.update(words)
        found.pairs.update(combinations(sorted(words), 2))
        wrong = examine(kernel, random, exact, targets if number % 40 == 0 else targets[:1])
        if wrong is None and number % 10 == 0:
            walk = Walk(random, kernel, exact, 0.05, targets[:1])
            walk.go(3)
            found.walks, found.moves = found.walks + 1, found.moves + len(walk.trace.moves)
            wrong = "\n".join(f.what + "\n" + f.text() for f in walk.failures) or None
        if wrong is not None:
            found.failures.append(f"-- kernel {number}\n{dojoir.to_text(kernel)}\n{wrong}\n")
            print(found.failures[-1], flush=True)
    return found


BATCH = 25
"""How many numbers a process is given at once."""


def main() -> int:
    options = argparse.ArgumentParser(description="random kernels with the newer words of the language")
    options.add_argument("--each", type=int, default=2000)
    options.add_argument("--seed", default="0")
    options.add_argument("--words", default=",".join(WORDS))
    options.add_argument("--targets", default="llvm,c", help="the first for all kernels, the others for some")
    options.add_argument("--minutes", type=float, default=60.0)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--processes", type=int, default=1)
    given = options.parse_args()
    words, targets = given.words.split(","), tuple(given.targets.split(","))
    total, first, until = Found(), given.first, time.monotonic() + 60 * given.minutes
    pool = ProcessPoolExecutor(given.processes, get_context("spawn"))
    under_way: set[Future[Found]] = set()
    while True:
        wanted = frozenset(word for word in words if total.had[word] < given.each)
        more = time.monotonic() < until and bool(wanted)
        while more and len(under_way) < 2 * given.processes:
            under_way.add(pool.submit(run, given.seed, range(first, first + BATCH), wanted, targets))
            first += BATCH
        if not under_way:
            break
        done, under_way = wait(under_way, timeout=30, return_when=FIRST_COMPLETED)
        before = total.ran // 500
        for future in done:
            total.add(future.result())
        if total.ran // 500 != before:
            least = min(words, key=lambda word: total.had[word])
            print(
                f"{total.ran} kernels, {len(total.failures)} failures, fewest {least} {total.had[least]}",
                flush=True,
            )
    pool.shutdown()
    print(f"{total.ran} of {first - given.first} kernels, {total.walks} walks of {total.moves} moves, "
          f"{len(total.failures)} failures")  # fmt: skip
    print(", ".join(f"{word} {total.had[word]}" for word in WORDS))
    print(f"{len(total.pairs)} of {len(WORDS) * (len(WORDS) - 1) // 2} pairs of words, the rarest "
          f"{min(total.pairs.values(), default=0)} times")  # fmt: skip
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
