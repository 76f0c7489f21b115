"""Two checkouts held against each other: the same moves, made without a proof, to the letter.

    python tests/helpers/same_moves.py record FILE [--drawn 150] [--seed 1]      in the one
    python tests/helpers/same_moves.py compare FILE                             in the other

`record` writes for each kernel (of the library, of `benchmarks/practice` and `benchmarks/narrow`, drawn at random,
and what random moves make of these) a line with its text and, family by family, the moves that are listed, in
order, and those of the space at some places. For each of these, and for some with arguments that are wrong, there
is a hash of all that the move says: kernel, certificate, inverse, what the inverse makes, alternatives, reach, or
the refusal with code, words, place and cure. `compare` asks the same of the same texts and prints what differs; its
exit status is 1 where something does. `same_verdicts.py` and `same_traces.py` hold what is proved and scheduled.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from random import Random
from typing import get_args, get_origin

from walks import start_kernel

import dojoir
from dojoir.errors import ArgumentError, Diagnostic
from dojoir.ir.nodes import Kernel
from dojoir.passes import MOVES
from dojoir.passes.base.move import BufferName, Formula, Move, Place, Quoted, Refusal, Word, anchors
from dojoir.proof.verdict import Verdict

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ILLEGAL = Verdict("illegal", Diagnostic("not-equivalent", "not so"))
TARGETS = ("llvm", "cuda")
MOST = 12_000
"""The longest text of a kernel that is asked about, in characters."""


def texts(drawn: int, seed: int) -> Iterator[tuple[str, str]]:
    """The names and texts of kernels, some of them after a few moves, legal or not."""
    given = [(name, dojoir.kernels.load(name)) for name in dojoir.kernels.names()]
    for suite in ("practice", "narrow"):
        given += [
            (f"{suite}/{path.stem}", dojoir.load(path)) for path in sorted((BENCHMARKS / suite).rglob("*.dojo"))
        ]
    given += [(f"drawn {n}", start_kernel(Random(f"drawn {seed} {n}"), 0.7)[0]) for n in range(drawn)]
    for name, kernel in given:
        rng = Random(f"{seed} {name}")
        text = dojoir.to_text(kernel, labels=True)
        for _ in range(rng.choice((0, 0, 1, 2, 4))):
            text = further(dojoir.parse(text), rng) or text
        if len(text) < MOST:
            yield name, text


def further(kernel: Kernel, rng: Random) -> str | None:
    """What a move makes of a kernel, its family drawn first."""
    for _ in range(20):
        kind = rng.choice(MOVES)
        listed = list(islice(kind.candidates(kernel), 30))
        if listed:
            try:
                text = dojoir.to_text(rng.choice(listed).rewrite(kernel).kernel, labels=True)
                dojoir.parse(text)
            except (Refusal, dojoir.DojoError):
                continue
            return text
    return None


def wrong(move: Move, kernel: Kernel, rng: Random) -> Iterator[Move]:
    """The move with other arguments, one at a time."""
    nodes = [".".join(map(str, path)) for path, _ in kernel.walk()]
    buffers = [buffer.name for buffer in kernel.buffers]
    others: dict[object, list[object]] = {
        int: [-1, 0, 1, 2, 3, 7, 64, 1 << 40],
        Place: [*nodes, "9.9", "@nowhere"],
        BufferName: [*buffers, "fresh", "no_buffer", "max"],
        Word: ["in", "out", "inout", "p", "v", "heap", "stack", "accumulate", "x-1", "gx", "bx", "factor"],
        Formula: [
            Formula(text) for text in ("0", "1", "{0}", "-3", "min(4, 7)", "N", "{9}", "x[{0}]", "2*{1} + 1")
        ],
        Quoted: [Quoted(text) for text in ("{0} < 3", "N; | 2", "tmp zz: f32[3]", "{9} < 1", "y[0] = 1")],
    }
    for name, kind in move.parameters().items():
        if get_origin(kind) is tuple:
            one = rng.choice(others[get_args(kind)[0]])
            value = getattr(move, name)
            yield replace(move, **{name: value[:-1]})
            yield replace(move, **{name: (*value, one)})
            yield replace(move, **{name: (one, *value[1:])})
        else:
            for one in rng.sample(others[kind], min(3, len(others[kind]))):
                yield replace(move, **{name: one})


def said(move: Move, kernel: Kernel) -> str:
    """All that a move says of a kernel, as a text."""
    parts: list[object] = [str(move)]
    try:
        parts += [move.anchor(kernel), move.reach_in(kernel), str(move.like(kernel)), move.followers()]
        done = move.rewrite(kernel)
    except Refusal as refusal:
        parts += ["refused", refusal.code, refusal.message, refusal.path, refusal.hint, refusal.others]
    except ArgumentError as error:
        parts += ["no place", repr(error.diagnostic)]
    except Exception as error:
        parts += ["fails", type(error).__name__, str(error)]
    else:
        parts += [dojoir.to_text(done.kernel, labels=True), repr(done.instances)]
        parts += tried(move, kernel, done.kernel)
    try:
        parts += [repr(one) for one in islice(move.alternatives(kernel, ILLEGAL), 12)]
    except Exception as error:
        parts += ["no alternatives", type(error).__name__, str(error)]
    return "\n".join(map(str, parts))


def tried(move: Move, kernel: Kernel, after: Kernel) -> Iterator[object]:
    """The inverse, and what that makes."""
    try:
        back = move.inverse(kernel)
        yield back
        done = back.rewrite(after)
        yield dojoir.to_text(done.kernel, labels=True)
        yield repr(done.instances)
    except Exception as error:
        yield type(error).__name__
        yield str(error)


def spaces(kind: type[Move], kernel: Kernel, rng: Random) -> Iterator[tuple[str, list[Move]]]:
    """The space of a family at some places, for two machines, and what it makes of some numbers."""
    places = list(anchors(kernel))
    for place in rng.sample(places, min(4, len(places))):
        for target in TARGETS:
            yield f"{place} {target}", list(islice(kind.space(kernel, place, dojoir.machine_for(target)), 150))
        yield f"{place} numbers", list(kind.with_numbers(kernel, place, (-1, 0, 1, 2, 6, 64)))


def asked(name: str, text: str) -> Iterator[tuple[str, str, str]]:
    """What is asked of a kernel, as a key, with the answer and its hash."""
    kernel = dojoir.parse(text)
    rng = Random(name)
    for kind in MOVES:
        own = Random(f"{name} {kind.name}")
        listed = list(kind.candidates(kernel))
        yield f"{kind.name} candidates", *hashed(" ".join(map(str, listed)))
        moves = own.sample(listed, min(8, len(listed)))
        for place, space in spaces(kind, kernel, own):
            yield f"{kind.name} {place}", *hashed(" ".join(map(str, space)))
            moves += own.sample(space, min(2, len(space)))
        for move in dict.fromkeys(moves):
            yield str(move), *hashed(said(move, kernel))
            if rng.random() < 0.3:
                for other in wrong(move, kernel, own):
                    yield f"wrong: {other}", *hashed(said(other, kernel))


def hashed(answer: str) -> tuple[str, str]:
    return sha256(answer.encode()).hexdigest()[:12], answer


def families() -> str:
    """What each family is: its name, text, arguments, reach, targets."""
    return "\n".join(
        f"{k.name} {k.__name__} {k.__doc__} {k.parameters()} {k.reach} {sorted(k.targets or ())}" for k in MOVES
    )


def record(file: Path, drawn: int, seed: int, part: int, parts: int) -> None:
    with file.open("w", encoding="utf-8") as out:
        out.write(json.dumps(families()) + "\n")
        for name, text in islice(texts(drawn, seed), part, None, parts):
            out.write(json.dumps([name, text, {key: found for key, found, _ in asked(name, text)}]) + "\n")


def compare(file: Path, part: int, parts: int) -> int:
    count = differ = 0
    with file.open(encoding="utf-8") as lines:
        if json.loads(next(lines)) != families():
            print("the families differ")
            differ += 1
        for line in islice(lines, part, None, parts):
            name, text, was = json.loads(line)
            now = {key: (found, answer) for key, found, answer in asked(name, text)}
            count += len(now)
            for key in dict.fromkeys([*was, *now]):
                found, answer = now.get(key, (None, "is no more"))
                if found != was.get(key):
                    differ += 1
                    if differ < 40:
                        print(f"-- {name}: {key}\n{answer[:1500]}\n{text}", flush=True)
    print(f"{count} answers, {differ} differ")
    return int(differ > 0)


def main() -> int:
    parser = ArgumentParser(description="What the moves of two checkouts say, held against each other.")
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--drawn", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", type=int, default=0, help="which of --parts parts of the kernels")
    parser.add_argument("--parts", type=int, default=1)
    given = parser.parse_args()
    if given.what == "compare":
        return compare(given.file, given.part, given.parts)
    record(given.file, given.drawn, given.seed, given.part, given.parts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
