"""Programs that run: kernels that are scheduled by the planner, and their call on tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

import dojoir
from dojoir.torch.importer.builder import TORCH
from dojoir.torch.importer.launching import Launches
from dojoir.torch.importer.nests import ImportedProgram
from dojoir.torch.importer.plans import CallPlan, empty_on_cpu, fitted, planned
from dojoir.torch.importer.results import Lowered
from dojoir.torch.kernel_sharing import share_out
from dojoir.torch.places import places
from dojoir.torch.scheduling import Spending, scheduled
from dojoir.torch.thread_count import threads_now

MOST_PLANS = 64
"""For how many sizes a call is remembered."""


@dataclass(frozen=True)
class _KernelCall:
    """A compiled kernel with the buffers that it takes; `sizes` are those that it asks for by name."""

    compiled: dojoir.Compiled
    arguments: tuple[str, ...]
    sizes: tuple[str, ...]


_OF_CALLS = frozenset({"_threads", "_calls", "_plans", "_launches"})
"""The attributes of a runner that hold its calls."""


class ProgramRunner:
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
        spending: Spending | None = None,
    ) -> None:
        """Raises NoOperator, as `share_out` does."""
        self.optimize, self.threads, self.spending = optimize, threads, spending or Spending()
        self.parts = share_out(lowered, name, facts or {})
        self.lowered = replace(lowered, program=ImportedProgram(lowered.program.buffers), origins={})
        self._made: dict[str, list[dojoir.Trace]] = {}
        self.__setstate__({})
        self._arguments = [pair for part in self.parts for pair in part.arguments]
        self._sizes = tuple(lowered.sizes.items())
        given = {one.buffer for one in lowered.inputs} - lowered.in_place
        self._may_launch = not any(role == "inout" and buffer in given for buffer, role in self._arguments)

    def __getstate__(self) -> dict[str, Any]:
        """The program and its schedules: copies and pickles compile it again."""
        return {name: value for name, value in vars(self).items() if name not in _OF_CALLS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._threads = threads_now(self.threads)
        self._calls: dict[tuple[str, int | None], list[_KernelCall]] = {}
        self._plans: dict[tuple[int, ...], CallPlan] = {}
        self._launches: dict[tuple[int, tuple[int, ...]], Launches | None] = {}

    @property
    def text(self) -> str:
        """The kernels as the importer wrote them, each once."""
        return "\n".join(dict.fromkeys(part.text for part in self.parts))

    def kernels(self, target: str = "llvm") -> list[dojoir.Kernel]:
        """The kernels as they run: scheduled by the planner, or put in place of that."""
        return [trace.kernel for trace in self.traces(target)]

    def traces(self, target: str = "llvm") -> list[dojoir.Trace]:
        """The moves that make the kernels as they run of those that were imported."""
        if target not in self._made:
            kernels, is_cpu = [part.kernel for part in self.parts], target == "llvm"
            if is_cpu and not self.optimize:
                self._made[target] = [*map(dojoir.Trace, kernels)]
            else:
                threads = self._threads() if is_cpu else self.threads
                plan = partial(dojoir.optimize, target=target, threads=threads)
                apart = [*dict.fromkeys(kernels)]
                made = dict(
                    zip(apart, scheduled(apart, plan, self.spending if is_cpu else Spending()), strict=True)
                )
                self._made[target] = [made[kernel] for kernel in kernels]
        return self._made[target]

    def has(self, trace: dojoir.Trace) -> bool:
        """Whether a trace begins with one of the kernels."""
        return any(part.kernel == trace.start for part in self.parts)

    def replace(self, trace: dojoir.Trace, target: str) -> None:
        """Runs the last kernel of a trace in place of the one that the planner made of its first. Raises
        ArgumentError, and then changes nothing."""
        numbers = [number for number, part in enumerate(self.parts) if part.kernel == trace.start]
        if not numbers or not trace.is_safe:
            reason = "has moves that were not proved" if numbers else "begins with no kernel of this module"
            raise dojoir.ArgumentError(
                f"this trace of {trace.start.name} {reason}: begin with a copy of one of traces()", "bad-arguments"
            )
        made = list(self.traces(target))
        for number in numbers:
            made[number] = trace.copy()
        self._made[target] = made
        self._calls = {key: calls for key, calls in self._calls.items() if key[0] != target}
        self._launches.clear()

    def calls(self, target: str) -> list[_KernelCall]:
        """The compiled kernels for a target, with the threads that PyTorch has now. Raises what `dojoir.compile`
        raises."""
        threads = self._threads() if target == "llvm" else None
        found = self._calls.get((target, threads))
        if found is None:
            found = []
            made: dict[dojoir.Kernel, dojoir.Compiled] = {}
            for part, kernel in zip(self.parts, self.kernels(target), strict=True):
                compiled = made[kernel] = made.get(kernel) or dojoir.compile(kernel, target, threads=threads)
                names = tuple(buffer for buffer, _ in part.arguments)
                found.append(_KernelCall(compiled, names, compiled.open_sizes))
            self._calls[target, threads] = found
        return found

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the kernels. Tensors are on the CPU or on one GPU."""
        key: tuple[int, ...] = ()
        if self._sizes:
            key = tuple([
                int(inputs[number]) if dim < 0 else inputs[number].shape[dim] for _, (number, dim) in self._sizes
            ])  # fmt: skip
        plan = self._plans.get(key) or self._planned(key)
        first = inputs[plan.first] if plan.first >= 0 else None
        if first is None or first.is_cpu:
            return self._on_cpu(plan, inputs)
        device = first.get_device()
        launches = self._launches.get((device, key))
        if launches is not None and places.current() == device:
            found = launches.start(inputs)
            if found is not None:
                return found
        return self._on_gpu(plan, key, inputs, device)

    def _planned(self, key: tuple[int, ...]) -> CallPlan:
        """The plan for some sizes."""
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
                self._launches.clear()
            sizes = {name: int(value) for (name, _), value in zip(self._sizes, key, strict=True)}
            plan = self._plans[key] = planned(self.lowered, self._arguments, TORCH, sizes)
        return plan

    def _on_cpu(self, plan: CallPlan, inputs: Sequence[Any]) -> list[Any]:
        is_recording = torch.is_grad_enabled()
        tensors: list[torch.Tensor] = []
        for one in plan.taken:
            tensor = inputs[one.number]
            if (
                one.order is not None
                or tensor.shape != one.shape
                or not tensor.is_contiguous()
                or (is_recording and tensor.requires_grad)
            ):
                tensor = one.fitted(tensor)
            tensors.append(tensor)
        self._part(plan, tensors)
        tensors += [fitted(constant, shape, None) for constant, shape in plan.constants]
        tensors += [empty_on_cpu(new.shape, new.strides, new.dtype) for new in plan.made]
        for call in self.calls("llvm"):
            arguments = [tensors[plan.slots[buffer]] for buffer in call.arguments]
            if call.sizes:
                call.compiled(*arguments, **{name: plan.sizes[name] for name in call.sizes})
            else:
                call.compiled(*arguments)
        return [make(tensors, inputs) for make in plan.results]

    def _part(self, plan: CallPlan, tensors: list[torch.Tensor]) -> None:
        """Has each input that is written in memory of its own: a copy, where another one may lie in it too."""
        for buffer in self.lowered.in_place:
            own = plan.slots[buffer]
            place = tensors[own].untyped_storage().data_ptr()
            if any(t.untyped_storage().data_ptr() == place for n, t in enumerate(tensors) if n != own):
                tensors[own] = tensors[own].clone()

    # -- on a GPU -------------------------------------------------------------------------------------------
    def _on_gpu(self, plan: CallPlan, key: tuple[int, ...], inputs: Sequence[Any], device: int) -> list[Any]:
        if places.current() != device:
            with places.on(device):
                return self._on_gpu(plan, key, inputs, device)
        if (device, key) in self._launches:
            launches = self._launches[device, key]
        else:
            launches = self._launches[device, key] = self._launched(plan, device)
        found = None if launches is None else launches.start(inputs)
        return self._checked(plan, inputs) if found is None else found

    def _launched(self, plan: CallPlan, device: int) -> Launches | None:
        """The launches of a plan; None where each call has something to check."""
        kernels = []
        for call in self.calls(target()):
            compiled: Any = call.compiled
            sizes = {name: plan.sizes.get(name) for name in compiled.kernel.runtime_sizes}
            if not self._may_launch or None in sizes.values() or not hasattr(compiled, "prepared"):
                return None
            prepared = compiled.prepared(sizes, device)
            if prepared is None:
                return None
            kernels.append((prepared, call.arguments))
        return Launches(plan, kernels, device, places, self.lowered.in_place)

    def _checked(self, plan: CallPlan, inputs: Sequence[Any]) -> list[Any]:
        """The general way: each kernel checks all of its arguments."""
        device = inputs[plan.taken[0].number].device
        tensors = [one.fitted(inputs[one.number]) for one in plan.taken]
        self._part(plan, tensors)
        tensors += [fitted(constant.to(device), shape, None) for constant, shape in plan.constants]
        empty = torch.empty_strided
        tensors += [empty(new.shape, new.strides, dtype=new.dtype, device=device) for new in plan.made]
        for call in self.calls(target()):
            arguments = [tensors[plan.slots[buffer]] for buffer in call.arguments]
            call.compiled(*arguments, **{name: plan.sizes[name] for name in call.sizes})
        return [make(tensors, inputs) for make in plan.results]


def target() -> str:
    """The target of tensors on a GPU."""
    return "hip" if torch.version.hip else "cuda"
