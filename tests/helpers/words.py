"""Random kernels until each of the newer words of the language has had so many.

    python tests/helpers/words.py --each 2000 [--seed 0] [--words bitcast,packed] [--minutes 30]

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
from itertools import combinations
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
}
"""By what a word is seen in a canonical text."""


def words_in(kernel: dojoir.Kernel) -> frozenset[str]:
    text = dojoir.to_text(kernel)
    return frozenset(word for word, seen in WORDS.items() if re.search(seen, text, re.MULTILINE))


def main() -> int:
    options = argparse.ArgumentParser(description="random kernels with the newer words of the language")
    options.add_argument("--each", type=int, default=2000)
    options.add_argument("--seed", default="0")
    options.add_argument("--words", default=",".join(WORDS))
    options.add_argument("--minutes", type=float, default=60.0)
    options.add_argument("--first", type=int, default=0)
    given = options.parse_args()
    wanted, had, pairs = given.words.split(","), Counter[str](), Counter[tuple[str, ...]]()
    failures, ran, walks, moves = 0, 0, 0, 0
    number, until = given.first, time.monotonic() + 60 * given.minutes
    while time.monotonic() < until and any(had[word] < given.each for word in wanted):
        random = Random(f"word {given.seed} {number}")
        number += 1
        exact = random.random() < 0.5
        kernel = runnable_kernel(random, exact, small=random.random() < 0.9)
        found = words_in(kernel)
        if not any(word in found and had[word] < given.each for word in wanted):
            continue
        ran += 1
        had.update(found)
        pairs.update(combinations(sorted(found), 2))
        wrong = examine(kernel, random, exact, ("llvm", "c") if ran % 40 == 0 else ("llvm",))
        if wrong is None and ran % 10 == 0:
            walk = Walk(random, kernel, exact, 0.05, ("llvm",))
            walk.go(3)
            walks, moves = walks + 1, moves + len(walk.trace.moves)
            wrong = "\n".join(f.what + "\n" + f.text() for f in walk.failures) or None
        if wrong is not None:
            failures += 1
            print(f"-- kernel {number - 1}\n{dojoir.to_text(kernel)}\n{wrong}\n", flush=True)
        if ran % 500 == 0:
            print(f"{ran} kernels, {failures} failures, fewest {min(had[word] for word in wanted)}", flush=True)
    print(f"{ran} of {number - given.first} kernels, {walks} walks of {moves} moves, {failures} failures")
    print(", ".join(f"{word} {had[word]}" for word in WORDS))
    print(f"{len(pairs)} of {len(WORDS) * (len(WORDS) - 1) // 2} pairs of words, the rarest "
          f"{min(pairs.values(), default=0)} times")  # fmt: skip
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
