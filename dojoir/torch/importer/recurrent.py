"""Recurrent layers as loops over time: `nn.LSTM`, `nn.GRU` and `nn.RNN`, of any depth and in both directions.

The products with the inputs of all times are one nest before the loop over time, as they do not depend on the
states. The equations are those of PyTorch's documentation of the three modules; the state after step s is row s + 1
of one array, whose row 0 is the state that is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch

import dojoir
from dojoir.torch.importer.builder import Place, ProgramBuilder, Tensor, Unsupported, element
from dojoir.torch.importer.element_values import DType, Value, apply, cast, number
from dojoir.torch.importer.index import IndexSum, as_index, degree
from dojoir.torch.importer.nests import Node, ProgramBuffer, ProgramStatement, loops
from dojoir.torch.importer.views import reshape, transpose

aten: Any = torch.ops.aten


@dataclass(frozen=True)
class _Weights:
    """The parameters of one layer in one direction: of inputs `[gates * H, I]`, of states `[gates * H, P]`, the
    biases of both, `[gates * H]`, and the projection of an LSTM, `[P, H]`."""

    of_input: Tensor
    of_state: Tensor
    biases: tuple[Tensor, ...]
    projection: Tensor | None


@dataclass(frozen=True)
class _Step:
    """The operands of an element of the next state: the sums of each gate over the inputs and over the states, with
    their biases; the state before, and the cell of an LSTM."""

    inputs: tuple[Value, ...]
    states: tuple[Value, ...]
    before: Value
    cell: Value

    def gate(self, which: int, function: str = "sigmoid") -> Value:
        return apply(function, apply("+", self.inputs[which], self.states[which]))


def _lstm_cell(step: _Step) -> Value:
    """The cell after a step."""
    kept = apply("*", step.gate(1), step.cell)
    return apply("+", kept, apply("*", step.gate(0), step.gate(2, "tanh")))


def _lstm(step: _Step) -> Value:
    """The state after a step, whose cell is the new one."""
    return apply("*", step.gate(3), apply("tanh", step.cell))


def _gru(step: _Step) -> Value:
    new = apply("tanh", apply("+", step.inputs[2], apply("*", step.gate(0), step.states[2])))
    return apply("+", new, apply("*", step.gate(1), apply("-", step.before, new)))


def _rnn(function: str) -> Callable[[_Step], Value]:
    if function == "tanh":
        return lambda step: step.gate(0, "tanh")
    return lambda step: apply("max", apply("+", step.inputs[0], step.states[0]), number(0, step.before.dtype))


@dataclass(frozen=True)
class _LayerKind:
    """A kind of recurrent layer: its number of gates, its next state, and its next cell if it has one."""

    gates: int
    state: Callable[[_Step], Value]
    cell: Callable[[_Step], Value] | None = None


def _layer(
    b: ProgramBuilder, kind: _LayerKind, x: Tensor, first: Tensor, cell: Tensor | None, w: _Weights,
    backwards: bool, batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """The states of one layer in one direction at all times, `[T, B, P]`, and the last state and cell, of inputs
    `[T, B, I]`, or `[B, T, I]` if `batch_first`."""
    steps, batch = (x.shape[1], x.shape[0]) if batch_first else x.shape[:2]
    width = w.projection.shape[1] if w.projection else w.of_state.shape[1]
    dtype, wide, rows = x.dtype, x.dtype.compute, w.of_input.shape[0]
    inputs = _of_inputs(b, x, w.of_input, wide)
    states = b.declare((steps + 1, batch, w.of_state.shape[1]), dtype, f"{b.node.name}_states")
    _copy(b, states, first, as_index(0))
    cells = None
    if cell is not None:
        cells = b.declare((batch, width), wide, f"{b.node.name}_cell")
        _copy(b, cells, cell)
    sums = b.declare((batch, rows), wide, f"{b.node.name}_sums")

    whole, (step,) = b.iterate((steps,))
    time = steps - 1 - step if backwards else step
    body = _sums_over(b, sums, w.of_state, lambda row, k: element(states, (step, row, k)))
    target = states if w.projection is None else b.declare((batch, width), wide, f"{b.node.name}_raw")
    variables, (row, column) = b.iterate((batch, width))

    def made() -> _Step:
        places = [column + width * gate for gate in range(kind.gates)]
        of_inputs = [inputs.at((row, time, place) if batch_first else (time, row, place)) for place in places]
        of_states: list[Value] = [element(sums, (row, place)) for place in places]
        if w.biases:
            pairs = zip(of_inputs, of_states, places, strict=True)
            biased = [[apply("+", one, cast(w.biases[n].at((at,)), wide)) for n, one in enumerate((i, s))]
                      for i, s, at in pairs]  # fmt: skip
            of_inputs, of_states = [one for one, _ in biased], [other for _, other in biased]
        before = cast(element(states, (step, row, column)), wide) if w.projection is None else number(0, wide)
        kept = element(cells, (row, column)) if cells is not None else number(0, wide)
        return _Step(tuple(of_inputs), tuple(of_states), before, kept)

    inner: list[Node] = []
    if kind.cell is not None and cells is not None:
        inner.append(ProgramStatement(element(cells, (row, column)), "=", kind.cell(made())))
    place = (step + 1, row, column) if w.projection is None else (row, column)
    inner.append(ProgramStatement(element(target, place), "=", cast(kind.state(made()), target.dtype)))
    body += loops(variables, inner)
    if w.projection is not None:
        projected = b.declare((batch, w.projection.shape[0]), wide, f"{b.node.name}_projected")
        body += _sums_over(b, projected, w.projection, lambda row, k: element(target, (row, k)))
        variables, (row, column) = b.iterate((batch, w.projection.shape[0]))
        last = cast(element(projected, (row, column)), dtype)
        body += loops(variables, [ProgramStatement(element(states, (step + 1, row, column)), "=", last)])
    b.emit(whole, *body)

    shape = (steps, batch, w.of_state.shape[1])
    whole_states = b.tensor(states)

    def at(index: Place) -> Value:
        return whole_states.at((steps - index[0] if backwards else index[0] + 1, *index[1:]))

    end = Tensor(shape[1:], dtype, lambda index: whole_states.at((steps, *index)))
    return Tensor(shape, dtype, at), end, None if cells is None else b.tensor(cells, (batch, width), dtype)


def _of_inputs(b: ProgramBuilder, x: Tensor, weights: Tensor, dtype: DType) -> Tensor:
    """The products of all inputs with the weights, `[…, gates * H]`: of one matrix, whose rows are those of all
    times and batches, unless both sizes are open."""
    x, outer = b.stored(x), x.shape[:2]
    if degree(outer[0] * outer[1]) < 2:
        x = reshape(x, (outer[0] * outer[1], x.shape[2]))

    def product(index: Place, below: Place) -> Value:
        left, right = x.at((*index[:-1], below[0])), weights.at((index[-1], below[0]))
        return apply("*", cast(left, dtype), cast(right, dtype))

    made = b.reduce((*x.shape[:-1], weights.shape[0]), [x.shape[-1]], product, "+=", 0, dtype)
    return reshape(made, (*outer, weights.shape[0]))


def _copy(b: ProgramBuilder, buffer: ProgramBuffer, tensor: Tensor, *before: IndexSum) -> None:
    """Fills a buffer, or the part of it behind some indices."""
    variables, index = b.iterate(tensor.shape)
    b.emit(
        variables, ProgramStatement(element(buffer, (*before, *index)), "=", cast(tensor.at(index), buffer.dtype))
    )


def _sums_over(
    b: ProgramBuilder, sums: ProgramBuffer, weights: Tensor, value: Callable[[IndexSum, IndexSum], Value]
) -> tuple[Node, ...]:
    """`sums[row, j] = sum over k of value(row, k) * weights[j, k]`."""
    variables, (row, place) = b.iterate(sums.shape)
    below, (k,) = b.iterate((weights.shape[1],))
    target = element(sums, (row, place))
    term = apply("*", cast(value(row, k), sums.dtype), cast(weights.at((place, k)), sums.dtype))
    return loops(
        variables,
        [
            ProgramStatement(target, "=", number(0, sums.dtype)),
            *loops(below, [ProgramStatement(target, "+=", term)]),
        ],
    )


def _one_row(tensor: Tensor) -> Tensor:
    """With a dimension of 1 before the others."""
    return Tensor((as_index(1), *tensor.shape), tensor.dtype, lambda index: tensor.at(index[1:]))


def _row(tensor: Tensor, which: int) -> Tensor:
    return Tensor(tensor.shape[1:], tensor.dtype, lambda index: tensor.at((as_index(which), *index)))


def _recurrent(kind: _LayerKind) -> Callable[..., Any]:
    def lower(
        b: ProgramBuilder, x: Tensor, hx: Any, params: Any, has_biases: bool, layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        if train and dropout > 0 and layers > 1:
            raise Unsupported("dropout draws random numbers while the module trains: module.eval() ends that")
        first, cells = (hx[0], hx[1]) if kind.cell is not None else (hx, None)
        ways, each = 2 if bidirectional else 1, 4 if has_biases else 2
        projects = kind.cell is not None and len(params) == layers * ways * (each + 1)
        each += projects
        name = b.node.name
        ends: list[Tensor] = []
        last_cells: list[Tensor] = []
        for layer in range(layers):
            outputs: list[Tensor] = []
            for way in range(ways):
                which = layer * ways + way
                own = [b.stored(one) for one in params[which * each : (which + 1) * each]]
                w = _Weights(own[0], own[1], tuple(own[2:4]) if has_biases else (), own[-1] if projects else None)
                cell = _row(cells, which) if cells is not None else None
                rows_first = batch_first and layer == 0
                states, end, end_cell = _layer(b, kind, x, _row(first, which), cell, w, way == 1, rows_first)
                outputs.append(states)
                ends.append(_one_row(end))
                last_cells += [] if end_cell is None else [_one_row(end_cell)]
            shape = outputs[0].shape
            if ways == 2:
                shape = (*shape[:2], shape[2] + outputs[1].shape[2])
            is_last = layer + 1 == layers and ways == 1
            x = outputs[0] if is_last else b.joined(outputs, 2, shape, x.dtype, f"{name}_outputs")
        out = transpose(b, x, 0, 1) if batch_first else x
        found = [out, _stacked(b, ends, f"{name}_last")]
        if cells is not None:
            found.append(_stacked(b, last_cells, f"{name}_last_cell"))
        return tuple(found)

    return lower


def _stacked(b: ProgramBuilder, rows: Sequence[Tensor], name: str) -> Tensor:
    if len(rows) == 1:
        return rows[0]
    return b.joined(rows, 0, (as_index(len(rows)), *rows[0].shape[1:]), rows[0].dtype, name)


TABLE: dict[Any, Callable[..., Any]] = {
    aten.lstm.input: _recurrent(_LayerKind(4, _lstm, _lstm_cell)),
    aten.gru.input: _recurrent(_LayerKind(3, _gru)),
    aten.rnn_tanh.input: _recurrent(_LayerKind(1, _rnn("tanh"))),
    aten.rnn_relu.input: _recurrent(_LayerKind(1, _rnn("relu"))),
}

KEPT_WHOLE = frozenset(TABLE)
"""The operators that PyTorch would write out step by step."""


@contextmanager
def shapes_alone() -> Iterator[None]:
    """Lets PyTorch ask for the shapes of recurrent layers without running each of their steps, which takes it
    milliseconds a step: its definitions of them in Python, which it traces with tensors that have no elements, are
    exchanged meanwhile."""
    from torch._decomp import decomposition_table

    kernels = {operator: dict(operator.py_kernels) for operator in KEPT_WHOLE}
    definitions = {operator: decomposition_table[operator] for operator in KEPT_WHOLE}
    try:
        for operator in KEPT_WHOLE:
            _exchange(operator, dict.fromkeys(operator.py_kernels, _shapes))
            decomposition_table[operator] = _shapes
        with patch.object(torch._VF, "_pack_padded_sequence", _not_packed):
            yield
    finally:
        for operator in KEPT_WHOLE:
            _exchange(operator, kernels[operator])
        decomposition_table.update(definitions)


@contextmanager
def steps_written_out() -> Iterator[None]:
    """Lets `torch.compile` take recurrent layers, whose steps PyTorch then writes out by plain operators, and none
    by an operator of oneDNN."""
    options: Any = torch._dynamo.config
    before = torch._C._get_mkldnn_enabled()
    try:
        torch._C._set_mkldnn_enabled(False)
        with options.patch(allow_rnn=True):
            yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def _not_packed(*_: Any) -> Any:
    raise dojoir.ArgumentError(
        "packed sequences are as long as their data say, which PyTorch does not export: "
        'torch.compile(module, backend="dojoir") takes the module, and leaves that layer to PyTorch',
        "no-export",
    )


def _exchange(operator: Any, kernels: Mapping[Any, Any]) -> None:
    operator.py_kernels.clear()
    operator.py_kernels.update(kernels)
    operator._dispatch_cache.clear()


def _shapes(x: Any, hx: Any, params: Any, has_biases: bool, layers: int, *rest: Any) -> Any:
    """Empty tensors of the shapes of the results: states, last state, and the last cell of an LSTM."""
    batch_first = rest[-1]
    states = list(hx) if isinstance(hx, list | tuple) else [hx]
    ways = states[0].shape[0] // layers
    out = x.new_empty((*x.shape[:2], ways * states[0].shape[2]))
    if batch_first:  # as PyTorch's own, whose steps are outermost in memory
        out = x.new_empty((x.shape[1], x.shape[0], out.shape[2])).transpose(0, 1)
    return (out, *(x.new_empty(one.shape) for one in states))
