"""Calls of random kernels with data for which a run may end in an error, and kernels held to how they end.

Of the elements of `risk0` and of tables of indices and lengths, some are bad: 0, no distance of a shift, out of
range, or not as is declared, for which every target refuses the call. Those
that alone make no call of the text fail lie behind a length or outside of a condition: most calls have all of
these, and end well; some have another one, and end in an error. Each ending is compared, errors as results are,
between the interpreter, the targets, what `optimize` makes, and moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from able import can_run
from agreement import random_arguments
from differential import bearable_sizes, is_bitwise
from drawing import draw
from endings import Arrays, Ending, compiled, ending, unlike
from walks import draw_moves

import dojoir
from dojoir.ir.nodes import Kernel
from dojoir.meaning.interpreter import Interpreter

CPUS = ("llvm", "c", "avx512", "avx2")
MOST_BAD = 8
"""How many elements are tried as bad ones, each by a call."""


@dataclass(frozen=True)
class Call:
    """The arguments and sizes of a call, and how the text ends with them; `hidden` bad elements are not reached."""

    inputs: Arrays
    sizes: Mapping[str, int]
    text: Ending
    hidden: int = 0


def failing_calls(kernel: Kernel, random: Random, count: int = 2) -> Iterator[Call]:
    """Calls with bad elements that are not reached, and for each one that ends in an error, if there is one."""
    text = Interpreter(kernel)
    for _ in range(count):
        sizes = bearable_sizes(kernel, random)
        inputs = random_arguments(kernel, sizes, random)
        for name in (name for name in inputs if name.startswith("risk")):
            inputs[name] = (inputs[name].astype("i8") % 7 + 1).astype(inputs[name].dtype)
        tables = [b.name for b in kernel.arguments if b.name.startswith(("risk", "ids", "len"))]
        places = [(name, at) for name in tables for at in range(inputs[name].size)]
        bad = [
            (*place, random.choice((0, -1, 99, 70000)))
            for place in random.sample(places, min(len(places), MOST_BAD))
        ]
        ends = [ending(text.run, with_bad(inputs, [one]), sizes) for one in bad]
        hidden = [one for one, found in zip(bad, ends, strict=True) if not found.code]
        reached = [one for one, found in zip(bad, ends, strict=True) if found.code]
        chosen = [hidden, *([[*hidden, random.choice(reached)]] if reached else [])]
        for elements in chosen:
            given = with_bad(inputs, elements)
            yield Call(given, sizes, ending(text.run, given, sizes), len(hidden))


def with_bad(inputs: Arrays, elements: Sequence[tuple[str, int, int]]) -> Arrays:
    """The arguments with some elements of tables (name, place, value) changed."""
    changed = {name: inputs[name].copy() for name, _, _ in elements}
    for name, at, value in elements:
        changed[name].reshape(-1)[at] = np.array(value).astype(changed[name].dtype)  # wraps
    return {**inputs, **changed}


def examine(random: Random, counts: Counter[str]) -> tuple[Kernel, str | None]:
    """A kernel, and what is wrong with how it ends, by a target, as it is scheduled, or after a move."""
    exact, marks = random.random() < 0.5, random.random() < 0.6
    kernel = draw("runnable", random, exact=exact, marks=marks, small=random.random() < 0.6, failing=True)
    try:
        return kernel, judge(kernel, random, exact, counts)
    except Exception as error:
        return kernel, f"{type(error).__name__}: {error}"


def judge(kernel: Kernel, random: Random, exact: bool, counts: Counter[str]) -> str | None:
    dojoir.prove(kernel)
    calls = [*failing_calls(kernel, random)]
    for call in calls:
        counts[f"text: {call.text.code or 'results'}"] += 1
        counts["text: results beside what would fail"] += bool(call.hidden and not call.text.code)
    for about, after, targets in versions(kernel, random, counts):
        runs = {target: compiled(after, target) for target in targets}
        text = Interpreter(after)
        for call in calls:
            where, expected = f"{about} at {dict(call.sizes)}", call.text
            if after is not kernel:
                counts["compared the text of a move or of optimize"] += 1
                expected = ending(text.run, call.inputs, call.sizes)
                wrong = unlike(kernel, call.text, expected, exact=False, may_end_well=True)
                if wrong is not None:
                    return f"{where}: {wrong}\n{after}{_data(call)}"
            bitwise = after is kernel and (exact or is_bitwise(kernel))
            for target, run in runs.items():
                counts[f"compared {target}"] += 1
                wrong = unlike(after, expected, ending(run, call.inputs, **call.sizes), bitwise)
                if wrong is not None:
                    return f"{target}, {where}: {wrong}\n{after}{_data(call)}"
    return None


def versions(kernel: Kernel, random: Random, counts: Counter[str]) -> Iterator[tuple[str, Kernel, Sequence[str]]]:
    """The kernel, what `optimize` makes of it, and what is left by the first legal one of some moves, each with the
    targets that run it."""
    here = [target for target in CPUS if can_run(target)]
    yield "the text", kernel, random.sample(here, min(len(here), 2))
    target = random.choice((*here, "cuda", "hip"))
    yield "optimize", dojoir.optimize(kernel, target, threads=random.choice((1, 2))).kernel, [target]
    for move in draw_moves(kernel, random, 8):
        if dojoir.check(kernel, move):
            counts["moves"] += 1
            yield str(move), dojoir.apply(kernel, move), [random.choice(here)]
            break


def _data(call: Call) -> str:
    tables = {
        name: array.tolist() for name, array in call.inputs.items() if name.startswith(("risk", "ids", "len"))
    }
    return f"\n# {tables}"
