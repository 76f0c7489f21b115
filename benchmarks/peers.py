"""The peers of a text: its PyTorch expression eager, compiled, in JAX and as a model of ONNX Runtime, its loops by
Numba and as C, what it says in NumPy, and the text as it is written or planned without its sizes.

Each takes a text and its inputs and gives a contestant; a peer that lacks an operation of the text raises
`Lacking`, and has no figure for it. JAX has as many threads as the process has cores, and so has the BLAS of
NumPy.
"""

from __future__ import annotations

import ctypes
import io
import logging
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
from suites import Text, numpy_type, shape_of

import dojoir

Call = Callable[[], Any]

Inputs = Mapping[str, np.ndarray]
"""Arrays by name, without dimensions for numbers."""

FLAGS = ("-O3", "-march=native", "-ffast-math", "-std=c11", "-shared", "-fPIC")
COMPILERS = {"gcc": ("gcc",), "clang": ("clang", "clang-19")}


@dataclass(frozen=True)
class Contestant:
    """A call that is timed, its results, which are compared once, and what puts its arrays as they were."""

    call: Call
    results: Callable[[], tuple[np.ndarray, ...]]
    reset: Callable[[], object] = lambda: None


class Lacking(Exception):
    """A peer cannot express a text, or cannot build it."""


