"""Random kernels in f32, held to what `verify` allows of them: a run in the declared types is a right one, and so
no element of it may lie outside of the bounds, at whatever values.

    python tests/helpers/bounded_runs.py 1000                   # as many kernels, from a seed of their own
"""

from __future__ import annotations

import sys
from random import Random

import numpy as np

import dojoir
from dojoir import Kernel
from dojoir.meaning.interpreter import Interpreter
from dojoir.runtime.verification.compare import Comparison, Expected, compare
from dojoir.runtime.verification.slack import slack_of
from dojoir.runtime.verification.tolerance import bounded

ROWS, TERMS = 24, 3

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e-45, -1e-45, 2.0**-126, 1e-20, 1e20, -1e20, 3e38, -3e38)
NONFINITE = (np.inf, -np.inf, np.nan)

ONE = ("-{}", "abs({})", "exp({})", "log({})", "sqrt({})", "rsqrt({})", "tanh({})", "sigmoid({})", "floor({})",
       "erf({})", "log1p({})", "expm1({})", "exp2({})", "log2({})", "round({})", "sin({})", "atan({})", "tan({})",
       "1 / {}", "f32(f16({}))", "f32(i32({}))")  # fmt: skip
TWO = (
    "{} + {}", "{} - {}", "{} * {}", "{} / {}", "max({}, {})", "min({}, {})", "pow({}, {})", "{} * {}",
    "{} / {}",
)  # fmt: skip
THREE = ("select({} > {}, {}, 1)", "fma({}, {}, {})", "select({} == {}, 2, {})")
UPDATES = ("+=", "*=", "max=", "min=")


def drawn(random: Random) -> Kernel:
    """Statements on the elements of a row, of which each may use those before, and steps over three terms."""
    known = ["x[{0}]", "z[{0}]", "w[{0}, 0]"]
    names, lines = [], []
    for number in range(random.randint(2, 5)):
        element = f"y{number}[{{0}}]"
        names.append(f"out y{number}: f32[N]")
        lines.append(f"| {element} = {_value(random, known)}")
        if random.random() < 0.5:
            inside = [*known, "w[{0}, {1}]", "w[{0}, {1}]"]
            lines += [f"| {TERMS}", f"| | {element} {random.choice(UPDATES)} {_value(random, inside)}"]
        if random.random() < 0.4:
            lines.append(f"| {element} {random.choice(UPDATES)} {_value(random, known)}")
        known.append(element)
    head = ["kernel drawn(N)", "in x: f32[N]", "in z: f32[N]", f"in w: f32[N, {TERMS}]"]
    return dojoir.parse("\n".join([*head, *names, "N", *lines, ""]))


def _value(random: Random, known: list[str]) -> str:
    def part() -> str:
        return random.choice(known[-3:] if random.random() < 0.7 else known)

    form = random.choice(random.choice((ONE, TWO, TWO, THREE)))
    return form.format(*(part() for _ in range(form.count("{}"))))


def inputs(random: Random) -> dict[str, np.ndarray]:
    """Values in which what is special comes often."""
    from_numbers = np.random.default_rng(random.randrange(2**32))
    special = [*SPECIAL, *(NONFINITE if random.random() < 0.5 else ())]

    def some(*shape: int) -> np.ndarray:
        values = from_numbers.uniform(-2, 2, shape)
        chosen = from_numbers.choice(special, shape)
        return np.where(from_numbers.random(shape) < 0.6, chosen, values).astype(np.float32)

    return {"x": some(ROWS), "z": some(ROWS), "w": some(ROWS, TERMS)}


def in_another_order(kernel: Kernel) -> Kernel:
    """Its sums, maxima and minima with their terms the other way round. (Parts of a product may overflow where the
    whole does not: docs/language.md.)"""
    lines = str(kernel).splitlines()
    turned = (line if "*=" in line else line.replace("{0}, {1}]", f"{{0}}, {TERMS - 1} - {{1}}]") for line in lines)
    return dojoir.parse("\n".join(turned) + "\n")


def compared(kernel: Kernel, run: Kernel, given: dict[str, np.ndarray]) -> dict[str, Comparison]:
    """How a run of the same meaning in the declared types compares with the bounds of a kernel, without knowing
    what that run gives."""
    made = bounded(kernel)
    exact = {name: array.astype(np.float64) for name, array in given.items()}
    with np.errstate(all="ignore"):
        own = dojoir.interpret(run, given)
        known = Interpreter(made.kernel).run(exact, {"N": ROWS})
    found = {}
    for buffer in kernel.arguments:
        if buffer.role != "in":
            bounds = known.get(made.errors.get(buffer.name, ""))
            expected = Expected(known[buffer.name], bounds, None)
            found[buffer.name] = compare(buffer.name, buffer.dtype, own[buffer.name], expected, slack_of(kernel))
    return found


def wrong(seed: int) -> str:
    """What is outside of the bounds of a kernel, with its text; empty, where nothing is."""
    random = Random(f"bounded {seed}")
    kernel, given = drawn(random), inputs(random)
    for run in (kernel, in_another_order(kernel)):
        for comparison in compared(kernel, run, given).values():
            if not comparison.ok and comparison.worst is not None:
                (row,) = comparison.worst.index
                shown = {name: array[row].tolist() for name, array in given.items()}
                return f"{run}\n{comparison.worst}\n{shown}"
    return ""


if __name__ == "__main__":
    start = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    texts = [text for text in map(wrong, range(start, start + int(sys.argv[1]))) if text]
    print(
        "\n\n".join([*texts[:8], f"{len(texts)} of {sys.argv[1]} kernels have a right result that is called wrong"])
    )
