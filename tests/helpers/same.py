"""Two checkouts held against each other: what moves, the checker and schedules by rule say, to the letter.

    python tests/helpers/same.py record moves FILE [--drawn 150] [--seed 1]      in the one
    python tests/helpers/same.py compare moves FILE                             in the other

`record` writes a line for each subject: its name, its text, and for each question of a kind a hash of the
answer; `compare` asks the same of the same texts and prints what differs; its exit status is 1 where something
does. What is about a family of moves that only one of the two has is left out, and so is what one of the two
does not decide.

`moves`: kernels of the library, of `benchmarks/practice` and `benchmarks/narrow`, drawn at random, and what
random moves make of these; family by family the moves that are listed, in order, and those of the space at some
places; for each of these, and for some with arguments that are wrong, all that the move says: kernel,
certificate, inverse, what the inverse makes, alternatives, reach, or the refusal with code, words, place and
cure. `verdicts`: states of random walks, their candidates, and the status and code of some. `schedules`: the
moves of `default_schedule` for each kernel of the library and of practice and each target. `texts`: the source
that each target gets (LLVM's for three processors) of all texts that come with the project or stand in the tests of
code, of random ones, of every operation in every type; of what stored schedules and `default_schedule` make of
texts, and of the texts in a folder (`--also`). At the end it says how many CPU seconds the answers took.
"""

from __future__ import annotations

import ast
import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from random import Random
from time import process_time
from typing import get_args, get_origin

from drawing.runnable import runnable_kernel
from folders import ROOT, TESTS
from walks import TOO_LONG, start_kernel

import dojoir
from dojoir.errors import ArgumentError, Diagnostic
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.nodes import Kernel
from dojoir.ir.operations import OPERATIONS, Class, Operation
from dojoir.passes import MOVES
from dojoir.passes.base.move import BufferName, Formula, Move, Place, Quoted, Refusal, Word, anchors
from dojoir.proof.verdict import Verdict
from dojoir.schedules.file import own_schedules

BENCHMARKS = ROOT / "benchmarks"
ILLEGAL = Verdict("illegal", Diagnostic("not-equivalent", "not so"))
TARGETS = ("llvm", "cuda")
SCHEDULED = ("avx512", "avx2", "neon", "rvv", "cuda", "hip")
CPUS = ("c", "avx2", "avx512", "neon", "sve", "rvv", "llvm@znver3", "llvm@skylake-avx512", "llvm@neoverse-n1")
GPUS = ("cuda", "hip")
MOST = 12_000
"""The longest text of a kernel that is asked about, in characters."""

Answers = Iterator[tuple[str, str]]
"""A question, which begins with the name of a family of moves where it is about one, and the answer."""


# -- subjects ------------------------------------------------------------------------------------------------
def written(*suites: str) -> dict[str, Kernel]:
    """The kernels of the library and of some folders of benchmarks, by name."""
    found = {name: dojoir.kernels.load(name) for name in dojoir.kernels.names()}
    for suite in suites:
        paths = sorted((BENCHMARKS / suite).rglob("*.dojo"))
        found |= {f"{suite}/{path.stem}": dojoir.load(path) for path in paths}
    return found


def texts(drawn: int, seed: int) -> Iterator[tuple[str, str]]:
    """The names and texts of kernels, some of them after a few moves, legal or not."""
    given = written("practice", "narrow")
    given |= {f"drawn {n}": start_kernel(Random(f"drawn {seed} {n}"), 0.7)[0] for n in range(drawn)}
    for name, kernel in given.items():
        rng = Random(f"{seed} {name}")
        text = dojoir.to_text(kernel, labels=True)
        for _ in range(rng.choice((0, 0, 1, 2, 4))):
            text = further(dojoir.parse(text), rng) or text
        if len(text) < MOST:
            yield name, text


def states(drawn: int, seed: int) -> Iterator[tuple[str, str]]:
    """The states of walks from as many random kernels."""
    for number in range(drawn):
        random = Random(f"same {seed} {number}")
        kernel = dojoir.parse(dojoir.to_text(start_kernel(random, 0.7)[0]))
        for step in range(random.choice((1, 3, 6, 10))):
            text = dojoir.to_text(kernel)
            candidates = dojoir.candidates(kernel)
            if len(text) > TOO_LONG or not candidates:
                break
            yield f"{number}:{step}", text
            asked = random.sample(candidates, min(12, len(candidates)))
            legal = [move for move in asked if dojoir.check(kernel, move)]
            if not legal:
                break
            kernel = dojoir.parse(dojoir.to_text(dojoir.apply(kernel, random.choice(legal))))


def to_schedule(drawn: int, seed: int) -> Iterator[tuple[str, str]]:
    yield from ((name, dojoir.to_text(kernel)) for name, kernel in written("practice").items())


HEAD = "kernel of_{t}(N)\nfp {fp}\nin  a: {t}[N, 40]\nin  b: {t}[N, 40]\nin  c: {t}[N, 40]\n"
WAYS = {
    "plain": ("", "reassoc", "", ""),
    "lanes": ("c", "reassoc", "", ": v"),
    "fast": ("c", "fast", "", ": v"),
    "rows": ("c", "reassoc", ": v", ""),
    "threads": ("cuda", "reassoc", ": gx", ": bx"),
}
"""A target that kernels with all operations are for, their mode, the marks of the outer scope and the inner one."""


