"""Graphs cut around the operators that have no text: these are left to PyTorch, the rest are kernels."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dojoir.torch.importer.graph import NoOperator, user_line, why_missing
from dojoir.torch.importer.operator_table import operators
from dojoir.torch.importer.program_runner import ProgramRunner

log = logging.getLogger("dojoir.torch")


@dataclass(frozen=True)
class Left:
    """An operator that is left to PyTorch: its name, the line of the model, and why."""

    operator: str
    line: str
    reason: str

    def __str__(self) -> str:
        return f"{self.operator}{f' at {self.line}' if self.line else ''}: {self.reason}"


@dataclass(frozen=True)
class CutGraph:
    """A graph as kernels and operators of PyTorch: `call` takes its inputs, and gives its results."""

    call: Callable[[Sequence[Any]], Sequence[Any]]
    runners: tuple[ProgramRunner, ...]
    left: tuple[Left, ...] = ()

    def told(self, name: str) -> None:
        """Says in one line of the log what was left to PyTorch; each operator, where the log shows that much."""
        for one in self.left:
            log.info("left to PyTorch: %s", one)
        if self.left:
            kernels, often = sum(len(r.parts) for r in self.runners), Counter(one.operator for one in self.left)
            shown = ", ".join(f"{n} {word}" if n > 1 else word for word, n in often.most_common(3))
            more = f" and {len(often) - 3} more" if len(often) > 3 else ""
            line = next((f", the first at {one.line}" for one in self.left if one.line), "")
            log.warning(
                "%s: %d kernels; left to PyTorch: %s%s%s (TORCH_LOGS=dojoir says all)",
                name,
                kernels,
                shown,
                more,
                line,
            )


def cut(module: Any, runner: Callable[[Any, int], ProgramRunner], whole: bool) -> CutGraph:
    """A graph as kernels; `runner` makes one of a graph, by its number. Raises ArgumentError, `no-operator`, where
    it is to be `whole` and something would be left."""
    try:
        made = runner(module.graph, 0)
        return CutGraph(made, (made,))
    except NoOperator as error:
        if whole:
            raise error.error() from None
    refused = {n: why_missing(n.target) for n in module.graph.nodes if n.op == "call_function" and not _is_known(n)}
    while True:
        parts, runners = _partitioned(module, set(refused)), dict[str, ProgramRunner]()
        try:
            for name, part in parts.named_children():
                runners[name] = runner(part.graph, len(runners))
            break
        except NoOperator as error:
            refused |= dict.fromkeys(_original(module, error.node, set(refused)), error.reason)
    for name, made in runners.items():
        setattr(parts, name, _GraphPart(made))
    parts.recompile()
    left = tuple(Left(str(node.target), user_line(node), reason) for node, reason in refused.items())
    return CutGraph(Whole(parts), tuple(runners.values()), left)


class Whole:
    """The call of a graph whose parts run as kernels."""

    def __init__(self, parts: Any) -> None:
        self._parts = parts

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        made: Sequence[Any] = self._parts(*inputs)
        return made


class _GraphPart(torch.nn.Module):
    """A part of a graph that runs as kernels."""

    def __init__(self, runner: ProgramRunner) -> None:
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
