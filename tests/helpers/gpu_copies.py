"""Random kernels whose blocks copy to shared memory in a loop and compute with that: `fuzz.py --copies 300`.

Drawn together are what a copy may depend on (the loop, other loops, sizes, elements, registers that the loop
assigns before or after it, or not at all), which arrays the loop writes, how many copies there are and where they
stand, types, and whether a thread copies one element, several, or several side by side. A third of them copy to a
buffer of several stages, some iterations ahead, as `stages` makes it or otherwise.
"""

from __future__ import annotations

from random import Random

from agreement import agree, random_arguments
from on_harness import run

import dojoir
from dojoir.ir.nodes import Kernel

TYPES = ("f32", "f32", "f32", "i32", "f16", "u8", "f64")


def copying_kernel(random: Random) -> Kernel:
    """A well-formed kernel."""
    while True:
        try:
            kernel = dojoir.parse((_staged if random.random() < 0.35 else _text)(random))
            dojoir.prove(kernel)
        except dojoir.DojoError:
            continue
        return kernel


def _text(random: Random) -> str:
    turns, threads, each = random.choice(["K = 3", "K = 2", "K"]), random.choice([8, 32]), random.choice([1, 1, 4])
    blocks, inner = random.choice([1, 2]), random.choice([0, 0, 2])
    arrays = [f"x{n}" for n in range(random.choice([1, 1, 2]))]
    kinds = {name: random.choice(TYPES) for name in arrays}
    written = random.choice([None, None, None, *arrays]) if blocks == 1 else None
    uses = {name: random.choice(["none", "guard", "condition", "condition", "factor"]) for name in arrays}
    header = [f"kernel copies({turns})", "in  at: i32[K]", "in  w: f32[K]"]
    header += [
        f"{'inout' if name == written else 'in'} {name}: {kinds[name]}[K, {threads * each}]" for name in arrays
    ]
    header += [f"out y: f32[{blocks}, {threads}]", "tmp s: f32 reg"]
    header += [f"tmp t{name}: {kinds[name]}[{threads * each}] shared" for name in arrays]
    bars = "| | | " if inner else "| | "
    copies: list[str] = []
    for name in arrays:
        copies += [bars + line for line in _copy(random, name, threads, each, uses[name])]
    sums = " + ".join(f"f32(t{name}[{threads * each - 1} - {{j}}])" for name in arrays)
    compute = [f"{bars}{threads} : bx @j", f"{bars}| y[{{b}}, {{j}}] += {sums}"]
    if written:
        row = random.choice(["({k} + 1) % K", "0"])
        compute.append(f"{bars}| {written}[{row}, {{j}}] = 1")
    changed = bars + random.choice(["s = 0 - s", "s = 0 - s", "s = s + 1", "s = w[{k}]"])
    first, last = random.choice([([], []), ([changed], []), ([], [changed]), ([], [changed])])
    more = [f"{bars}{threads} : bx @j", f"{bars}| y[{{b}}, {{j}}] += s"] if random.random() < 0.3 else []
    before, after = random.choice([(more, []), ([], more)])
    loops = ["| K @k", f"| | {inner} @l"] if inner else ["| K @k"]
    zeroed = [f"| {threads} : bx @j", "| | y[{b}, {j}] = 0"]
    lines = [f"{blocks} : gx @b", *zeroed, "| s = 1", *loops, *first, *before, *copies, *compute, *after, *last]
    return "\n".join([*header, "", *lines, ""])


