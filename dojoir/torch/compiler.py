"""`torch.compile(module, backend="dojoir")`: forward and backward graphs as kernels, and PyTorch for the rest."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

import dojoir
from dojoir.torch.attention import with_attention
from dojoir.torch.importer.graph import Refused, lower, user_line, why_missing
from dojoir.torch.importer.running import Runner
from dojoir.torch.importer.table import decompositions, operators

log = logging.getLogger("dojoir.torch")


@contextmanager
def plain_attention() -> Iterator[None]:
    """Lets attention be traced as products and a softmax."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.MATH]):
        yield


@dataclass(frozen=True)
class Left:
    """An operator that is left to PyTorch: its name, the line of the model, and why."""

    operator: str
    line: str
    reason: str

    def __str__(self) -> str:
        return f"{self.operator}{f' at {self.line}' if self.line else ''}: {self.reason}"


@dataclass
class Report:
    """The output of a backend: the kernels of all graphs, and what was left to PyTorch."""

    graphs: int = 0
    runners: list[Runner] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All kernels as they were written."""
        return "\n".join(runner.text for runner in self.runners)

    def __str__(self) -> str:
        kernels = sum(len(r.parts) for r in self.runners)
        lines = [f"{self.graphs} graphs, {kernels} kernels, {len(self.left)} operators left to PyTorch"]
        return "\n".join([*lines, *(f"  {one}" for one in self.left)])


class Backend:
    """A backend of `torch.compile`. `whole` refuses what would be left to PyTorch; `report` says what was compiled.

    `torch.compile(module, backend=Backend())` is as `backend="dojoir"`, with a report of its own."""

    def __init__(self, *, whole: bool = False, threads: int | None = None, optimize: bool = True) -> None:
        self.whole, self.threads, self.optimize = whole, threads, optimize
        self.report = Report()

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
        self.report.graphs += 1
        function = self._function(module)

        return _boxed(function)

    def _function(self, module: Any) -> Callable[..., Any]:
        try:
            runner = self._runner(module.graph)
        except Refused as refused:
            if self.whole:
                raise refused.error() from None
            return self._shared_out(module)
        return runner

    def _runner(self, graph: Any) -> Runner:
        name = f"graph_{len(self.report.runners)}"
        made = Runner(lower(graph), name, threads=self.threads, optimize=self.optimize)
        self.report.runners.append(made)
        return made

    def _shared_out(self, module: Any) -> Callable[..., Any]:
        """The parts of a graph that can be kernels as such, the others by PyTorch."""
        refused: set[Any] = set()
        for node in module.graph.nodes:
            if node.op == "call_function" and not _is_known(node):
                refused.add(node)
                self._leave(node, why_missing(node.target))
        while True:
            parts, again = _partitioned(module, refused), False
            runners: dict[str, Runner] = {}
            for name, part in parts.named_children():
                try:
                    runners[name] = self._runner(part.graph)
                except Refused as error:
                    found = _original(module, error.node, refused)
                    for node in found:
                        refused.add(node)
                        self._leave(node, error.reason)
                    again = True
                    break
            if not again:
                break
            del self.report.runners[len(self.report.runners) - len(runners) :]
        for name, runner in runners.items():
            setattr(parts, name, _Part(runner))
        interpreter = torch.fx.Interpreter(parts)
        return lambda inputs: interpreter.run(*inputs)

    def _leave(self, node: Any, reason: str) -> None:
        left = Left(str(node.target), user_line(node), reason)
        self.report.left.append(left)
        log.warning("left to PyTorch: %s", left)


def _boxed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as AOTAutograd calls one: with the list of inputs, which is emptied, so that what is not needed
    any more can go."""

    def boxed(inputs: list[Any]) -> Any:
        given = tuple(inputs)
        inputs.clear()
        return function(given)

    boxed.__dict__["_boxed_call"] = True
    return boxed


class _Part(torch.nn.Module):
    """A part of a graph that runs as kernels."""

    def __init__(self, runner: Runner) -> None:
        super().__init__()
        self._runner = runner

    def forward(self, *inputs: Any) -> Any:
        found = self._runner(inputs)
        return found[0] if len(found) == 1 else tuple(found)


def _is_known(node: Any) -> bool:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor | tuple | list):
        return True
    return node.target in operators() or getattr(node.target, "__name__", "") == "getitem"


def _partitioned(module: Any, refused: set[Any]) -> Any:
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    copied, names = _copy(module), {node.name for node in refused}

    class _Supported(OperatorSupportBase):
        def is_node_supported(self, submodules: Any, node: Any) -> bool:
            return node.op == "call_function" and node.name not in names

    partitioner = CapabilityBasedPartitioner(copied, _Supported(), allows_single_node_partition=True)
    return partitioner.partition_and_fuse()


def _copy(module: Any) -> Any:
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    made = torch.fx.GraphModule(module, graph)
    for old, new in zip(module.graph.nodes, made.graph.nodes, strict=True):
        new.meta = dict(old.meta)
    return made


def _original(module: Any, node: Any, refused: set[Any]) -> list[Any]:
    """The node of the whole graph that a node of a part stands for; all of the rest where it is not found."""
    found = [n for n in module.graph.nodes if n.name == node.name and n not in refused and n.op == "call_function"]
    return found or [n for n in module.graph.nodes if n.op == "call_function" and n not in refused]


def dojoir_backend(module: Any, example_inputs: Sequence[Any], **given: Any) -> Callable[..., Any]:
    """The backend `dojoir` of `torch.compile`, whose `options=` are those of Backend. Raises ArgumentError for one
    that there is not."""
    options = dict(given.get("options") or {})
    known = tuple(inspect.signature(Backend).parameters)
    for name in options:
        if name not in known:
            raise dojoir.ArgumentError(
                f"the backend dojoir has no option {str(name)[:80]!r}; it has: {', '.join(known)}",
                "bad-arguments",
            )
    return Backend(**options)(module, example_inputs)
