"""A graph of PyTorch read operator by operator: what is stored, what is written where it is read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

import dojoir
from dojoir.torch.importer.builder import ProgramBuilder, Tensor, Unsupported
from dojoir.torch.importer.in_place import write_in_place
from dojoir.torch.importer.index import IndexSum, as_index
from dojoir.torch.importer.merging import drop_ones, flatten, merge_loops, part, part_products
from dojoir.torch.importer.narrow import widen
from dojoir.torch.importer.nests import ImportedProgram, read, split_loops, written
from dojoir.torch.importer.operator_table import operators
from dojoir.torch.importer.results import (
    GivenInput,
    Input,
    KnownResult,
    Lowered,
    Result,
    Stored,
    Viewed,
    buffers_of,
)
from dojoir.torch.importer.views import REPLAYED

LARGEST_VALUE = 40
"""How many operations a value has at most before it is stored."""


class NoOperator(Exception):
    """An operator that there is no text for; `node` is where it stands."""

    def __init__(self, node: Any, reason: str) -> None:
        super().__init__(reason)
        self.node, self.reason = node, reason

    def error(self) -> dojoir.ArgumentError:
        """The error for the user, with the operator and the line of the model."""
        line = user_line(self.node)
        place = f", at {line}" if line else ""
        return dojoir.ArgumentError(
            f"{self.node.target} has no text in a kernel{place}: {self.reason}. Tried were the operators of "
            f"dojoir.torch.importer ({len(operators())} overloads) and PyTorch's decompositions of others; "
            f'torch.compile(module, backend="dojoir") leaves such an operator to PyTorch',
            "no-operator",
        )


def why_missing(target: Any) -> str:
    """The reason for which an operator has no text."""
    if torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()):
        return (
            "it draws random numbers, which kernels do not (dropout does while a module trains; module.eval() ends "
            "that)"
        )
    return "there is no such operator here"


def user_line(node: Any) -> str:
    """Where in the model an operator comes from, as PyTorch kept it: a line of the user's, or the module."""
    trace = node.meta.get("stack_trace") or ""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    frames = [n for n, line in enumerate(lines) if line.startswith("File ")]
    ours = os.path.dirname(torch.__file__), str(Path(__file__).parents[2])
    of_user = [n for n in frames if not any(folder in lines[n] for folder in ours)]
    modules = [*(node.meta.get("nn_module_stack") or {}).values()]
    if not of_user and modules:
        path, kind = modules[-1]
        return f"module {path or 'itself'} ({getattr(kind, '__name__', str(kind).rpartition('.')[2])})"
    for n in (of_user or frames)[-1:]:
        if lines[n].startswith("File "):
            file = lines[n].removeprefix("File ").split(", in ")[0].replace('"', "").replace(", line ", ":")
            code = lines[n + 1] if n + 1 < len(lines) else ""
            return f"{file}: `{code}`" if code else file
    return ""


def lower(
    graph: Any,
    names: Mapping[str, str] | None = None,
    size_names: Mapping[str, str] | None = None,
    changed: Mapping[int, int] | None = None,
) -> Lowered:
    """The program of a graph of ATen operators whose nodes carry fake tensors (`meta["val"]`). `names` gives better
    names for inputs, `size_names` for the symbols of PyTorch; `changed` the results that are new values of inputs,
    to be written there. Raises NoOperator."""
    reader = _GraphReader(names or {}, size_names or {})
    for node in graph.nodes:
        try:
            reader.read(node)
        except Unsupported as error:
            raise NoOperator(node, str(error)) from None
        except GuardOnDataDependentSymNode:
            raise NoOperator(node, "it has a number or a size that depends on data") from None
    return reader.finish(changed or {})


