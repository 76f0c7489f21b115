"""Random statements that run past the end of a sum or a result, the interpreter as judge of those that may.

A kernel fills temporaries, with zeros or something else beside what is real, works on them under guards, and reads
some of what came out. Each guard is taken away by `compute_padding`. Where that is called legal, the kernel after
must give the same values on data with infinities and NaN, end in no error where the one before ends in none, touch
no element of an `inout` that was left alone, and have no race in its marked scopes. Where it is called illegal, no
more than a share may be right after all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
from agreement import random_arguments
from races import TooLong, race, run

import dojoir
from dojoir.ir.nodes import Guard, Kernel
from dojoir.meaning.bits import to_floats
from dojoir.proof.check import prove_by_core

TYPES = (
    ("f32", "f32"), ("f32", "f32"), ("f16", "f32"), ("bf16", "bf16"), ("f8e4m3", "f32"), ("f8e8m0", "f32"),
    ("f4e2m1", "f32"), ("f64", "f16"), ("i32", "i32"), ("i8", "i8"), ("u8", "u8"), ("i64", "i64"),
)  # fmt: skip
"""The types of what is multiplied and of what it is added to."""
SIZES = (1, 2, 3, 5)
STEPS = 3_000_000


class Maker:
    """Draws the text of a kernel."""

    def __init__(self, random: Random) -> None:
        self.random, self.choice = random, random.choice
        self.narrow, self.wide = self.choice(TYPES)
        self.is_float = self.narrow[0] == "f" or self.narrow[0] == "b"
        self.turns = random.random() < 0.35
        self.own = random.random() < 0.3  # sums of two dimensions, one of them without storage
        self.room = {name: self.choice((4,) * 8 + (3, 1)) for name in "tv"}  # how far some arrays go beyond N

    def number(self) -> str:
        special = ("inf", "-0.0", "0.0", "nan") if self.is_float and self.narrow not in ("f4e2m1", "f8e8m0") else ()
        return self.choice(("0", "0", "0", "0", "0", "0", "2", *special[: self.random.randint(0, 4)]))

    def filled(self, name: str) -> Iterator[str]:
        """What is real of an operand, and what lies beside it."""
        beside, room = f"{name}[{{i}}] = {self.number()}", self.room.get(name, 4)
        match self.random.randrange(8):
            case 0 | 1 | 2:  # two ranges
                parts = [
                    ["N @i", f"| {name}[{{i}}] = x[{{i}}]"],
                    [f"{room} @i", f"| {name}[N + {{i}}] = {self.number()}"],
                ]
                self.random.shuffle(parts)
                yield from (line for part in parts for line in part)
            case 3 | 4 | 5:  # a tile: under two guards
                yield from (f"N + {room} @i", "| if {i} < N", f"| | {name}[{{i}}] = x[{{i}}]")
                yield from (f"| if {{i}} >= {self.choice(('N', 'N', 'N', 'N + 1', 'N - 1'))}", f"| | {beside}")
            case 6:  # all of it, then what is real
                yield from (f"N + {room} @i", f"| {beside}", "N @i", f"| {name}[{{i}}] = x[{{i}}]")
            case _:  # by way of another
                yield from (f"N + {min(room, 3)} @i", f"| {name}[{{i}}] = {self.choice('tw')}[{{i}}]")

    def index(self) -> str:
        return self.choice(("{k}",) * 12 + ("{k} // 2", "0", "N + 3 - {k}", "N"))

    def operand(self) -> str:
        return f"{self.choice(('t', 't', 'w', 'w', 'v'))}[{self.index()}]"

    def converted(self, element: str) -> str:
        """An element, now and then as another type, or its bits."""
        if self.random.random() < 0.7:
            return element
        way = self.choice(("{}({})", "{}({})", "{}({})", "sat({}, {})", "bitcast({}, {})"))
        return way.format(self.choice((self.wide, self.wide, self.narrow, "f32", "i32", "f8e8m0")), element)

    def value(self) -> str:
        one, other = (self.converted(f"{name}[{self.index()}]") for name in "tw")
        kinds = [f"{one} * {other}"] * 8 + [one, f"{self.operand()} * {self.operand()}", "2", f"{one} + {other}"]
        if not self.is_float:
            kinds += [f"{one} // {other}", f"{one} % {other}"]
        else:
            kinds += [f"exp({one})"]
        value = self.choice(kinds)
        return f"{value} if z[{{k}}] > 1" if self.random.random() < 0.05 else value

    def sum_(self) -> str:
        return "r[0, {k}]" if self.own else "r[0]"

    def statement(self) -> str:
        chance = self.random.random
        plain = "v", "v", "v", "o", "u", "t"
        target = self.sum_() if chance() < 0.55 else f"{self.choice(plain)}[{self.index()}]"
        if chance() < 0.04:
            target = "v[z[{k}]]"
        op = "+=" if chance() < 0.75 else self.choice(("=", "=", "*=", "max=", "min="))
        if self.narrow in ("f4e2m1",) and target[0] == "t":
            op = "="
        if self.is_float and op == "+=" and chance() < 0.1 and "z" not in target:
            return f"{target} = fma(t[{{k}}], w[{{k}}], {target})"
        return f"{target} {op} {self.value()}"

    def guard(self) -> str:
        bound = self.choice(("N",) * 8 + ("N - 1", "N + 1", "N + 3"))
        return self.choice(
            (f"{{k}} < {bound}",) * 8 + ("{k} >= 2", "{k} % 2 == 0", f"{{k}} < {bound} and {{k}} >= 1")
        )

    def worked(self) -> Iterator[str]:
        mark = self.choice(("",) * 6 + (" : p", " : v"))
        yield f"{self.choice(('N + 4', 'N + 4', 'N + 4', 'N + 3', 'N + 2'))}{mark} @k"
        if self.own:
            yield "| r[0, {k}] = 0"
        yield f"| if {self.guard()}"
        yield from (f"| | {self.statement()}" for _ in range(self.choice((1, 1, 1, 2))))
        if self.own:
            yield "| v[{k}] = r[0, {k}]"
        if self.random.random() < 0.15:
            yield f"| {self.statement()}"

    def text(self) -> str:
        choice = self.choice
        shapes = {"t": f"N + {self.room['t']}", "v": f"N + {self.room['v']}", "r": "1, N + 4~" if self.own else "1"}
        head = ["kernel padded(N)", *choice(((),) * 4 + (("fp strict",), ("fp fast",)))]
        head += [f"in x: {self.narrow}[N + 4]", "in z: i64[N + 4]", f"inout u: {self.wide}[N + 4]"]
        head += [f"out {name}: {self.wide}[N + {more}]" for name, more in (("o", 4), ("y", 2), ("s", 2))]
        head += [f"tmp {name}: {self.narrow}[{shapes.get(name, 'N + 4')}]" for name in "tw"]
        head += [f"tmp {name}: {self.wide}[{shapes[name]}]" for name in "vr"]
        begun = [
            "N + 4 @i",
            f"| o[{{i}}] = {choice('01')}",
            f"N + {self.room['v']} @i",
            f"| v[{{i}}] = {choice('011')}",
        ]
        begun += ["N + 2 @i", "| y[{i}] = 1", "| s[{i}] = 1"]
        zero = [] if self.own else [f"r[0] = {choice(('0', '0', '0', 'x[0]'))}"]
        sums = ["t", "w"]
        self.random.shuffle(sums)
        lines = [line for name in sums for line in self.filled(name)]
        work = list(self.worked())
        end = f"{choice(('N', 'N', 'N', 'N + 1', 'N - 1', 'N + 2'))} @i"
        read = [end, "| y[{i}] = v[{i}]", *([] if self.own else ["s[0] = r[0]"])]
        if self.random.random() < 0.1:
            read += [end, "| u[{i}] += v[{i}]"]
        if not self.turns:
            return "\n".join([*head, "", *begun, *zero, *lines, *work, *read, ""])
        inside = [*choice(((zero, lines, work, read), (lines, work, read), (lines, zero, work), (lines, work)))]
        first = [] if zero in inside else zero
        turn = [line for part in inside for line in part]
        if self.random.random() < 0.4:  # zeros in one turn alone
            turn = [line.replace("N + 4 @i", "N + 4 - 2*{m} @i", 1) for line in turn]
        after = [] if read in inside else read
        return "\n".join([*head, "", *begun, *first, "2 @m", *(f"| {line}" for line in turn), *after, ""])


def _given(kernel: Kernel, size: int, seed: int) -> dict[str, Any]:
    return random_arguments(kernel, {"N": size}, Random(f"{size} {seed}"), special=seed % 2 == 1)


def _ended(kernel: Kernel, size: int, given: dict[str, Any]) -> dict[str, Any] | None:
    """What a run gives, as numbers, or None for an error."""
    try:
        with np.errstate(all="ignore"):
            found = dojoir.interpret(kernel, given, N=size)
    except dojoir.DojoError:
        return None
    types = {buffer.name: buffer.dtype for buffer in kernel.buffers}
    return {n: to_floats(a, types[n]) if types[n].is_float else a for n, a in found.items()}


def judged(before: Kernel, after: Kernel) -> str | None:
    """What the new kernel does that the old one does not, or None."""
    for size in SIZES:
        for seed in range(3):
            given = _given(before, size, seed)
            was, now = (_ended(kernel, size, given) for kernel in (before, after))
            if was is not None and now is None:
                return f"at N = {size}: an error"
            if (
                was
                and now
                and not all(np.array_equal(was[n], now[n], equal_nan=was[n].dtype.kind == "f") for n in was)
            ):
                return f"at N = {size}: another result"
            with suppress(TooLong):
                found = race(after, {"N": size}, given)
                if found is not None:
                    return f"at N = {size}: {found}"
        (wrote, touched), (writes, touches) = (_touched(kernel, size) for kernel in (before, after))
        if not (writes <= wrote and touches <= touched):
            return f"at N = {size}: touches {sorted((writes - wrote) | (touches - touched))}"
    return None


def _touched(kernel: Kernel, size: int) -> tuple[set[object], set[object]]:
    """The elements of `u` that may be written, and those that may be touched."""
    touches = run(kernel, {"N": size})
    written: set[object] = {at for _, _, (name, at), _ in touches if name == "u"}
    return written, written | {at for *_, reads in touches for name, at in reads if name == "u"}


def examine(random: Random, counts: Counter[str]) -> list[tuple[str, str]]:
    """The guards of one random kernel: what is wrong with the verdicts on taking them away, and the texts."""
    text, found = Maker(random).text(), []
    try:
        kernel = dojoir.parse(text)
        dojoir.prove(kernel)
    except dojoir.DojoError:
        counts["not well-formed before"] += 1
        return []
    for path, node in kernel.walk():
        if not isinstance(node, Guard):
            continue
        move = dojoir.parse_move(f"compute_padding({'.'.join(map(str, path))})")
        verdict, done = dojoir.check(kernel, move), move.rewrite(kernel)
        alone = prove_by_core(kernel, done.kernel, done.instances, STEPS)
        if verdict.status == "unknown" or alone.status == "unknown":
            counts["undecided"] += 1
            continue
        wrong = judged(kernel, done.kernel)
        counts[f"{verdict.status}, {'right' if wrong is None else 'wrong'}"] += 1
        if (verdict and wrong) or bool(verdict) != bool(alone):
            found.append((f"{verdict.status}, by the core {alone.status}, but {wrong}: {move}", text))
        elif verdict and move.inverse(kernel) is not None and not dojoir.check(done.kernel, move.inverse(kernel)):
            found.append((f"not taken back: {move}", text))
    return found