def _staged(random: Random) -> str:
    """Copies that run ahead, as far as there are stages, or further."""
    count, ahead = random.choice([2, 3, 3, 4]), random.choice([1, 2, 2, 3])
    kind, each, threads = random.choice(["f16", "f16", "f32", "u8", "f64"]), random.choice([2, 4, 8]), 32
    turns, times = random.choice(["K = 5", "K = 4", "K"]), random.choice([1, 1, 1, 2])
    blocks = random.choice([1, 2])
    width, written = threads * each, random.random() < 0.1 and blocks == 1
    column, near = f"{each}*{{j}} + {{e}}", random.choice([f"{width - 1} - {{j}}", "{j}", f"{each}*{{j}}"])
    bars = "| | " if times > 1 else "| "

    def copy(bars: str, row: str) -> list[str]:
        condition = random.choice(["", "", "", "{j} < 20", f"{row} < 4"])
        inner = bars + "| " * bool(condition)
        return [
            f"{bars}{threads} : bx @j",
            *([f"{bars}| if {condition}"] if condition else []),
            f"{inner}| {each} : {random.choice(['v', 'v', 'v', 'u'])} @e",
            f"{inner}| | t[({row}) % {count}, {column}] = x[{row}, {column}]",
        ]

    compute = [f"{bars}| {threads} : bx @j", f"{bars}| | y[{{b}}, {{j}}] += f32(t[{{k}} % {count}, {near}])"]
    if written:
        compute.append(f"{bars}| | x[{random.choice(['0', '({k} + 1) % K'])}, {{j}}] = 1")
    next_one = [f"{bars}| if {{k}} + {ahead} < K", *copy(f"{bars}| | ", f"{{k}} + {ahead}")]
    parts = [next_one, compute] if random.random() < 0.7 else [compute, next_one]
    filled = [f"| {count} @s", f"| | {threads} : bx @j", f"| | | {each} @e", f"| | | | t[{{s}}, {column}] = 0"]
    return "\n".join([
        f"kernel staged({turns})", "where K >= 3", f"{'inout' if written else 'in'} x: {kind}[K, {width}]",
        f"out y: f32[{blocks}, {threads}]", f"tmp t: {kind}[{count}, {width}] shared", "",
        f"{blocks} : gx @b", *filled, f"| {threads} : bx @j", "| | y[{b}, {j}] = 0",
        *([f"| {times} @o"] if times > 1 else []),
        f"{bars}{ahead} @p", *copy(f"{bars}| ", "{p}"), f"{bars}K @k", *parts[0], *parts[1], "",
    ])  # fmt: skip


def _copy(random: Random, name: str, threads: int, each: int, use: str) -> list[str]:
    row = random.choice(["{k}", "{k}", "K - 1 - {k}", "({k} + 1) % K", "{k} // 2", "at[{k}] % K"])
    lines, bars, column = [f"{threads} : bx @j"], "| ", "{j}"
    if each > 1:
        lines.append(f"| {each}{random.choice(['', ' : u', ' : v'])} @e")
        bars, column = "| | ", random.choice([f"{each}*{{j}} + {{e}}", f"{{j}} + {threads}*{{e}}"])
    target, value = f"t{name}[{column}]", f"{name}[{row}, {column}]"
    if use != "none" or random.random() < 0.2:
        lines.append(f"{bars}{target} = 0")
    if use == "guard":
        condition = random.choice(["{k} >= 1", "{j} < 5", "{k} + 1 < K"])
        return [*lines, f"{bars}if {condition}", f"{bars}| {target} = {value}"]
    if use == "condition":
        return [
            *lines,
            f"{bars}{target} = {value} if {random.choice(['s > 0', 's > 0', 'w[{k}] > 0', 's > w[{k}]'])}",
        ]
    if use == "factor":
        return [*lines, f"{bars}{target} = {random.choice(['2', '3'])} * {value}"]
    return [*lines, f"{bars}{target} = {value}"]


def wrong(kernel: Kernel, random: Random) -> str | None:
    """What a kernel gives on the harness that the interpreter does not give, for both targets and orders."""
    least = 3 if kernel.name == "staged" else 1
    sizes = {"K": random.choice([least, max(2, least), 4])} if kernel.runtime_sizes else {}
    given = random_arguments(kernel, sizes, random)
    expected = dojoir.interpret(kernel, given, **sizes)
    for target in ("cuda", "hip"):
        for order in ("forward", "backward"):
            found = agree(kernel, expected, run(kernel, given, sizes, target, order), exact=False)
            if found is not None:
                return f"{target}, {order}, at {sizes}: {found}\n{kernel}"
    return None