class _GraphReader:
    def __init__(self, names: Mapping[str, str], size_names: Mapping[str, str]) -> None:
        self.builder = ProgramBuilder(size_names)
        self.values: dict[Any, Any] = {}
        self.inputs: list[Input] = []
        self.numbers: dict[Any, int] = {}
        self.sizes: dict[str, tuple[int, int]] = {}
        self.names = names
        self.results: list[Result] = []
        self.constants: dict[str, torch.Tensor] = {}

    def read(self, node: Any) -> None:
        self.builder.node = node
        match node.op:
            case "placeholder":
                self._input(node)
            case "call_function":
                self.values[node] = self._kept(node, self._call(node))
            case "output":
                (given,) = node.args
                for one in given if isinstance(given, tuple | list) else (given,):
                    self.results.append(self._result(one))
            case "get_attr":
                self.values[node] = self._attribute(node)
            case _:
                raise Unsupported(f"a node of kind {node.op}")

    # -- what comes in ---------------------------------------------------------------------------------------
    def _input(self, node: Any) -> None:
        value = node.meta.get("val")
        number = len(self.inputs)
        self.numbers[node] = number
        name = self.names.get(node.name, node.name)
        if isinstance(value, torch.SymInt):
            expression = value.node.expr
            size = self.builder.size_name(str(expression)) if expression.is_Symbol else None
            if size is not None:
                self.sizes.setdefault(size, (number, -1))
            self.inputs.append(Input(name, None, size))
            self.values[node] = self.builder.of_sympy(expression)
            return
        if not isinstance(value, torch.Tensor):
            self.inputs.append(Input(name, None, None))
            self.values[node] = value
            return
        extents: Any = value.shape
        for d, extent in enumerate(extents):
            if isinstance(extent, torch.SymInt) and extent.node.expr.is_Symbol:
                self.sizes.setdefault(self.builder.size_name(str(extent.node.expr)), (number, d))
        try:
            shape, dtype = self.builder.shape(value), self.builder.dtype(value)
        except Unsupported as error:
            self.inputs.append(Input(name, None, None))
            self.values[node] = error  # of an input that is only handed on, or not used
            return
        if any(s.constant == 0 for s in shape):
            self.inputs.append(Input(name, None, None))
            self.values[node] = Tensor(shape, dtype, _nothing)
            return
        buffer = self.builder.declare(shape, dtype, name, self._order(value))
        self.inputs.append(Input(name, buffer.name, None))
        self.values[node] = self.builder.tensor(buffer, shape)

    def _attribute(self, node: Any) -> Any:
        found: Any = node.graph.owning_module
        for part_of in str(node.target).split("."):
            found = getattr(found, part_of, None)
        if not isinstance(found, torch.Tensor) or any(s == 0 for s in found.shape):
            raise Unsupported(f"the constant {node.target}, which is no tensor")
        shape, dtype = self.builder.shape(found), self.builder.dtype(found)
        buffer = self.builder.declare(shape, dtype)
        self.constants[buffer.name] = found  # as it is: graphs are read while PyTorch has fake tensors
        return self.builder.tensor(buffer, shape)

    # -- operators -------------------------------------------------------------------------------------------
    def _call(self, node: Any) -> Any:
        target = node.target
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            return self.builder.of_sympy(value.node.expr)
        if isinstance(value, int | float | torch.SymBool):
            return value
        if getattr(target, "__name__", "") == "getitem":
            return self._argument(node.args[0])[node.args[1]]
        if value is None and not node.users:
            return None  # an assertion
        found = operators().get(target)
        if found is None:
            raise Unsupported(why_missing(target))
        args = [self._argument(a) for a in node.args]
        kwargs = {k: self._argument(v) for k, v in node.kwargs.items()}
        try:
            return found(self.builder, *args, **kwargs)
        except (TypeError, KeyError, IndexError, ValueError) as error:
            raise Unsupported(f"its arguments {node.args}, {node.kwargs} ({error})") from error

    def _argument(self, given: Any) -> Any:
        if isinstance(given, torch.fx.Node):
            value = self.values[given]
            if isinstance(value, Unsupported):
                raise value
            return value
        if isinstance(given, tuple | list):
            return [self._argument(one) for one in given]
        return given

    def _kept(self, node: Any, made: Any) -> Any:
        """The value of an operator. It is stored in a buffer where its expression is long, or would be computed
        often."""
        if isinstance(made, tuple | list) or not isinstance(made, Tensor) or made.buffer is not None:
            return made
        made = replace(made, label=node.name)
        readers = len(node.users)
        if node.target in REPLAYED and readers <= 1:
            return made
        found = self.builder.cost(made)
        often = readers > 1 and (found.costly or found.operations > 6 or found.reads > 2)
        if often or found.operations > LARGEST_VALUE:
            return self.builder.realize(made)
        return made

    # -- what goes out ---------------------------------------------------------------------------------------
    def _result(self, node: Any) -> Result:
        if not isinstance(node, torch.fx.Node):
            return KnownResult(node)
        if node in self.numbers and isinstance(node.meta.get("val"), torch.Tensor):
            return GivenInput(self.numbers[node])
        value = self._argument(node)
        if isinstance(value, IndexSum):
            return KnownResult(value)
        if not isinstance(value, Tensor):
            return KnownResult(value)
        chain = self._replayed(node)
        if chain is not None:
            return chain
        self.builder.node = node
        if value.buffer is None or self._is_input(value.buffer):
            value = self.builder.realize(Tensor(value.shape, value.dtype, value.at))
        self.values[node] = value
        assert value.buffer is not None
        self._laid_out(node, value)
        return Stored(value.buffer, value.shape, node.meta["val"].dtype)

    def _laid_out(self, node: Any, value: Tensor) -> None:
        """Has a result lie in memory as PyTorch's own does."""
        buffer, order = self.builder.program.buffers[value.buffer or ""], self._order(node.meta["val"])
        if order is not None and buffer.shape == value.shape:
            self.builder.program.buffers[buffer.name] = replace(buffer, order=order)

    def _order(self, value: Any) -> tuple[int, ...] | None:
        """The dimensions from outermost to innermost in memory, of a tensor that is dense in another order. Sizes
        of the example only say which order to try: PyTorch fixes a size that it compares with a number."""
        steps = value.stride()
        if not all(isinstance(step, int) or step.node.has_hint() for step in steps):
            return None
        try:
            shape, strides = self.builder.shape(value), [self.builder.size(step) for step in steps]
        except Unsupported:  # a stride that is no sum of products of sizes
            return None
        hints = [step if isinstance(step, int) else step.node.hint for step in steps]
        order = sorted(range(len(shape)), key=lambda d: (-hints[d], d))
        is_plain = _is_dense(shape, strides, range(len(shape)))
        return tuple(order) if not is_plain and _is_dense(shape, strides, order) else None

    def _is_input(self, buffer: str) -> bool:
        return buffer in self.constants or any(one.buffer == buffer for one in self.inputs)

    def _replayed(self, node: Any) -> Viewed | None:
        """A result as a view of what is stored anyway."""
        steps: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        at = node
        while at.op == "call_function" and at.target in REPLAYED:
            own = self.values.get(at)
            if (
                isinstance(own, Tensor)
                and own.buffer is not None
                and own.shape == self.builder.shape(at.meta["val"])
            ):
                break
            steps.append((at.target, self._plain(at.args[1:]), dict(at.kwargs)))
            at = at.args[0]
        if not steps:
            return None
        if at in self.numbers:
            return Viewed(GivenInput(self.numbers[at]), tuple(reversed(steps)))
        own = self.values.get(at)
        if not isinstance(own, Tensor):
            return None
        if own.buffer is None:
            if len(at.users) > 1:
                return None
            self.builder.node = at
            own = self.values[at] = self.builder.realize(own)
        if self._is_input(own.buffer or "") or own.buffer is None:
            return None
        if any(s.constant == 0 for s in own.shape):
            return None
        self._laid_out(at, own)
        return Viewed(Stored(own.buffer, own.shape, at.meta["val"].dtype), tuple(reversed(steps)))

    def _plain(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Arguments of a view, with sizes as indices."""
        return tuple(self._argument(list(a) if isinstance(a, tuple | list) else a) for a in args)

    def finish(self, changed: Mapping[int, int]) -> Lowered:
        program = self.builder.program
        _prune(program, self.results)
        outside = {one.buffer for one in self.inputs if one.buffer is not None} | {*self.constants}
        widen(program, outside | buffers_of(self.results) | program.factors)
        in_place = write_in_place(program, self.inputs, self.results, changed)
        flatten(program)
        for name, d, by in self.builder.parted:
            if name in {b for nest in program.nests for b in written(nest) | read(nest)}:
                part(program, name, d, by)
        while True:
            part_products(program)
            before = program.nests
            program.nests = [split_loops(nest, self.builder.var) for nest in before]
            if all(new is old for new, old in zip(program.nests, before, strict=True)):
                break
        drop_ones(program)
        merge_loops(program, self.builder.var)
        names, origins = dict(self.builder.size_names), self.builder.origins
        return Lowered(program, self.inputs, self.results, self.constants, self.sizes, names, in_place, origins)


def _nothing(_: Any) -> Any:
    raise Unsupported("an element of a tensor without elements")


def _prune(program: ImportedProgram, results: Sequence[Result]) -> None:
    """Removes nests whose results nothing reads (dead code)."""
    wanted = buffers_of(results)
    kept = []
    for nest in reversed(program.nests):
        if written(nest) & wanted:
            wanted |= read(nest)
            kept.append(nest)
    program.nests = list(reversed(kept))


def _is_dense(shape: Sequence[IndexSum], strides: Sequence[IndexSum], order: Sequence[int]) -> bool:
    """Whether dimensions lie inside of each other in an order, the last one innermost."""
    step = as_index(1)
    for d in reversed(order):
        if shape[d] != as_index(1):
            if strides[d] != step:
                return False
            step = step * shape[d]
    return True
