"""`torch.compile(module, backend="dojoir")`: forward and backward graphs as kernels, and PyTorch for the rest."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dojoir
from dojoir.torch.attention import with_attention
from dojoir.torch.cutting import Left, cut
from dojoir.torch.importer.graph import lower
from dojoir.torch.importer.operator_table import decompositions
from dojoir.torch.importer.program_runner import ProgramRunner
from dojoir.torch.scheduling import Spending


@contextmanager
def plain_attention() -> Iterator[None]:
    """Lets attention be traced as products and a softmax."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.MATH]):
        yield


@dataclass
class CompileReport:
    """The output of a backend: the kernels of all graphs, and what was left to PyTorch."""

    graphs: int = 0
    runners: list[ProgramRunner] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All kernels as they were written."""
        return "\n".join(runner.text for runner in self.runners)

    def __str__(self) -> str:
        kernels = sum(len(r.parts) for r in self.runners)
        lines = [f"{self.graphs} graphs, {kernels} kernels, {len(self.left)} operators left to PyTorch"]
        return "\n".join([*lines, *(f"  {one}" for one in self.left)])


class CompileBackend:
    """A backend of `torch.compile`. `whole` refuses what would be left to PyTorch; `report` says what was compiled.

    `torch.compile(module, backend=Backend())` is as `backend="dojoir"`, with a report of its own."""

    def __init__(
        self, *, whole: bool = False, threads: int | None = None, optimize: bool = True, budget: float | None = None
    ) -> None:
        """Raises ArgumentError for a budget that is no number of seconds."""
        self.whole, self.threads, self.optimize = whole, threads, optimize
        self._spending = Spending.of(budget)
        self.report = CompileReport()

    def __call__(self, module: Any, example_inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        """Compiles a graph of Dynamo. Raises ArgumentError, `no-operator`, where `whole` and something is left."""
        from torch._dynamo.backends.common import aot_autograd
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        compiled = aot_autograd(
            fw_compiler=self._compile,
            bw_compiler=self._compile,
            decompositions=decompositions(),
            partition_fn=min_cut_rematerialization_partition,
        )
        with_attention(module.graph)
        module.recompile()
        with plain_attention():
            made: Callable[..., Any] = compiled(module, example_inputs)
        return made

    def _compile(self, module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        report, first = self.report, len(self.report.runners)
        report.graphs += 1

        def runner(graph: Any, number: int) -> ProgramRunner:
            name = f"graph_{first + number}"
            return ProgramRunner(
                lower(graph), name, threads=self.threads, optimize=self.optimize, spending=self._spending
            )

        made = cut(module, runner, self.whole)
        report.runners += made.runners
        report.left += made.left
        made.told(f"graph {report.graphs}")
        return _boxed(made.call)


def _boxed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as AOTAutograd calls one: with the list of inputs, which is emptied, so that what is not needed
    any more can go."""

    def boxed(inputs: list[Any]) -> Any:
        given = tuple(inputs)
        inputs.clear()
        return function(given)

    boxed.__dict__["_boxed_call"] = True
    return boxed


def dojoir_backend(module: Any, example_inputs: Sequence[Any], **given: Any) -> Callable[..., Any]:
    """The backend `dojoir` of `torch.compile`, whose `options=` are those of `CompileBackend`. Raises ArgumentError
    for one that there is not."""
    options = dict(given.get("options") or {})
    known = tuple(inspect.signature(CompileBackend).parameters)
    for name in options:
        if name not in known:
            raise dojoir.ArgumentError(
                f"the backend dojoir has no option {str(name)[:80]!r}; it has: {', '.join(known)}",
                "bad-arguments",
            )
    return CompileBackend(**options)(module, example_inputs)
