"""How far the short list of `moves` reaches the schedules that come with dojoir, and how long it is.

    python benchmarks/short_list.py

Each stored schedule is replayed; a move of it is reached if `candidates` lists it in its state, with any names for
new temporaries and labels. All of them are in the `space` of their states: tests/passes/test_space.py holds that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import dojoir


def bare(move: dojoir.Move, kernel: dojoir.Kernel) -> Hashable:
    """The text of a move with paths for labels, and a blank for each name that it makes up."""
    declared = {buffer.name for buffer in kernel.buffers} | {size.name for size in kernel.sizes}
    rules, instructions = dojoir.rules.names(), dojoir.instructions.names()

    def plain(value: object) -> Hashable:
        match value:
            case tuple():
                return tuple(map(plain, value))
            case str() if value.startswith("@"):
                return ".".join(map(str, kernel.path(value)))
            case str() if value.isidentifier() and value not in {*declared, *rules, *instructions, *WORDS}:
                return "_"
        return str(value)

    return move.name, tuple(map(plain, move.arguments()))


WORDS = {"heap", "stack", "reg", "shared", "in", "out", "inout", "u", "v", "p"}


def main() -> None:
    whole = stored = made = reached = listed = 0
    missing: Counter[str] = Counter()
    for name in dojoir.kernels.names():
        for schedule in dojoir.schedules.schedules(name):
            kernel = dojoir.kernels.load(name)
            trace = schedule.on(kernel.with_fp(schedule.fp) if schedule.fp else kernel)
            state, all_reached = trace.start, True
            for step in trace.steps:
                short = dojoir.candidates(state)
                found = bare(step.move, state) in {
                    bare(move, state) for move in short if move.name == step.move.name
                }
                made, reached, listed = made + 1, reached + found, listed + len(short)
                all_reached = all_reached and found
                missing[step.move.name] += not found
                state = step.kernel
            stored, whole = stored + 1, whole + all_reached
    print(f"{whole} of {stored} stored schedules by listed moves alone, {reached} of {made} moves")
    print(f"{listed / made:.0f} moves are listed in a state")
    print("not listed: " + ", ".join(f"{name} {n}" for name, n in missing.most_common() if n))


if __name__ == "__main__":
    main()