# -- those that work on arrays in place ------------------------------------------------------------------------
def on_page(array: np.ndarray) -> np.ndarray:
    """A copy that begins at a page: else luck says whose vectors cross lines."""
    if not array.shape:
        return array
    space = np.empty(array.nbytes + 4096, np.uint8)
    begin = -space.ctypes.data % 4096
    copy = space[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def in_place(text: Text, inputs: Inputs, bind: Callable[[dict[str, np.ndarray]], Call]) -> Contestant:
    """A call on the inputs, and on arrays of its own that it writes."""
    written = [b for b in text.kernel.arguments if b.role != "in"]
    shapes = {b.name: np.zeros(shape_of(b, text.sizes), numpy_type(b)) for b in written}
    own = {b.name: on_page(inputs[b.name] if b.role == "inout" else shapes[b.name]) for b in written}
    again = [b.name for b in written if b.role == "inout"]

    def reset() -> None:
        for name in again:
            own[name][...] = inputs[name]

    names = [b.name for b in text.kernel.arguments]
    call = bind({name: own[name] if name in own else inputs[name] for name in names})
    return Contestant(call, lambda: tuple(_values(own[b.name], b) for b in written), reset)


def _values(array: np.ndarray, buffer: Any) -> np.ndarray:
    return (array.astype(np.uint32) << 16).view(np.float32) if str(buffer.dtype) == "bf16" else array


def by_dojoir(text: Text, inputs: Inputs, kernel: dojoir.Kernel, target: str = "llvm") -> Contestant:
    """A kernel that dojoir compiles, for one thread."""
    compiled = dojoir.compile(kernel, target, threads=1)
    sizes = {name: size for name, size in text.sizes.items() if name in kernel.runtime_sizes}
    return in_place(text, inputs, lambda arrays: compiled.bind(*arrays.values(), **sizes))


def as_written(text: Text, inputs: Inputs) -> Contestant:
    """The text without a schedule."""
    return by_dojoir(text, inputs, text.kernel)


def of_open_sizes(text: Text, inputs: Inputs) -> Contestant:
    """What `optimize` makes of the text where no sizes are told: above 1.3, a version by size is missing."""
    return by_dojoir(text, inputs, dojoir.optimize(text.kernel, threads=1).kernel)


def by_compiler(which: str, text: Text, inputs: Inputs) -> Contestant:
    """What `dojoir.emit` prints of the text as it is written, with the sizes as constants."""
    compiler = next(filter(shutil.which, COMPILERS[which]), None)
    if compiler is None:
        raise Lacking("it is not installed")
    kernel = text.kernel.specialize(**text.sizes)
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "text.c", Path(folder) / "text.so"
        code = dojoir.emit(kernel, "c").replace("#pragma STDC FP_CONTRACT OFF", "")  # they may fuse as they like
        source.write_text(code, encoding="utf-8")
        try:
            subprocess.run([compiler, *FLAGS, source, "-o", library, "-lm"], check=True, capture_output=True)
        except subprocess.CalledProcessError as error:
            raise Lacking(error.stderr.decode(errors="replace")[:100]) from None
        function = getattr(ctypes.CDLL(str(library)), kernel.name)

    def bind(arrays: dict[str, np.ndarray]) -> Call:
        given = [_in_c(array, b.role) for array, b in zip(arrays.values(), kernel.arguments, strict=True)]
        return lambda: function(*given)

    return in_place(text, inputs, bind)


def _in_c(array: np.ndarray, role: str) -> Any:
    if array.shape or role != "in":
        return array.ctypes.data_as(ctypes.c_void_p)
    kinds = {"f8": ctypes.c_double, "f4": ctypes.c_float, "i8": ctypes.c_int64, "i4": ctypes.c_int32}
    if array.dtype.str[1:] not in kinds:
        raise Lacking(f"a number of type {array.dtype} is none of C")
    return kinds[array.dtype.str[1:]](array.item())


def by_numba(text: Text, inputs: Inputs) -> Contestant:
    """The loops of the text by Numba."""
    try:
        from numba_text import call_of
    except ImportError as error:
        raise Lacking(_line(error)) from None
    kernel = text.kernel.specialize(**text.sizes)

    def bind(arrays: dict[str, np.ndarray]) -> Call:
        try:
            made: Call = call_of(
                kernel,
                [
                    one.item() if b.role == "in" and not one.shape else one
                    for one, b in zip(arrays.values(), kernel.arguments, strict=True)
                ],
            )
        except Exception as error:
            raise Lacking(_line(error)) from None
        return made

    return in_place(text, inputs, bind)


def in_numpy(text: Text, inputs: Inputs) -> Contestant:
    """What a comment says in NumPy and SciPy: an expression, or statements on the arrays."""
    if not text.numpy:
        raise Lacking("nothing is said in NumPy")
    space: dict[str, Any] = {"np": np, **text.sizes}
    try:
        code = None if "out=" in text.numpy else compile(text.numpy, "numpy", "eval")
    except SyntaxError:
        code = None
    if code is None:
        lines = "".join(f"    {line}\n" for part in text.numpy.split("; ") for line in part.splitlines())
        with_scipy = "    from scipy import linalg\n" if "linalg." in text.numpy else ""
        exec(f"def run({', '.join(b.name for b in text.kernel.arguments)}):\n{with_scipy}{lines}", space)
        return in_place(text, inputs, lambda arrays: partial(space["run"], *arrays.values()))

    def call() -> Any:
        return eval(code, space | inputs)

    return Contestant(call, lambda: (np.asarray(call()),))


# -- those that PyTorch's expression is given to ----------------------------------------------------------------
def function_of(text: Text, expression: str = "", sizes: Mapping[str, int] | None = None) -> Callable[..., Any]:
    """PyTorch's expression as a function of the inputs, so that they are no constants of what is compiled."""
    import torch
    import torch.nn.functional as functional

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    names = [b.name for b in text.kernel.arguments if b.role != "out"]
    space = {"torch": torch, "F": functional, "reduce": reduce, **(sizes or text.sizes)}
    if not (expression or text.eager):
        raise Lacking("nothing is said in PyTorch")
    made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {expression or text.eager}", space)
    return made


def as_results(found: Any) -> tuple[Any, ...]:
    """What an expression gives, one or several."""
    return found if isinstance(found, tuple) else (found,)


def _tensors(text: Text, inputs: Inputs, numbers: bool = True) -> list[Any]:
    """The inputs as tensors, which share their memory; numbers as numbers, or as tensors."""
    import torch

    of_bits = {b.name for b in text.kernel.arguments if str(b.dtype) == "bf16"}
    tensors = {name: torch.from_numpy(one) for name, one in inputs.items()}
    tensors |= {name: tensors[name].view(torch.bfloat16) for name in of_bits & tensors.keys()}
    return [one if one.shape or not numbers else one.item() for one in tensors.values()]


def _of_torch(function: Callable[..., Any], text: Text, inputs: Inputs) -> Contestant:
    """A call of a function of tensors. Raises Lacking where PyTorch refuses it."""
    given = _tensors(text, inputs)
    try:
        found = as_results(function(*given))
    except Exception as error:
        raise Lacking(_line(error)) from None
    arrays = tuple((one.float() if one.itemsize == 2 else one).numpy() for one in found)
    return Contestant(lambda: function(*given), lambda: arrays)


def eager(text: Text, inputs: Inputs) -> Contestant:
    """By PyTorch, as the expression says."""
    return _of_torch(function_of(text), text, inputs)


def compiled(text: Text, inputs: Inputs) -> Contestant:
    """By `torch.compile`, which writes C++ for one thread."""
    import torch

    torch._dynamo.reset()
    return _of_torch(torch.compile(function_of(text), dynamic=False, fullgraph=True), text, inputs)


def onnx(text: Text, inputs: Inputs) -> Contestant:
    """By ONNX Runtime, from what `torch.onnx` makes of it, with inputs bound beforehand."""
    import torch

    try:
        import onnxruntime
        import onnxscript  # noqa: F401  # torch.onnx needs it
    except ImportError as error:
        raise Lacking(_line(error)) from None

    given = tuple(_tensors(text, inputs, numbers=False))
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(_module(text), given, dynamo=True, verbose=False)
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

    return Contestant(lambda: session.run_with_iobinding(binding), lambda: tuple(binding.copy_outputs_to_cpu()))


def in_jax(text: Text, inputs: Inputs) -> Contestant:
    """By JAX, from what `torch.export` makes of it."""
    try:
        from jax_of_torch import call_of

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call, results = call_of(_module(text), tuple(_tensors(text, inputs, numbers=False)))
    except Exception as error:
        raise Lacking(_line(error)) from None
    return Contestant(call, lambda: tuple(map(np.array, results())))


def _module(text: Text) -> Any:
    """The expression as a module of PyTorch."""
    import torch

    function = function_of(text)

    class Model(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return function(*given)

    return Model()


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


PEERS: Mapping[str, Callable[[Text, Inputs], Contestant]] = {
    "eager": eager, "compiled": compiled, "onnx": onnx, "jax": in_jax, "numba": by_numba, "numpy": in_numpy,
    "gcc": partial(by_compiler, "gcc"), "clang": partial(by_compiler, "clang"), "text": as_written,
    "open": of_open_sizes,
}  # fmt: skip
OWN = ("text", "open")
"""Those that are dojoir's too: no ratio to the best peer has them."""