def operations() -> Iterator[tuple[str, Kernel]]:
    """For each type, kernels with all its operations and conversions, and with all its sums, in several ways."""
    for t in DTYPES:
        given = "a[{0}, {1}]", "b[{0}, {1}]", "c[{0}, {1}]"
        values = [("y[{0}, {1}] =", r, f"{r}({given[0]})") for r in DTYPES]
        for op in OPERATIONS.values():
            result = "bool" if op.kind in (Class.COMPARISON, Class.LOGICAL) else t
            values.append(("y[{0}, {1}] =", result, called(op, *given)))
        sums = [("s[{0}] " + op, r, given[0]) for op in ("+=", "*=", "max=", "min=") for r in (t, "f32")]
        values = [value for value in values if list(proved("", of_type(t, [value])))]
        sums = [value for value in sums if list(proved("", of_type(t, [value])))]
        for way, (target, *marks) in WAYS.items():
            for n in range(0, len(values), 12):
                yield f"{target}@operations.{t}.{way}.{n}", dojoir.parse(of_type(t, values[n : n + 12], *marks))
            yield f"{target}@sums.{t}.{way}", dojoir.parse(of_type(t, sums, *marks))


def of_type(
    t: str, values: list[tuple[str, str, str]], fp: str = "reassoc", outer: str = "", inner: str = ""
) -> str:
    """A text that assigns or sums each of the values, of another type perhaps, in a nest of its own."""
    head, body = HEAD.format(t=t, fp=fp), ""
    for n, (target, r, value) in enumerate(values):
        head += f"out {target[0]}{n}: {r}[N{', 40' * (target[0] == 'y')}]\n"
        body += f"N{outer}\n" + f"| s{n}[{{0}}] = 0\n" * (target[0] == "s")
        body += f"| 40{inner}\n| | {target[0]}{n}{target[1:]} {value}\n"
    return f"{head}\n{body}"


def called(op: Operation, *given: str) -> str:
    """An operation as a text, of as many operands as it takes."""
    if op.kind in (Class.SELECT, Class.WHEN):
        return f"select({given[0]} < {given[1]}, {given[1]}, {given[2]})"
    if op.symbol is None:
        return f"{op.name}({', '.join(given[: op.arity])})"
    return f"{given[0]} {op.symbol} {given[1]}" if op.arity == 2 else f"{op.symbol} {given[0]}"


def proved(name: str, text: str) -> Iterator[tuple[str, Kernel]]:
    """The kernel of a text, if it is one."""
    try:
        kernel = dojoir.parse(text)
        dojoir.prove(kernel)
    except dojoir.DojoError:
        return
    yield name, kernel


