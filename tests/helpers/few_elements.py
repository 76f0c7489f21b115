"""Random kernels whose statements meet in a few elements of one array, each by an index of its own.

Under extents of 1, guards and clamped indices the same element is written as `r[0]`, `r[-{1}]`, `r[{0} % 1]`,
`r[max({1} - 3, 0)]` and `r[ids[0]]`. What a lowering keeps in a variable, puts off, or asks once outside of a loop
must see that these are one.
"""

from __future__ import annotations

from random import Random

import numpy as np

import dojoir
from dojoir.ir.nodes import Kernel

SIZES = ({"N": 1}, {"N": 2}, {"N": 5})
"""The sizes at which these kernels are run."""

TRIES = 60
"""How many texts are drawn for one that is well-formed: about a third are."""


def few_elements_kernel(random: Random) -> Kernel:
    """A kernel that is well-formed for all sizes."""
    for _ in range(TRIES):
        kernel = dojoir.parse(_Drawn(random).text())
        try:
            dojoir.prove(kernel)
        except dojoir.KernelError:
            continue
        return kernel
    raise AssertionError(f"none of {TRIES} texts is well-formed")


def few_elements_inputs(random: Random, n: int) -> dict[str, np.ndarray]:
    return {
        "x": np.array([random.choice([-2, 0.5, 1, 3]) for _ in range(n)], np.float32),
        "k": np.array([random.randrange(-3, 4) for _ in range(n)], np.int32),
        "ids": np.zeros(n, np.int32),
    }


class _Drawn:
    """One text: `ends` are the largest extents of the scopes around a place."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.dims = [random.choice([1, 1, 2]) for _ in range(random.choice([1, 2, 3]))]
        self.dtype = random.choice(["bf16", "f32", "f16", "i32"])

    def text(self) -> str:
        shape, lines = ", ".join(map(str, self.dims)), []
        for _ in range(self.random.choice([1, 2, 2, 3])):
            lines += self.node([])
        head = "kernel f(N)\nfp fast\nin x: f32[N]\nin k: i32[N]\nin ids: i32[N]\n"
        if self.random.random() < 0.6:
            return f"{head}out r: {self.dtype}[{shape}]\n\n" + "\n".join(lines) + "\n"
        storage = self.random.choice(["stack", "reg", ""])
        head += f"tmp r: {self.dtype}[{shape}] {storage}\nout y: {self.dtype}\n\n"
        return head + "\n".join([*lines, f"y = r[{', '.join('0' for _ in self.dims)}]"]) + "\n"

    def node(self, ends: list[int]) -> list[str]:
        depth = len(ends)
        kind = self.random.random()
        if kind < 0.3 and depth < 4:
            end, extent = self.random.choice(self.extents(ends))
            inside = self.nodes([*ends, end])
            return [extent + self.random.choice(["", "", "", " : u", " : v"]), *(f"| {line}" for line in inside)]
        if kind < 0.42 and depth:
            q = self.random.randrange(depth)
            condition = self.random.choice([f"{{{q}}} < 1", f"{{{q}}} >= 1", f"{{{q}}} == 0", "N >= 2"])
            return [f"if {condition}", *(f"| {line}" for line in self.nodes(ends))]
        op = "=" if kind < 0.7 else self.random.choice(["+=", "+=", "max=", "*="])
        condition = f" if x[{self.place(depth)}] > 0.7" if self.random.random() < 0.15 else ""
        return [f"r[{self.index(ends)}] {op} {self.value(depth)}{condition}"]

    def nodes(self, ends: list[int]) -> list[str]:
        return [line for _ in range(self.random.choice([1, 1, 2, 2, 3])) for line in self.node(ends)]

    def extents(self, ends: list[int]) -> list[tuple[int, str]]:
        found = [(1, "1"), (1, "1"), (2, "2"), (3, "3"), (4, "min(4, N)"), (1, "min(4, 1)")]
        found += [(end, f"{{{q}}} + 1") for q, end in enumerate(ends)]
        return found + [(1, f"1 - {{{q}}}") for q, end in enumerate(ends) if end == 1]

    def index(self, ends: list[int]) -> str:
        return ", ".join(self.random.choice(self.indices(ends, dim)) for dim in self.dims)

    def indices(self, ends: list[int], dim: int) -> list[str]:
        found = ["0", "ids[0]"] if dim == 1 and self.random.random() < 0.2 else ["0"]
        for q, end in enumerate(ends):
            if end <= dim:
                found += [f"{{{q}}}", f"{{{q}}}", f"-{{{q}}}" if end == 1 else f"{{{q}}}"]
            else:
                found += [f"min({{{q}}}, {dim - 1})", f"{{{q}}} % {dim}", f"{dim - 1} - min({{{q}}}, {dim - 1})"]
                found += [f"max({{{q}}} - 3, 0)"] if end <= dim + 3 else []
        return found

    def place(self, depth: int) -> str:
        return self.random.choice(["0", "N - 1", *(f"{{{q}}} % N" for q in range(depth))])

    def value(self, depth: int) -> str:
        if self.dtype == "i32":
            return self.random.choice(["3", f"k[{self.place(depth)}]", *(f"{{{q}}}" for q in range(depth))])
        return self.random.choice(["1.5", f"x[{self.place(depth)}]"])
