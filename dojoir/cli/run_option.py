"""`dojoir-opt --run`: inputs from files or random ones, and what the kernel returns."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dojoir
from dojoir.cli.error_report import FINE
from dojoir.cli.options import Options
from dojoir.support.files import write_file

Array = NDArray[Any]


def run_kernel(options: Options, trace: dojoir.Trace) -> tuple[str, int]:
    """Runs the kernel; describes what it returns, or writes it to the .npz file of `-o`."""
    kernel = trace.kernel
    given = read_inputs(kernel, options.inputs)
    sizes = dict(options.sizes)
    inputs = dojoir.testing.random_inputs(kernel, given, seed=options.seed, sizes=sizes)
    compiled = dojoir.compile(
        kernel, options.target, cpu=options.cpu, threads=options.threads, emulated=options.emulated
    )
    outputs = compiled.run(inputs, **sizes)
    if options.output is not None:
        write_file(options.output, _packed(outputs))
    if options.json:
        return json.dumps({name: _facts(array) for name, array in outputs.items()}) + "\n", FINE
    return "".join(f"{_line(name, array)}\n" for name, array in outputs.items()), FINE


def _packed(arrays: dict[str, Array]) -> bytes:
    """The bytes of an .npz file. Not by `np.savez`, which has names of its own that an output may have."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.save(member, array)
    return packed.getvalue()


def read_inputs(kernel: dojoir.Kernel, files: tuple[str, ...]) -> dict[str, Array]:
    """The arrays of `NAME=FILE.npy` and `FILE.npz` options, by name. Raises ArgumentError."""
    arrays: dict[str, Array] = {}
    for text in files:
        name, equals, path = text.partition("=")
        if not equals:
            name, path = "", text
        for key, array in _arrays_in(Path(path), name).items():
            if kernel.buffer(key).role == "out":
                raise dojoir.ArgumentError(f"{path}: {key} is an output of {kernel.name}", "bad-input")
            arrays[key] = array
    return arrays


def _arrays_in(path: Path, name: str) -> dict[str, Array]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            if not name:
                raise dojoir.ArgumentError(f"{path} holds one array: write NAME={path}", "bad-input")
            return {name: loaded}
        with loaded:
            return {name or key: loaded[key] for key in ([name] if name in loaded else loaded.files)}
    except OSError as error:
        raise dojoir.ArgumentError(f"cannot read {path}: {error.strerror or error}", "cannot-read") from None
    except (ValueError, EOFError):
        raise dojoir.ArgumentError(f"{path} is not a .npy or .npz file of plain arrays", "bad-input") from None


def _facts(array: Array) -> dict[str, object]:
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": array.tolist()}


def _line(name: str, array: Array) -> str:
    shape = "x".join(map(str, array.shape)) or "scalar"
    if not array.size:
        return f"{name}: {array.dtype} {shape}"
    flat = array.ravel()
    first = ", ".join(f"{value:g}" for value in flat[:4])
    more = ", …" if array.size > 4 else ""
    numbers = _range(flat)
    return f"{name}: {array.dtype} {shape}  {numbers}  [{first}{more}]"


def _range(flat: Array) -> str:
    low, high, mean = (f"{v:g}" for v in (flat.min(), flat.max(), np.mean(flat, dtype=np.float64)))
    return f"min {low}  max {high}  mean {mean}"
