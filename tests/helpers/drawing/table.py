"""Every word of the language with its weight: how often it is drawn beside those that could stand in its place.

A word that the language gets and this table has not fails a test; so does one that no setting draws. What was drawn
together, what never, and the codes that refuse kernels that have it:

    python tests/helpers/drawing/table.py --kernels 2000 --seed 0 [--triples]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from random import Random

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from dojoir.errors import DojoError
from dojoir.ir.affine import Affine, Extremum, FloorDiv, Mod
from dojoir.ir.expressions import Cast, Expr, Op, parts
from dojoir.ir.nodes import Access, Buffer, Guard, Kernel, Scope, Statement
from dojoir.proof.wellformed import prove

Word = tuple[str, str]
"""A kind, and a word of it."""


def _weighted(*lines: str) -> dict[str, float]:
    """The words of some lines, each with the weight behind its colon, or 1."""
    pairs = (word.partition(":") for line in lines for word in line.split())
    return {name: float(weight or 1) for name, _, weight in pairs}


TABLE: Mapping[str, Mapping[str, float]] = {
    "word": _weighted("kernel where fp in out inout tmp if or and not inf nan"),
    "fp": _weighted("strict reassoc:3 fast"),
    "type": _weighted(
        "f64:3 f32:10 f16 bf16 f8e4m3 f8e5m2 f4e2m1 f8e8m0 i64 i32:4 i16 i8 i4 u64 u32 u16 u8 u4 bool"
    ),
    "attribute": _weighted(
        "heap stack reg shared order pad swizzle align stream strided flat packed distinct lengths offsets"
    ),
    "mark": _weighted("p v:2 u gx gy gz bx by bz lane"),
    "operator": _weighted("= += *= max= min= ^= &= |="),
    "relation": _weighted("== != <= >= < >"),
    "operation": _weighted(
        "when or and not lt le gt ge eq ne add:2 sub mul:2 neg abs min max select floordiv mod bitand bitor bitxor",
        "bitnot shl shr argmax_key argmin_key div fma sqrt floor ceil round copysign fmod floor_mod exp:2 exp2:2",
        "log:2 log2:2 rsqrt:2 tanh:2 erf:2 sigmoid:2 sin:2 cos:2 pow:2 log10:2 erfc:2 sinh:2 cosh:2 asin:2 acos:2",
        "asinh:2 acosh:2 atanh:2 atan2:2 hypot:2 floor_div:2 tan:2 atan:2 expm1:2 log1p:2",
    ),
    "conversion": _weighted("cast sat round_away round_to_zero bitcast value_of argmax_of argmin_of"),
    "index": _weighted("// % min max data reversed scatter"),
}


def pick(random: Random, kind: str, allowed: Collection[str]) -> str:
    """One of the words of a kind, by their weights."""
    weights = TABLE[kind]
    (found,) = random.choices([*allowed], [weights[name] for name in allowed])
    return found


# -- what was drawn ------------------------------------------------------------------------------------------
def words_in(kernel: Kernel) -> frozenset[Word]:
    """The words of a kernel, read off its tree."""
    found: set[Word] = {("word", "kernel"), ("fp", kernel.fp)}
    found |= {("word", "fp")} if kernel.fp != "reassoc" else set()
    found |= {("word", "where"), *(("relation", fact.relation) for fact in kernel.facts)} if kernel.facts else set()
    for buffer in kernel.buffers:
        found |= {("word", buffer.role), ("type", buffer.dtype.name), ("attribute", buffer.storage)}
        found |= {("attribute", name) for name in _attributes(buffer)}
    for _, node in kernel.walk():
        match node:
            case Scope():
                found |= {("mark", mark) for mark in node.marks}
                found |= {word for bound in node.extent.bounds for word in _of_index(bound)}
            case Guard():
                found |= {("word", "if"), *(("relation", c.relation) for c in node.conditions)}
                found |= {("word", "and")} if len(node.conditions) > 1 else set()
            case Statement():
                found.add(("operator", node.op))
                found |= {word for part in parts(node.value) for word in _of_value(part)}
                for access in node.accesses:
                    found |= {word for index in access.indices for word in _of_index(index)}
                    if access == node.target and any(isinstance(index, Access) for index in access.indices):
                        found.add(("index", "scatter"))
    return frozenset(found)


def _attributes(buffer: Buffer) -> Iterator[str]:
    yield from (fact.word for fact in buffer.facts)
    for name in ("order", "pad", "swizzle", "align", "stream", "strided", "flat", "packed"):
        if getattr(buffer, name):
            yield name


def _of_index(index: Affine | Access) -> Iterator[Word]:
    if isinstance(index, Access):
        yield "index", "data"
        return
    for atom, coefficient in index.terms:
        match atom:
            case FloorDiv():
                yield "index", "//"
            case Mod():
                yield "index", "%"
            case Extremum(word, _):
                yield "index", word
            case _ if coefficient < 0:
                yield "index", "reversed"


def _of_value(part: Expr) -> Iterator[Word]:
    match part:
        case Op(name, _):
            yield "operation", name
            if name in TABLE["word"]:
                yield "word", name
            if name == "when":
                yield "word", "if"
        case Cast(way=way):
            yield "conversion", way
        case _ if (value := getattr(part, "value", None)) in (float("inf"), float("-inf")):
            yield "word", "inf"
        case _ if value != value:
            yield "word", "nan"


class Tally:
    """How many kernels had each word, each pair and, if asked, each triple of words; and what refuses others."""

    def __init__(self, most: int = 2) -> None:
        self.most, self.had = most, Counter[tuple[Word, ...]]()
        self.refused: dict[tuple[Word, ...], set[str]] = {}

    def add(self, kernel: Kernel) -> None:
        for some in self._some(kernel):
            self.had[some] += 1

    def prove(self, kernel: Kernel) -> None:
        """Counts a kernel, or the code by which it is refused."""
        try:
            prove(kernel)
        except DojoError as error:
            for some in self._some(kernel):
                self.refused.setdefault(some, set()).add(str(error.diagnostic.code))
        else:
            self.add(kernel)

    def _some(self, kernel: Kernel) -> Iterator[tuple[Word, ...]]:
        words = sorted(words_in(kernel))
        return (some for count in range(1, self.most + 1) for some in combinations(words, count))

    def never(self, count: int) -> list[tuple[Word, ...]]:
        """The words, pairs or triples of drawn words that never came together. A kernel has one `fp`."""
        words = sorted((kind, name) for kind, names in TABLE.items() for name in names)
        drawn = [word for word in words if self.had[word,]] if count > 1 else words
        several = (some for some in combinations(drawn, count) if sum(kind == "fp" for kind, _ in some) < 2)
        return [some for some in several if not self.had[some]]


def main() -> None:
    from drawing import RUNNABLE, SETTINGS, draw
    from drawing.free import Free

    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kernels", type=int, default=500, help="of each setting")
    options.add_argument("--seed", default="0")
    options.add_argument("--triples", action="store_true")
    given = options.parse_args()
    tally = Tally(3 if given.triples else 2)
    for number in range(given.kernels):
        tally.add(draw(RUNNABLE, Random(f"table {given.seed} {number}"), strided=True))
        for setting in SETTINGS:
            tally.prove(Free(Random(f"table {given.seed} {setting} {number}"), SETTINGS[setting]).kernel())
    for count in range(1, tally.most + 1):
        never, drawn = tally.never(count), sum(len(some) == count for some in tally.had)
        refused = sum(some in tally.refused for some in never)
        print(f"{count}: {drawn} drawn, {len(never)} never, {refused} of these only in what is refused")
        for some in never if count < 3 else ():
            codes = ", ".join(sorted(tally.refused.get(some, ())))
            print("   ", ", ".join(map(" ".join, some)), f"({codes})" if codes else "")


if __name__ == "__main__":
    main()
