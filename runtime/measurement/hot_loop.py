"""The loops of machine code, and which of them a kernel spends its time in. Only the code of x86 is read.

Where a loop is in lanes, a compiler leaves another one for the elements that do not fill them: it has as many
instructions, or more, and runs a few times. So of loops that compute the same, the one counts of which an
iteration computes most elements, in the deepest nest. Of those that compute different things, the one that
takes longest for an element."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from dojoir.support.frozen import dataclass

_LABEL = re.compile(r"^([.\w$]+):")
_FUNCTION = re.compile(r"^[A-Za-z_$][\w$.]*:")
_JUMP = re.compile(r"^\s+j\w+\s+([.\w$]+)\s*(?:#.*)?$")
_STACK = re.compile(r"-?\w*\(%(?:rsp|rbp)\)")
_VECTOR = re.compile(r"%([xyz])mm(\d+)")
_MASKED = re.compile(r"\{%k\d\}")
_SUM = re.compile(r"^v?(?:add[sp][sdh]|fn?m(?:add|sub)\d+[sp][sdh]|padd[bwdq]|pdp\w+)$")
_FLOAT = re.compile(
    r"^v?(?:add|sub|mul|div|sqrt|max|min|cmp\w*|ucomi|comi|rsqrt\d*|rcp\d*|range|scalef|fn?m(?:add|sub)\d+)[sp][sdh]$"
)
_WHOLE = re.compile(r"^v?(?:pdp\w+|pmadd\w+|pmul[lh]\w+|pmuludq|pmuldq)$")
_INTEGER = re.compile(r"^v?p(?:add|sub|max|min|and|or|xor|cmp|abs|s[lr]l|sra)\w*$")
_GATHER = re.compile(r"^v?(?:p?gather\w+|pinsr\w|insertps)$")
_SHUFFLE = re.compile(
    r"^v?(?:p?(?:shuf|perm|unpck|blend|broadcast|alignr)\w*|(?:insert|extract)[fi]\w*|movs[lh]dup)$"
)
_CONVERT = re.compile(r"^v?(?:p?cvt|pmov[sz]x)\w*$")
_BRANCH = re.compile(r"^(?:j\w+|call\w*|ret\w*|loop)$")

WIDTHS = {"x": 16, "y": 32, "z": 64}
"""The bytes of a vector register, by its letter."""

ELEMENTS = {"s": 4, "d": 8, "h": 2, "b": 1, "w": 2, "q": 8}
"""The bytes of an element, by the last letter of an instruction."""

DEEPER = 8
"""How many times as often a loop runs as the one around it, at least."""

LATENCY, UNITS, WIDTH = 4, 2, 4
"""The cycles of an addition, how many go at a time, and how many instructions of any kind do."""


class MachineInstruction(tuple[str, str]):
    """Its name and its operands, the destination last."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return self[0]

    @property
    def operands(self) -> str:
        return self[1]

    @property
    def on_stack(self) -> bool:
        return bool(_STACK.search(self.operands))

    @property
    def computes(self) -> bool:
        """Whether it computes on floats, or multiplies integers."""
        return bool(_FLOAT.match(self.name) or _WHOLE.match(self.name))

    @property
    def kind(self) -> str:
        """One of KINDS."""
        name = self.name
        tests = (("branches", _BRANCH), ("gathers", _GATHER), ("floats", _FLOAT), ("integers", _WHOLE))
        found = next((kind for kind, form in tests if form.match(name)), None)
        if found is not None:
            return found
        if self.on_stack:
            return "stack"
        more = (("conversions", _CONVERT), ("shuffles", _SHUFFLE), ("integers", _INTEGER))
        found = next((kind for kind, form in more if form.match(name) and _VECTOR.search(self.operands)), None)
        if found is not None:
            return found
        if _VECTOR.search(self.operands) and "mov" in name and "(" in self.operands:
            return "stores" if self.operands.rstrip().endswith(")") else "loads"
        return "addresses" if not _VECTOR.search(self.operands) else "moves"

    @property
    def bytes(self) -> int:
        """The bytes of the widest register that it works on; of what works on one element only, of that."""
        found = max((WIDTHS[letter] for letter, _ in _VECTOR.findall(self.operands)), default=0)
        scalar = re.search(r"s([sdh])$", self.name)
        whole = ELEMENTS[scalar[1]] if scalar and _FLOAT.match(self.name) else found
        return whole // 2 if _MASKED.search(self.operands) else whole

    @property
    def elements(self) -> int:
        """How many elements it computes at a time; of one that lanes are taken off, about half of them."""
        last = ELEMENTS.get(self.name[-1:], 4)
        return max(1, self.bytes // last) if self.computes else 0


KINDS = ("floats", "integers", "loads", "stores", "stack", "gathers", "shuffles", "conversions", "moves",
         "addresses", "branches")  # fmt: skip
"""The kinds of instructions. `stack` is what goes to the stack and computes nothing; `addresses` has all that
computes where elements are, and how often."""


@dataclass(frozen=True)
class MachineLoop:
    """The instructions of an innermost loop, of which function it is, and how many others are around it."""

    code: tuple[MachineInstruction, ...]
    function: str = ""
    depth: int = 0

    def share(self, *kinds: str) -> float:
        """The share of instructions of some kinds."""
        return sum(one.kind in kinds for one in self.code) / max(1, len(self.code))

    @cached_property
    def kinds(self) -> dict[str, int]:
        """How many instructions of each kind it has, of those that it has."""
        found = [one.kind for one in self.code]
        return {kind: found.count(kind) for kind in KINDS if kind in found}

    @property
    def work(self) -> int:
        """How many instructions compute on floats or multiply integers: a loop that packs what another one
        multiplies has none."""
        return sum(one.computes for one in self.code)

    @property
    def elements(self) -> int:
        """How many elements one iteration computes."""
        return sum(one.elements for one in self.code)

    @property
    def lanes(self) -> int:
        """How many elements its widest instruction computes at a time."""
        return max((one.elements for one in self.code), default=0)

    @property
    def bytes(self) -> int:
        """The bytes that its loads and stores move in an iteration."""
        return sum(one.bytes for one in self.code if "(" in one.operands and not one.on_stack)

    @property
    def on_stack(self) -> float:
        """The share of those that touch the stack."""
        return sum(one.on_stack for one in self.code) / max(1, len(self.code))

    @cached_property
    def chains(self) -> tuple[int, ...]:
        """The sums that the next iteration adds to again: of each how often this one adds, one after the other. A
        register is one of them only if it is read before anything is written to it."""
        written: set[str] = set()
        carried: dict[str, int] = {}
        for one in self.code:
            registers = [number for _, number in _VECTOR.findall(one.operands)]
            last = one.operands.rpartition(",")[2]
            target = _VECTOR.search(last)
            into = target[2] if target is not None and "(" not in last else None
            merges = "fm" in one.name or "pdp" in one.name or not one.name.startswith("v")
            reads = registers if into is None else registers[:-1] + [into] * merges
            if into is not None and into in reads and into not in written and _SUM.match(one.name):
                carried[into] = carried.get(into, 0) + 1
            elif into is not None:
                written.add(into)
                carried.pop(into, None)
        return tuple(carried.values())

    @property
    def sums(self) -> int:
        """How many chains there are side by side."""
        return len(self.chains)

    @property
    def busy(self) -> float:
        """About the cycles of an iteration none of whose instructions waits for another one."""
        return max(len(self.code) / WIDTH, self.work / UNITS)

    @property
    def waiting(self) -> int:
        """The cycles that its longest chain takes."""
        return LATENCY * max(self.chains, default=0)

    @property
    def waits(self) -> bool:
        """Whether an iteration takes longer for its longest chain than for all its instructions."""
        return self.waiting > self.busy

    @property
    def does(self) -> frozenset[str]:
        """The stems of its computing instructions, whatever the number of lanes."""
        return frozenset(_stem(one.name) for one in self.code if one.computes)

    @property
    def amount(self) -> float:
        """How many elements an iteration computes; of one that computes nothing, how many of 4 bytes it moves."""
        return self.elements or self.bytes / 4

    @property
    def cycles(self) -> float:
        """About the cycles for an element, as many times as it is run more often than the outermost loops."""
        return max(self.busy, self.waiting) / self.amount * DEEPER**self.depth if self.amount else 0.0


def _stem(name: str) -> str:
    stem = name.removeprefix("v")
    if re.match(r"cmp|u?comi|max|min", stem):
        return "compare"
    return "fma" if re.match(r"fn?m", stem) else stem[:-2] if _FLOAT.match(name) else stem


def hottest(asm: str) -> MachineLoop | None:
    """The loop that a kernel spends its time in, as far as its code says. None where there is none."""
    main: dict[frozenset[str], MachineLoop] = {}
    for loop in innermost(asm):
        if not loop.code:
            continue
        alike = next((known for known in main if _alike(known, loop.does)), loop.does)
        best = main.setdefault(alike, loop)
        if loop.amount * DEEPER**loop.depth > best.amount * DEEPER**best.depth:
            main[alike] = loop
    working = [loop for loop in main.values() if loop.work] or [*main.values()]
    return max(working, key=lambda loop: loop.cycles, default=None)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return one == other or 4 * len(one & other) >= 3 * len(one | other)


def innermost(asm: str) -> Iterator[MachineLoop]:
    """The loops without another inside: from a label to a jump back to it."""
    lines = asm.splitlines()
    at = {match[1]: n for n, line in enumerate(lines) if (match := _LABEL.match(line))}
    starts = [(n, line[: line.index(":")]) for n, line in enumerate(lines) if _FUNCTION.match(line)]
    jumps = [(at[match[1]], n) for n, line in enumerate(lines) if (match := _JUMP.match(line)) and match[1] in at]
    back = [(start, end) for start, end in jumps if start < end and not _leaves(lines[start : end + 1])]
    for start, end in dict.fromkeys(back):
        if any((a, b) != (start, end) and start <= a and b <= end for a, b in back):
            continue
        around = {a for a, b in back if a < start and b >= end}
        function = next((name for n, name in reversed(starts) if n <= start), "")
        yield MachineLoop(tuple(instructions(lines[start : end + 1])), function, len(around))


def _leaves(lines: Sequence[str]) -> bool:
    """Whether some lines end a function: a jump back over that is no loop."""
    return any(name.startswith("ret") for name, _ in instructions(lines))


def instructions(lines: Sequence[str]) -> Iterator[MachineInstruction]:
    """Those of some lines, without labels, directives and comments."""
    for line in lines:
        text = line.partition("#")[0]
        words = text.split(None, 1)
        if text[:1].isspace() and words and not words[0].startswith("."):
            yield MachineInstruction((words[0], words[1].strip() if len(words) > 1 else ""))
