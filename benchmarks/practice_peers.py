"""The other peers of a text of practice: its PyTorch expression compiled, in JAX, and as a model of ONNX Runtime,
and its loops by Numba.

Each takes a text and its inputs and gives a call without arguments, with what it returns; a peer that lacks an
operation of the text raises `Lacking`, and has no figure for it. JAX has as many threads as the process has cores.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Protocol

import numpy as np

import dojoir

Call = Callable[[], Any]

Inputs = Mapping[str, Any]
"""Tensors by name, and numbers for inputs without dimensions."""


class Text(Protocol):
    """What the peers need of a text."""

    @property
    def eager(self) -> str:
        """Its mathematics in PyTorch, an expression of the names of its inputs."""

    @property
    def kernel(self) -> dojoir.Kernel: ...

    @property
    def sizes(self) -> dict[str, int]: ...


class Lacking(Exception):
    """A peer cannot express a text, or cannot build it."""


def function_of(expression: str, names: list[str]) -> Callable[..., Any]:
    """The expression as a function of its inputs, so that they are no constants of what is compiled."""
    import torch
    import torch.nn.functional as functional

    space = {"torch": torch, "F": functional, "reduce": reduce}
    made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {expression}", space)
    return made


def compiled(text: Text, inputs: Inputs) -> Call:
    """By `torch.compile`, which writes C++ for one thread."""
    import torch

    torch._dynamo.reset()
    given = [*inputs.values()]
    made = torch.compile(function_of(text.eager, [*inputs]), dynamic=False, fullgraph=True)
    try:
        made(*given)
    except Exception as error:
        raise Lacking(_line(error)) from None
    return lambda: made(*given)


def onnx(text: Text, inputs: Inputs) -> Call:
    """By ONNX Runtime, from what `torch.onnx` makes of it, with inputs bound beforehand."""
    import torch

    try:
        import onnxruntime
        import onnxscript  # noqa: F401  # torch.onnx needs it
    except ImportError as error:
        raise Lacking(_line(error)) from None

    given = _tensors(inputs)
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(_module(text.eager, [*inputs]), given, dynamo=True, verbose=False)
        file = io.BytesIO()
        program.save(file)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        kept = [np.ascontiguousarray(value.numpy()) for value in given]
        for wanted, array in zip(session.get_inputs(), _wanted(session, kept, [*inputs]), strict=True):
            binding.bind_cpu_input(wanted.name, array)
        for result in session.get_outputs():
            binding.bind_output(result.name)
        session.run_with_iobinding(binding)
    except Exception as error:
        raise Lacking(_line(error)) from None
    finally:
        logging.disable(logging.NOTSET)

    return _with_results(lambda: session.run_with_iobinding(binding), lambda: tuple(binding.copy_outputs_to_cpu()))


def in_jax(text: Text, inputs: Inputs) -> Call:
    """By JAX, from what `torch.export` makes of it."""
    try:
        from practice_jax import call_of

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call, results = call_of(_module(text.eager, [*inputs]), _tensors(inputs))
    except Exception as error:
        raise Lacking(_line(error)) from None
    return _with_results(call, results)


def by_numba(text: Text, inputs: Inputs) -> Call:
    """The loops of the text by Numba, into arrays of their own."""
    kernel = text.kernel.specialize(**text.sizes)
    given = {name: value.numpy() if hasattr(value, "numpy") else value for name, value in inputs.items()}
    try:
        from numba_text import NUMPY, call_of

        for buffer in kernel.arguments:
            if buffer.role == "out":
                shape = [dim.extent.evaluate({}) for dim in buffer.dims]
                given[buffer.name] = np.empty(shape, NUMPY[str(buffer.dtype)])
        call = call_of(kernel, [given[buffer.name] for buffer in kernel.arguments])
    except Exception as error:
        raise Lacking(_line(error)) from None
    return _with_results(call, lambda: tuple(given[b.name] for b in kernel.arguments if b.role == "out"))


def _module(expression: str, names: list[str]) -> Any:
    """The expression as a module of PyTorch."""
    import torch

    class Model(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return function_of(expression, names)(*given)

    return Model()


def _tensors(inputs: Inputs) -> tuple[Any, ...]:
    """The inputs, numbers too, as tensors."""
    import torch

    return tuple(value if isinstance(value, torch.Tensor) else torch.tensor(value) for value in inputs.values())


def _with_results(call: Call, results: Callable[[], tuple[Any, ...]]) -> Call:
    """A call that is timed, and its results as tensors, which are compared once."""
    import torch

    call.results = lambda: tuple(torch.from_numpy(np.array(r)) for r in results())  # type: ignore[attr-defined]
    return call


def _wanted(session: Any, arrays: list[np.ndarray], names: list[str]) -> list[np.ndarray]:
    """The arrays that a session takes, in its order: an input that the expression does not read is not there."""
    by_name = dict(zip(names, arrays, strict=True))
    wanted = [one.name for one in session.get_inputs()]
    if len(wanted) == len(arrays):
        return arrays
    if all(name in by_name for name in wanted):
        return [by_name[name] for name in wanted]
    raise Lacking("its inputs are not those of the expression")


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:100]


PEERS: dict[str, Callable[[Text, Inputs], Call]] = {
    "compiled": compiled, "onnx": onnx, "jax": in_jax, "numba": by_numba,
}  # fmt: skip
