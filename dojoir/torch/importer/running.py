"""Programs that run: nests shared out to kernels, each scheduled by the planner, and their call on tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

import dojoir
from dojoir.torch.importer.builder import TORCH
from dojoir.torch.importer.graph import Given, Known, Lowered, Result, Stored, Viewed, buffers_of
from dojoir.torch.importer.index import Bound, Data, Divided, Index, Size, Var
from dojoir.torch.importer.nests import Node, read, written
from dojoir.torch.importer.printing import kernel_text

MOST_NESTS = 24
"""How many nests a kernel has at most: what takes longer to plan is shared out to several."""


@dataclass(frozen=True)
class Part:
    """One kernel of a program: its text, and the role of each buffer that it takes, in declared order."""

    text: str
    arguments: tuple[tuple[str, str], ...]

    @cached_property
    def kernel(self) -> dojoir.Kernel:
        """Raises what `dojoir.parse` and `dojoir.prove` raise."""
        made = dojoir.parse(self.text)
        dojoir.prove(made)
        return made


def share_out(lowered: Lowered, name: str, facts: dict[str, tuple[int, int | None]]) -> list[Part]:
    """The kernels of a program, in the order in which they run."""
    nests = lowered.program.nests
    groups = _groups(nests)
    results = buffers_of(lowered.results)
    made: list[Part] = []
    before = {one.buffer for one in lowered.inputs if one.buffer is not None} | set(lowered.constants)
    for number, group in enumerate(groups):
        later = {b for other in groups[number + 1 :] for nest in other for b in read(nest) | written(nest)}
        roles = _roles(group, before, later | results)
        own = name if len(groups) == 1 else f"{name}_{number + 1}"
        text = kernel_text(own, lowered.program, group, roles, facts)
        order = {"in": 0, "inout": 1, "out": 2}
        declared = [line.split()[:2] for line in text.splitlines() if line.split()[:1] and line.split()[0] in order]
        made.append(Part(text, tuple((buffer.partition(":")[0], role) for role, buffer in declared)))
        before |= {b for nest in group for b in written(nest)}
    return made


def _groups(nests: Sequence[Node]) -> list[Sequence[Node]]:
    """Runs of nests, each as long as it may be; what writes one buffer stays together."""
    last = {buffer: n for n, nest in enumerate(nests) for buffer in written(nest)}
    made: list[Sequence[Node]] = []
    start = 0
    while start < len(nests):
        end = min(start + MOST_NESTS, len(nests))
        cut = end
        while cut > start and cut < len(nests) and _parts_a_buffer(nests[start:cut], last, cut):
            cut -= 1
        if cut == start:
            cut = end
            while cut < len(nests) and _parts_a_buffer(nests[start:cut], last, cut):
                cut += 1
        made.append(nests[start:cut])
        start = cut
    return made


def _parts_a_buffer(nests: Sequence[Node], last: dict[str, int], cut: int) -> bool:
    return any(last[buffer] >= cut for nest in nests for buffer in written(nest))


def _roles(group: Sequence[Node], before: set[str], after: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for nest in group:
        for buffer in read(nest) | written(nest):
            is_written = any(buffer in written(other) for other in group)
            if buffer in before:
                found[buffer] = "inout" if is_written else "in"
            else:
                found[buffer] = "out" if buffer in after else "tmp"
    return found


def evaluator(index: Index) -> Callable[[dict[str, int]], int]:
    """The function that evaluates an index of sizes."""
    constant = index.constant
    if constant is not None:
        return lambda sizes: constant
    return lambda sizes: evaluate(index, sizes)


def evaluate(index: Index, sizes: dict[str, int]) -> int:
    """The number that an index of sizes is."""
    total = 0
    for monomial, factor in index.terms.items():
        for atom in monomial:
            match atom:
                case Size(name):
                    factor *= sizes[name]
                case Divided(of, by, rest):
                    left, right = evaluate(of, sizes), evaluate(by, sizes)
                    factor *= left % right if rest else left // right
                case Bound(first, second, largest):
                    pair = evaluate(first, sizes), evaluate(second, sizes)
                    factor *= max(pair) if largest else min(pair)
                case Var() | Data():
                    raise AssertionError(f"{atom.key} is no size")
        total += factor
    return total


@dataclass(frozen=True)
class _Call:
    """A compiled kernel with the buffers that it takes; `sizes` are those that it asks for by name."""

    compiled: dojoir.Compiled
    arguments: tuple[str, ...]
    sizes: tuple[str, ...]


class Runner:
    """A program on tensors: `runner(inputs)` gives the results as a list. What it runs on is compiled at the first
    call there."""

    def __init__(
        self,
        lowered: Lowered,
        name: str,
        *,
        facts: dict[str, tuple[int, int | None]] | None = None,
        optimize: bool = True,
        threads: int | None = None,
    ) -> None:
        """Raises KernelError where a text is not what a kernel may be."""
        self.lowered, self.optimize, self.threads = lowered, optimize, threads
        self.parts = share_out(lowered, name, facts or {})
        for part in self.parts:
            _ = part.kernel
        self._calls: dict[str, list[_Call]] = {}
        self._made: dict[str, list[dojoir.Kernel]] = {}
        buffers = lowered.program.buffers
        self._shapes = {name: [evaluator(s) for s in b.shape] for name, b in buffers.items()}
        self._is_open = bool(lowered.sizes)
        self._fixed = {} if self._is_open else {n: tuple(f({}) for f in s) for n, s in self._shapes.items()}
        self._results = [self._result(one) for one in lowered.results]
        outs = [b for p in self.parts for b, role in p.arguments if role == "out"]
        self._outs = [(b, TORCH[buffers[b].dtype]) for b in dict.fromkeys(outs)]
        self._taken = [
            (n, one.buffer, buffers[one.buffer].order)
            for n, one in enumerate(lowered.inputs)
            if one.buffer is not None and any(one.buffer == b for p in self.parts for b, _ in p.arguments)
        ]

    @property
    def text(self) -> str:
        """The kernels as the importer wrote them."""
        return "\n".join(part.text for part in self.parts)

    def kernels(self, target: str = "llvm") -> list[dojoir.Kernel]:
        """The kernels as they run: scheduled by the planner."""
        if target not in self._made:
            self._made[target] = [self._scheduled(part, target) for part in self.parts]
        return self._made[target]

    def _scheduled(self, part: Part, target: str) -> dojoir.Kernel:
        if not self.optimize and target == "llvm":
            return part.kernel
        return dojoir.optimize(part.kernel, target, threads=self.threads).kernel

    def calls(self, target: str) -> list[_Call]:
        """The compiled kernels for a target. Raises what `dojoir.compile` raises."""
        found = self._calls.get(target)
        if found is None:
            found = []
            for part, kernel in zip(self.parts, self.kernels(target), strict=True):
                compiled = dojoir.compile(kernel, target, threads=self.threads if target == "llvm" else None)
                names = tuple(buffer for buffer, _ in part.arguments)
                found.append(_Call(compiled, names, compiled.open_sizes))
            self._calls[target] = found
        return found

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the kernels. Tensors are on the CPU or on one GPU."""
        sizes: dict[str, int] = {}
        for name, (number, dim) in self.lowered.sizes.items():
            sizes[name] = int(inputs[number]) if dim < 0 else int(inputs[number].shape[dim])
        device = next((t.device for t in inputs if isinstance(t, torch.Tensor)), None)
        target = "llvm" if device is None or device.type == "cpu" else "hip" if torch.version.hip else "cuda"
        env: dict[str, torch.Tensor] = {}
        for number, buffer, order in self._taken:
            env[buffer] = _fitted(inputs[number], self._shape(buffer, sizes), order)
        for buffer, tensor in self.lowered.constants.items():
            env[buffer] = _fitted(tensor.to(device), self._shape(buffer, sizes), None)
        for buffer, dtype in self._outs:
            env[buffer] = torch.empty(self._shape(buffer, sizes), dtype=dtype, device=device)
        for call in self.calls(target):
            call.compiled(*(env[b] for b in call.arguments), **{s: sizes[s] for s in call.sizes})
        return [make(env, inputs, sizes) for make in self._results]

    def _shape(self, buffer: str, sizes: dict[str, int]) -> tuple[int, ...]:
        return tuple(f(sizes) for f in self._shapes[buffer]) if self._is_open else self._fixed[buffer]

    def _result(self, result: Result) -> Callable[[dict[str, torch.Tensor], Sequence[Any], dict[str, int]], Any]:
        match result:
            case Known(value):
                if isinstance(value, Index):
                    size = evaluator(value)
                    return lambda env, inputs, sizes: size(sizes)
                return lambda env, inputs, sizes: value
            case Given(number):
                return lambda env, inputs, sizes: inputs[number]
            case Stored(buffer, shape):
                of = [evaluator(s) for s in shape]

                if not self._is_open and tuple(f({}) for f in of) == self._fixed[buffer]:
                    return lambda env, inputs, sizes: env[buffer]

                def stored(env: dict[str, torch.Tensor], inputs: Sequence[Any], sizes: dict[str, int]) -> Any:
                    return env[buffer].view([f(sizes) for f in of])

                return stored
            case Viewed(inner, steps):
                make = self._result(inner)

                def viewed(env: dict[str, torch.Tensor], inputs: Sequence[Any], sizes: dict[str, int]) -> Any:
                    made = make(env, inputs, sizes)
                    for target, args, kwargs in steps:
                        made = target(made, *(_numbers(a, sizes) for a in args), **kwargs)
                    return made

                return viewed


def _numbers(given: Any, sizes: dict[str, int]) -> Any:
    if isinstance(given, Index):
        return evaluate(given, sizes)
    if isinstance(given, list):
        return [_numbers(one, sizes) for one in given]
    return given


def _fitted(tensor: torch.Tensor, shape: tuple[int, ...], order: tuple[int, ...] | None) -> torch.Tensor:
    """The tensor in the layout that the kernels take: itself, or a copy."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if order is None:
        made = tensor if tensor.is_contiguous() else tensor.contiguous()
        return made if made.shape == shape else made.view(shape)
    if tensor.permute(order).is_contiguous():
        return tensor
    back = sorted(range(len(order)), key=lambda d: order[d])
    return tensor.permute(order).contiguous().permute(back)