def to_emit(drawn: int, seed: int) -> Iterator[tuple[str, str | Callable[[], str]]]:
    """Names and texts, or what makes them; a target before the `@` of a name says for which machine it is."""

    def by_rule(kernel: Kernel, target: str) -> str:
        schedule = dojoir.PASSES["default_schedule"].for_machine(dojoir.machine_for(target))
        return dojoir.to_text(schedule.on(kernel).kernel)

    plain = written()
    for path in sorted(ROOT.glob("benchmarks/**/*.dojo")) + sorted(ROOT.glob("examples/**/*.dojo")):
        plain |= dict(proved(f"{path.parent.name}.{path.stem}", path.read_text(encoding="utf-8")))
    for name, kernel in plain.items():
        yield name, dojoir.to_text(kernel)
        for target in ("avx512", "neon", "cuda"):
            yield f"{target}@{name}", partial(by_rule, kernel, target)
    for name in dojoir.kernels.names():
        for schedule in own_schedules(name):
            kernel = plain[name].with_fp(schedule.fp) if schedule.fp else plain[name]
            with suppress(dojoir.DojoError):  # it is for fixed sizes
                yield f"stored.{schedule.path}", dojoir.to_text(schedule.on(kernel).kernel)
    for file in sorted((TESTS / "codegen").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Constant(str(text)) if text.lstrip().startswith("kernel ") and "\n" in text:
                    for name, kernel in proved(f"test.{file.stem}.{node.lineno}", text):
                        yield name, dojoir.to_text(kernel)
    for n in range(drawn):
        kernel = runnable_kernel(Random(f"{seed} {n}"), converts=n % 4 == 1, small=n % 2 == 0)
        yield f"random {n}", dojoir.to_text(kernel)
    for name, kernel in operations():
        yield name, dojoir.to_text(kernel)


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


# -- questions -----------------------------------------------------------------------------------------------
def of_moves(name: str, text: str) -> Answers:
    kernel = dojoir.parse(text)
    rng = Random(name)
    for kind in MOVES:
        own = Random(f"{name} {kind.name}")
        listed = list(kind.candidates(kernel))
        yield f"{kind.name} candidates", " ".join(map(str, listed))
        moves = own.sample(listed, min(8, len(listed)))
        for place, space in spaces(kind, kernel, own):
            yield f"{kind.name} {place}", " ".join(map(str, space))
            moves += own.sample(space, min(2, len(space)))
        for move in dict.fromkeys(moves):
            yield str(move), said(move, kernel)
            if rng.random() < 0.3:
                for other in wrong(move, kernel, own):
                    yield f"{kind.name} wrong: {other}", said(other, kernel)


def of_verdicts(name: str, text: str) -> Answers:
    kernel = dojoir.parse(text)
    listed = [str(move) for move in dojoir.candidates(kernel)]
    for kind in MOVES:
        mine = sorted(move for move in listed if move.partition("(")[0] == kind.name)
        yield f"{kind.name} candidates", " ".join(mine)
    for move in Random(text).sample(sorted(listed), min(12, len(listed))):
        verdict = dojoir.check(kernel, move)
        yield move, f"{verdict.status} {verdict.code}"


def of_schedules(name: str, text: str) -> Answers:
    for target in SCHEDULED:
        schedule = dojoir.PASSES["default_schedule"].for_machine(dojoir.machine_for(target))
        yield target, "\n".join(map(str, schedule.on(dojoir.parse(text)).moves))


def of_texts(name: str, text: str) -> Answers:
    kernel = dojoir.parse(text)
    made_for = name.partition("@")[0] if "@" in name else ""
    for target in (*CPUS, *GPUS):
        if not made_for or (target in GPUS) == (made_for in GPUS):
            try:
                yield target, dojoir.emit(kernel, target)
            except dojoir.DojoError as error:
                yield target, f"{type(error).__name__}: {error}"


Subjects = Callable[[int, int], Iterator[tuple[str, str | Callable[[], str]]]]
KINDS: dict[str, tuple[Subjects, Callable[[str, str], Answers]]] = {
    "moves": (texts, of_moves), "verdicts": (states, of_verdicts), "schedules": (to_schedule, of_schedules),
    "texts": (to_emit, of_texts),
}  # fmt: skip


def answers(kind: str, name: str, text: str) -> dict[str, tuple[str, str]]:
    """Each question with the hash of its answer, and the answer. One that is not decided has no hash."""
    found = {}
    for key, answer in KINDS[kind][1](name, text):
        found[key] = ("" if answer.startswith("unknown") else sha256(answer.encode()).hexdigest()[:12], answer)
    return found


def families() -> dict[str, str]:
    """What each family of moves is: its name, text, arguments, reach, targets."""
    return {k.name: f"{k.__name__} {k.__doc__} {k.parameters()} {k.reach} {sorted(k.targets or ())}" for k in MOVES}


# -- the script ----------------------------------------------------------------------------------------------
def record(kind: str, file: Path, given: Iterable[tuple[str, str | Callable[[], str]]]) -> None:
    seconds = 0.0
    with file.open("w", encoding="utf-8") as out:
        out.write(json.dumps(families()) + "\n")
        for name, made in given:
            text = made if isinstance(made, str) else made()
            start = process_time()
            found = {key: code for key, (code, _) in answers(kind, name, text).items()}
            seconds += process_time() - start
            out.write(json.dumps([name, text, found]) + "\n")
    print(f"{seconds:.1f} CPU seconds")


def compare(kind: str, file: Path, part: int, parts: int) -> int:
    with file.open(encoding="utf-8") as lines:
        before, mine = json.loads(next(lines)), families()
        alone = before.keys() ^ mine.keys()
        other = [name for name in before.keys() & mine.keys() if before[name] != mine[name]]
        seconds, count, differ = 0.0, 0, len(other) if kind == "moves" else 0
        print(f"families of one alone: {sorted(alone)}; that differ: {sorted(other)}")
        for line in islice(lines, part, None, parts):
            name, text, was = json.loads(line)
            start = process_time()
            now = answers(kind, name, text)
            seconds += process_time() - start
            for key in dict.fromkeys([*was, *now]):
                code, answer = now.get(key, (None, "is no more"))
                if key.partition("(")[0].partition(" ")[0] in alone or "" in (code, was.get(key)):
                    continue
                count += 1
                if code != was.get(key):
                    differ += 1
                    if differ < 40:
                        print(f"-- {name}: {key}\n{answer[:1500]}\n{text}", flush=True)
    print(f"{count} answers, {differ} differ, {seconds:.1f} CPU seconds")
    return int(differ > 0)


def main() -> int:
    parser = ArgumentParser(description="What two checkouts say, held against each other.")
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("kind", choices=[*KINDS])
    parser.add_argument("file", type=Path)
    parser.add_argument("--drawn", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", type=int, default=0, help="which of --parts parts of the kernels")
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--also", type=Path, help="a folder of further texts")
    given = parser.parse_args()
    if given.what == "compare":
        return compare(given.kind, given.file, given.part, given.parts)
    files = sorted(given.also.glob("*.dojo")) if given.also else []
    others = ((file.stem, file.read_text(encoding="utf-8")) for file in files)
    subjects = KINDS[given.kind][0](given.drawn, given.seed)
    record(given.kind, given.file, islice(chain(subjects, others), given.part, None, given.parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
