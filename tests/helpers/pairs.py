"""Which pairs of features the generators have drawn: `python tests/helpers/pairs.py --kernels 2000 --seed 0`.

A pair is of two features of one statement: a mark and a storage, an operator and a target, and so on for the axes
of `features.AXES`. Random kernels have some of them, those by rule of `optimize` others; what is left is aimed at.
Prints the pairs that were never drawn, but for those that cannot be (`IMPOSSIBLE`); exits 1 if there are any.

With `--run` each aimed kernel is run: on its target where this machine has it, on the harness for GPUs, as the
lowered program for any, its footprint held to its text's, its results to the interpreter's.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from random import Random

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

import on_harness
from able import can_run
from agreement import agree
from aimed import Drawn, aimed, calm_arguments, plain
from drawing import draw
from features import AXES, GPUS, Feature, features
from footprint_runs import Case, wrong_lowered
from footprints import Text
from gpu_walks import ORDERS

import dojoir

Pair = tuple[Feature, Feature]
"""Two features of different axes, in the order of the axes."""


def pairs_of(drawn: Drawn) -> frozenset[Pair]:
    """The pairs of features that the statements of a kernel have."""
    order = {axis: number for number, axis in enumerate(AXES)}
    found: set[Pair] = set()
    for site in drawn.kernel.sites:
        mine = sorted(features(drawn.kernel, site, drawn.target, drawn.threads), key=lambda f: (order[f[0]], f[1]))
        found |= {(a, b) for a, b in combinations(mine, 2) if a[0] != b[0]}
    return frozenset(found)


EVERY: tuple[Pair, ...] = tuple(
    ((one, a), (other, b)) for one, other in combinations(AXES, 2) for a in AXES[one] for b in AXES[other]
)

IMPOSSIBLE: dict[tuple[str, str], tuple[str, str]] = {
    ("operator += *= max= min=", "type bool"): ("type-operand", "flags have no sum, product or order"),
    ("operator ^= &= |=", "type f64 f32 f16 bf16 f8e4m3 f8e5m2 f4e2m1 f8e8m0"): (
        "type-operand",
        "floats are no bits",
    ),
    ("operator += *= max= min= ^= &= |=", "type i4 u4"): ("type-operand", "what has four bits is only stored"),
    ("operator fused", "type i64 i32 i16 i8 i4 u64 u32 u16 u8 u4 bool"): ("type-operand", "fma is of floats"),
    ("operator fused", "guard data length"): (
        "",
        "under a condition, it is an assignment of what it adds up or leaves",
    ),
    ("operator += *= max= min= ^= &= |=", "running linear"): ("", "a linear step is an assignment"),
    ("operator fused", "running after before"): ("", "what adds a product to an element is linear"),
    ("running linear", "type bool"): ("", "flags have no sum or product"),
    ("running after before linear", "stride scatter distinct last"): (
        "",
        "what goes on is one element, not of data",
    ),
    ("operator fused", "stride last"): ("", "under a condition, it is an assignment of what it adds up or leaves"),
    ("guard none", "stride last"): ("", "that it is the last is a condition on data"),
    ("attribute strided", "target cuda hip"): ("strided-argument", "a launch takes dense arrays"),
    ("threads 1 2 more", "target cuda hip"): ("", "the threads are those of the host; a launch has its own"),
}
"""The pairs that no kernel has, an axis with some values beside another: the code that refuses them, and why."""


def impossible() -> dict[Pair, str]:
    """Each pair that no kernel has, with the code that refuses it."""
    found: dict[Pair, str] = {}
    for (some, others), (code, _) in IMPOSSIBLE.items():
        (one, *values), (other, *more) = some.split(), others.split()
        found |= {((one, a), (other, b)): code for a in values for b in more}
    return found


# -- drawing -------------------------------------------------------------------------------------------------
def draw_pairs(random: Random, kernels: int, counts: Counter[Pair], optimized: float = 0.0) -> list[Drawn]:
    """Draws random kernels, a share of them by rule, then aims at each pair that none had; the aimed ones."""
    for _ in range(kernels):
        counts.update(pairs_of(by_rule(random) if random.random() < optimized else plain(random)))
    made = []
    for pair in EVERY:
        for _ in range(0 if pair in impossible() else 10):
            if counts[pair]:
                break
            drawn = aimed(dict(pair), random, Counter())
            if drawn is not None:
                made.append(drawn)
                counts.update(pairs_of(drawn))
    return made


def by_rule(random: Random) -> Drawn:
    """A random kernel as `optimize` schedules it for a target."""
    target = random.choice(AXES["target"])
    kernel = draw("runnable", random, small=True)
    return Drawn(dojoir.optimize(kernel, target).kernel, target, random.choice((1, 2, 5)))


# -- running -------------------------------------------------------------------------------------------------
def wrong(drawn: Drawn, random: Random, counts: Counter[str]) -> Iterator[str]:
    """How an aimed kernel differs from the interpreter where it is run."""
    kernel, target = drawn.kernel, drawn.target
    calls = []
    for rows in (1, random.choice((2, 3, 4)), random.choice((5, 8, 17, 33))):
        sizes = {"N": rows}
        given = calm_arguments(drawn, sizes, random)
        calls.append((sizes, given, dojoir.interpret(kernel, given, **sizes)))
    outside = (0, 0, 0) if target in GPUS else ()
    texts = tuple(Text(kernel, sizes, given, outside) for sizes, given, _ in calls)
    yield from wrong_lowered(Case("", kernel, target, texts), [right for *_, right in calls], counts)
    if target in GPUS:
        for (sizes, given, right), order in product(calls, ORDERS):
            counts[f"{target}, harness"] += 1
            found = agree(kernel, right, on_harness.run(kernel, given, sizes, target, order), False)
            if found is not None:
                yield f"harness, {order}, at {sizes}: {found}"
    elif can_run(target):
        compiled = dojoir.compile(kernel, target=target, threads=drawn.threads)
        for sizes, given, right in calls:
            counts[f"{target}, machine code"] += 1
            found = agree(kernel, right, compiled.run(given, **sizes), False)
            if found is not None:
                yield f"machine code, at {sizes}: {found}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=2000, help="how many random kernels are drawn first")
    parser.add_argument("--optimized", type=float, default=0.05, help="the share of them that is by rule")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--run", action="store_true", help="run the aimed kernels")
    options = parser.parse_args()
    random, counts = Random(f"pairs {options.seed}"), Counter[Pair]()
    made = draw_pairs(random, options.kernels, counts, options.optimized)
    never = [pair for pair in EVERY if not counts[pair] and pair not in impossible()]
    for pair in never:
        print("never drawn:", *map(" ".join, pair), sep="  ")
    failed, calls = 0, Counter[str]()
    for drawn in made if options.run else ():
        try:
            found = list(wrong(drawn, random, calls))
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        for text in found:
            failed += 1
            print(f"--- {drawn.target}, {drawn.threads} threads: {text}\n{drawn.kernel}", flush=True)
    print(f"{options.kernels} kernels, {len(made)} aimed ones, {dict(calls)}, {failed} failures")
    print(f"{len(EVERY)} pairs, {len(impossible())} impossible, {len(never)} never drawn")
    return 1 if never or failed else 0


if __name__ == "__main__":
    sys.exit(main())
