"""Small kernels that have wanted features, such as a mark beside a storage, drawn until the language allows one.

`aimed({"mark": "v", "type": "f16"}, random)` chooses the features that are left open at random. A kernel is a row
of rows: `y[{0}, …] op= x[{0}, …]` in two scopes, perhaps by way of a temporary that each row has for itself. What
is refused, by the proof or by the target, is drawn again with other features; the codes of the refusals are kept,
since they say why a pair is impossible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
from agreement import random_arguments
from drawing import draw
from drawing.single import run_once
from features import AXES, CPUS, GPUS, features
from numpy.typing import NDArray

import dojoir
from dojoir.codegen.emission import lower
from dojoir.ir.buffer_rules import declaration_error
from dojoir.ir.dtypes import DTYPES, DType
from dojoir.ir.expressions import Op, parts
from dojoir.ir.nodes import Kernel
from dojoir.ir.operations import CONVERSIONS, OF_KEYS
from dojoir.meaning.bits import from_floats

Features = Mapping[str, str]
INDEX = {
    "0": "3", "1": "{1}", "constant": "2*{1} + 1", "reversed": "7 - {1}", "other": "14 - 2*{1}",
    "gather": "ids[{1}]", "computed": "(2*ids[{1}] + {0}) % 8", "scatter": "ids[{1}]", "distinct": "at[{1}]",
    "last": "ids[{1}]",
}  # fmt: skip
"""An index of 16 columns whose innermost iterator has a stride."""
WITHIN = {**INDEX, "constant": "2*({1} % 4)", "other": "{1} // 2"}
"""The same for 8 columns."""


@dataclass(frozen=True)
class Drawn:
    """A kernel, the target that runs it and the threads of a call: 5 stands for more than two."""

    kernel: Kernel
    target: str
    threads: int


def plain(random: Random) -> Drawn:
    """What the other generators draw, for one of the targets that take any mark that they have."""
    kernel = draw("runnable", random, exact=random.random() < 0.5, small=random.random() < 0.7, strided=True)
    return Drawn(kernel, random.choice(CPUS), random.choice((1, 2, 5)))


def aimed(wanted: Features, random: Random, refused: Counter[str], tries: int = 60) -> Drawn | None:
    """A kernel with the wanted features, or None where all that was tried is refused: `refused` says how."""
    for _ in range(tries):
        chosen = {axis: random.choice(values) for axis, values in AXES.items()} | dict(wanted)
        if "type" not in wanted:
            chosen["type"] = random.choice(_types(chosen["operator"]))
        if "operator" not in wanted:
            chosen["operator"] = random.choice(
                [op for op in AXES["operator"] if chosen["type"] in _types(op)] or ["="]
            )
        threads = {"1": 1, "2": 2, "more": 5}[chosen["threads"]]
        try:
            if chosen["single"] == "yes":  # the mark is that of the scope that runs once
                kernel = dojoir.parse(_text({**chosen, "mark": "none"}, random))
                kernel = run_once(kernel, random, (chosen["mark"],))
            else:
                kernel = dojoir.parse(_text(chosen, random))
            kernel = _laid_out(kernel, chosen["attribute"], random)
            dojoir.prove(kernel)
            lower(kernel, chosen["target"])
        except dojoir.DojoError as error:
            refused[error.diagnostic.code] += 1
            continue
        target = chosen["target"]
        if any(set(wanted.items()) <= features(kernel, site, target, threads) for site in kernel.sites):
            return Drawn(kernel, target, threads)
    return None


def _laid_out(kernel: Kernel, word: str, random: Random) -> Kernel:
    """The kernel with a word after the type of one of its buffers, where that is allowed."""
    made = []
    for buffer in kernel.buffers:
        match word:
            case "align" if buffer.role == "tmp":
                made.append(replace(buffer, align=64))
            case "stream":
                made.append(replace(buffer, stream=64))
            case "strided":
                made.append(replace(buffer, strided=True))
    allowed = [buffer for buffer in made if declaration_error(buffer) is None]
    if not allowed:
        return kernel
    new = random.choice(allowed)
    return replace(kernel, buffers=tuple(new if old.name == new.name else old for old in kernel.buffers))


def _types(operator: str) -> list[str]:
    kinds = {"=": "fiub", "fused": "f", "^=": "iub", "&=": "iub", "|=": "iub"}.get(operator, "fiu")
    return [name for name, dtype in DTYPES.items() if dtype.kind in kinds]


LENGTHS = (
    "{1} < i64(ids[{0} % 8])",
    "{1} < i64(ids[3])",
    "{1} < i64(ids[4] - ids[1])",
    "{1} < i64(ids[{0} % 8]) and ids[3] != 1",
)
"""Conditions of scopes that end where data say."""


def _text(chosen: Features, random: Random) -> str:
    """The text of a kernel that has some features, if it is one."""
    if chosen["running"] != "none":
        return _running(chosen, random)
    dtype, storage, stride, mark = (chosen[axis] for axis in ("type", "storage", "stride", "mark"))
    gpu = chosen["target"] in GPUS
    marks = ["none", "none"]
    marks[random.randrange(2)] = mark
    if gpu and mark != "none":  # a grid around, where the mark leaves room for one
        if marks[0] == "none" and random.random() < 0.8:
            marks[0] = random.choice(("gx", "gy", "gz"))
        elif marks[1] == "none" and random.random() < 0.8:
            marks[1] = random.choice(("bx", "by", "lane", "u"))
    rows, columns = "N", "8"
    if marks[0] in ("u", "bx", "by", "bz", "lane"):
        rows = "min(4, N)" if marks[0] != "u" or random.random() < 0.5 else "4"
    if chosen["empty"] == "maybe":
        columns = random.choice(("min(8, N - 1)", "min(8, N - 3)", "min(N // 2, 8)", "0"))
        if marks[1] == "none" and marks[0] != "v":
            columns = random.choice((columns, "min({0}, 8)", "min(N - {0} - 1, 8)"))
    mid = None if storage == "heap" else random.choice(("read", "target"))
    sized = "" if storage == "reg" and random.random() < 0.7 else "8"
    at = f"t[{WITHIN[stride]}]" if sized else "t"
    target, source = f"y[{{0}}, {INDEX[stride]}]", f"x[{{0}}, {INDEX[stride]}]"
    if stride in ("scatter", "distinct", "last") or (
        stride not in ("gather", "computed") and random.random() < 0.5
    ):
        source = f"x[{{0}}, {random.choice(('{1}', '{1} + 8', '0', '15 - {1}'))}]"
    elif stride in ("gather", "computed") or mid == "read" or random.random() < 0.7:
        target = f"y[{{0}}, {random.choice(('0', '{1}', '{1} + 8'))}]"
    lines = []
    if mid == "read":
        lines += ["| 8", "| | t[{1}] = x[{0}, {1}]"] if sized else ["| t = x[{0}, 5]"]
        source = at
    elif mid == "target":
        lines += ["| 8", "| | t[{1}] = y[{0}, {1}]"] if sized else ["| t = y[{0}, 5]"]
        target = at
    op, value = chosen["operator"], _worded(chosen["word"], DTYPES[dtype], source, random)
    if op == "fused":
        op, value = "=", f"fma({value}, x[{{0}}, 2], {target})"
    lines.append("| " + columns + _mark(marks[1]))
    pad = "| | "
    match chosen["guard"]:
        case "sizes":
            lines.append(f"{pad}if {random.choice(('N >= 2', 'N < 5', 'N % 2 == 0'))}")
            pad += "| "
        case "iterators":
            lines.append(f"{pad}if {random.choice(('{1} >= 1', '{0} + {1} < 5', '{0} % 2 == 0', '{1} == 0'))}")
            pad += "| "
    if chosen["guard"] == "data":
        value += " if " + random.choice(
            ("ids[{1} % 8] > 2", "ids[3] != 1 or {1} < 2", "ids[{0} % 8] < 5 and ids[{1}] > 0")
        )
    elif chosen["guard"] == "length":
        value += " if " + random.choice(LENGTHS)
    if stride == "last":
        value, _, condition = value.partition(" if ")
        value += f" if {f'({condition}) and ' if condition else ''}last[ids[{{1}}]] == {{1}}"
    lines.append(f"{pad}{target} {op} {value}")
    if mid == "target":
        lines += ["| 8", "| | y[{0}, {1} + 8] = t[{1}]"] if sized else ["| y[{0}, 9] = t"]
    packed = [" packed" if DTYPES[dtype].bits == 4 and random.random() < 0.4 else "" for _ in range(2)]
    head = ["kernel aimed(N)", f"in x: {dtype}[N, 16]{packed[0]}", "in ids: i32[8]"]
    head += ["in at: i32[8] distinct"] if stride == "distinct" else []
    head.append(f"inout y: {dtype}[N, 16]{packed[1]}")
    if mid is not None:
        head.append(f"tmp t: {dtype}{'[8]' if sized else ''} {storage}")
    found = ["16", "| last[{0}] = -1", "8", "| last[ids[{0}]] max= {0}"] if stride == "last" else []
    head += ["tmp last: i64[16]"] if found else []
    return "\n".join([*head, "", *found, rows + _mark(marks[0]), *lines, ""])


def _running(chosen: Features, random: Random) -> str:
    """The text of a kernel along whose rows a value goes on."""
    dtype, mark, op, stride = (chosen[axis] for axis in ("type", "mark", "operator", "stride"))
    columns = (
        "8" if chosen["empty"] == "never" else random.choice(("min(8, N - 1)", "min({0}, 8)", "min(N // 2, 8)"))
    )
    marks = [mark, "none"] if mark != "u" or random.random() < 0.5 else ["none", "u"]
    rows = "N" if marks[0] not in ("u", "bx", "by", "bz", "lane") else "4" if marks[0] == "u" else "min(4, N)"
    if chosen["target"] in GPUS and marks[0] == "none":
        marks[0] = random.choice(("gx", "gy"))
    if marks[1] == "u":
        columns = "8"
    source = f"x[{{0}}, {INDEX[stride]}]"
    value, lone = _worded(chosen["word"], DTYPES[dtype], source, random), chosen["word"] == "none"
    if chosen["running"] == "linear":
        op, value = "=", f"s * {'x[{0}, 1]' if lone else value} + {value}"
    elif op == "=":
        value = random.choice((f"s + {value}", f"max({value}, s)"))
    elif op == "fused":
        op, value = "=", f"fma({value}, x[{{0}}, 2], s)"
    if chosen["guard"] == "data":
        value += " if " + random.choice(("ids[{1} % 8] > 2", "ids[3] != 1 or {1} < 2"))
    elif chosen["guard"] == "length":
        value += " if " + random.choice(LENGTHS)
    step, pad = [], "| | "
    if chosen["guard"] in ("sizes", "iterators"):
        step.append("| | if " + ("N >= 2" if chosen["guard"] == "sizes" else "{1} >= 1"))
        pad += "| "
    step.append(f"{pad}s {op} {value}")
    give = ["| | y[{0}, {1} + 8] = s"]
    body = [*give, *step] if chosen["running"] == "before" or random.random() < 0.1 else [*step, *give]
    head = ["kernel aimed(N)", f"in x: {dtype}[N, 16]", "in ids: i32[8]", f"inout y: {dtype}[N, 16]"]
    head.append(f"tmp s: {dtype} {chosen['storage']}")
    lines = [rows + _mark(marks[0]), "| s = x[{0}, 5]", f"| {columns}{_mark(marks[1])}", *body]
    return "\n".join([*head, "", *lines, ""])


def _worded(word: str, dtype: DType, source: str, random: Random) -> str:
    """A value of a type that uses a word on a source of it."""
    choice = random.choice
    if word == "none":
        return source
    if dtype.kind == "b":
        inner = DTYPES[choice(("i32", "u8", "f32", "f16") if word in CONVERSIONS else ("i32", "u8", "i64"))]
        return f"{_worded(word, inner, f'{inner.name}({source})', random)} != {choice('01')}"
    if word in ("//", "%"):
        kind = dtype.name if dtype.kind != "f" else choice(("i32", "i64"))
        of = source if kind == dtype.name else f"{kind}({source})"
        value = f"{of} {word} {choice(('1', '3', '8', f'({of} | 1)', '-3' if kind[0] == 'i' else '5'))}"
        return value if kind == dtype.name else f"{dtype.name}({value})"
    if word.endswith("_key") or word in OF_KEYS:
        return _of_key(word, dtype, source, random)
    if word == "bitcast" and dtype.kind == "f":
        code = f"u{max(dtype.bits, 8)}"
        return f"bitcast({dtype.name}, bitcast({code}, {source}))"
    if word == "bitcast":
        like = [
            other for other in DTYPES.values() if other.bits == dtype.bits and other.kind not in ("b", dtype.kind)
        ]
        other = choice([t.name for t in like if dtype.kind == "u" or t.kind == "u"])
        return f"bitcast({dtype.name}, {other}({source}))"
    wide = choice(("f32", "f64", "i32"))
    if dtype.name in ("f32", "f64"):
        return f"{dtype.name}({word}({choice(('f16', 'bf16', 'f8e4m3', 'i8'))}, {source}))"
    return f"{word}({dtype.name}, {wide}({source}){choice(('', ' * 2', ' * 3'))})"


def _of_key(word: str, dtype: DType, source: str, random: Random) -> str:
    """The key of a pair with a source, or a part of one, as a small number of a type."""
    kind = "f32" if dtype.kind == "f" else random.choice(("i32", "u16", "i8"))
    name = random.choice(("argmax", "argmin")) if word == "value_of" else word[:6]
    key = f"{name}_key({kind}({source}), {random.choice(('{1}', '3', '-{1}', 'ids[3]'))})"
    match word:
        case "value_of":
            return f"{dtype.name}(value_of({kind}, {key}))"
        case "argmax_of" | "argmin_of":
            return f"{dtype.name}({word}({random.choice(('i8', 'i32', 'i64', 'u16'))}, {key}))"
    return key if dtype.name == "i64" else f"{dtype.name}({key} >> 58)"


def _mark(mark: str) -> str:
    return "" if mark == "none" else f" : {mark}"


def calm_arguments(drawn: Drawn, sizes: Mapping[str, int], random: Random) -> dict[str, NDArray[Any]]:
    """Arguments for an aimed kernel whose results do not hang on when a narrow float is rounded: none is negative
    in a sum, a product has factors of 1 and -1 alone, and a sum of products none between 0 and 1."""
    given = random_arguments(drawn.kernel, sizes, random)
    product = any(site.statement.op == "*=" for site in drawn.kernel.sites)
    fused = any(isinstance(p, Op) and p.name == "fma" for s in drawn.kernel.sites for p in parts(s.statement.value))
    for buffer in drawn.kernel.arguments:
        if buffer.role != "out" and buffer.dtype.is_float and buffer.dtype.bits < 32:
            choices = [-1.0, 1.0] if product else [0.0, 1.0] if fused else [0.0, 0.5, 1.0]
            shape = given[buffer.name].shape
            values = np.array([random.choice(choices) for _ in range(int(np.prod(shape)))]).reshape(shape)
            given[buffer.name] = from_floats(values, buffer.dtype)
    return given
