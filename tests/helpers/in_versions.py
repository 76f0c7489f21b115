"""Kernels in versions for sizes: what a planner makes of a kernel of open sizes, with nothing scheduled."""

from __future__ import annotations

from random import Random

from dojoir.grammar import parse_conditions
from dojoir.ir.nodes import Guard, Kernel, any_marked
from dojoir.passes.schedule.steps.versions import AtMost, Exactly, Multiple, Property


def in_versions(kernel: Kernel, random: Random, levels: int = 2) -> Kernel:
    """The kernel, run by one of two guards on its sizes, which some calls choose and some do not: that a size has a
    value, is a multiple, is not too large. Sometimes one of the versions is in versions, too. A kernel with marks
    or without runtime sizes stays as it is: what its marks promise may need temporaries of their own."""
    if not kernel.runtime_sizes or not kernel.body or any_marked(kernel.body):
        return kernel
    names = random.sample(kernel.runtime_sizes, random.randint(1, min(2, len(kernel.runtime_sizes))))
    chosen = [_property(name, random) for name in names]
    here = " and ".join(one.text for one in chosen)
    others = " + ".join(one.excess for one in chosen)
    inner = in_versions(kernel, random, levels - 1).body if levels > 1 and random.random() < 0.3 else kernel.body
    versions = [
        Guard(parse_conditions(here, kernel, 0), inner),
        Guard(parse_conditions(f"{others} >= 1", kernel, 0), kernel.body),
    ]
    random.shuffle(versions)
    return kernel.evolve(body=tuple(versions))


def _property(size: str, random: Random) -> Property:
    if random.random() < 0.6:
        return Exactly(size, random.randint(1, 5))
    return random.choice([Multiple(size, 2), AtMost(size, 3)])
