"""The other peers of a text of practice: its PyTorch expression compiled, and as a model of ONNX Runtime.

Each takes the expression and its inputs and gives a call without arguments on one thread, with what it returns; a
peer that lacks an operation of the expression raises `Lacking`, and has no figure for that text.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

Call = Callable[[], Any]


class Lacking(Exception):
    """A peer cannot express a text, or cannot build it."""


def function_of(expression: str, names: list[str]) -> Callable[..., Any]:
    """The expression as a function of its inputs, so that they are no constants of what is compiled."""
    import torch
    import torch.nn.functional as functional

    space = {"torch": torch, "F": functional, "reduce": reduce}
    made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {expression}", space)
    return made


def compiled(expression: str, inputs: Mapping[str, Any]) -> Call:
    """By `torch.compile`, which writes C++ for one thread."""
    import torch

    torch._dynamo.reset()
    given = [*inputs.values()]
    made = torch.compile(function_of(expression, [*inputs]), dynamic=False, fullgraph=True)
    try:
        made(*given)
    except Exception as error:
        raise Lacking(_line(error)) from None
    return lambda: made(*given)


def onnx(expression: str, inputs: Mapping[str, Any]) -> Call:
    """By ONNX Runtime, from what `torch.onnx` makes of it, with inputs bound beforehand."""
    import torch

    try:
        import onnxruntime
        import onnxscript  # noqa: F401  # torch.onnx needs it
    except ImportError as error:
        raise Lacking(_line(error)) from None

    class Model(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return function_of(expression, [*inputs])(*given)

    given = tuple(value if isinstance(value, torch.Tensor) else torch.tensor(value) for value in inputs.values())
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(Model(), given, dynamo=True, verbose=False)
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

    def call() -> Any:
        session.run_with_iobinding(binding)
        return tuple(map(torch.from_numpy, binding.copy_outputs_to_cpu()))

    call()
    fast: Any = lambda: session.run_with_iobinding(binding)  # noqa: E731
    fast.results = call
    return fast


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


PEERS: dict[str, Callable[[str, Mapping[str, Any]], Call]] = {"compiled": compiled, "onnx": onnx}
