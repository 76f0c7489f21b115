"""The peers of the table: what each is, and what it does not have.

A peer is a module `peer_*.py` whose `bind(operation, arrays, threads)` gets the arguments of the row's kernel by
name and returns the operation as a call without arguments. A peer that can write into given arrays does; one that
cannot has its first result copied there, so that it can be compared.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from peer_common import Arrays, Call


@dataclass(frozen=True)
class Peer:
    """A library: its module here and the function in it, the package that has to be installed, and why operations
    are missing."""

    module: str
    needs: str
    distribution: str
    function: str = "bind"
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.needs) is not None

    @cached_property
    def version(self) -> str:
        """The installed version. Raises PackageNotFoundError where it is not installed."""
        return importlib.metadata.version(self.distribution)


_BLAS = "its products are NumPy's BLAS"

PEERS: Mapping[str, Peer] = {
    "PyTorch": Peer("peer_torch", "torch", "torch"),
    "torch.compile": Peer("peer_torch", "torch", "torch", "bind_compiled"),
    "JAX": Peer("peer_jax", "jax", "jax"),
    "ONNX Runtime": Peer(
        "peer_onnx", "onnxruntime", "onnxruntime", missing={"jacobi2d_sweep": "no operator writes inside an array"}
    ),
    "Numba": Peer("peer_numba", "numba", "numba", missing={"matmul": _BLAS, "bmm": _BLAS}),
    "NumPy": Peer(
        "peer_numpy", "numpy", "numpy", missing={"gelu": "it has no erf", "conv2d": "it has no convolution"}
    ),
    "Halide": Peer("peer_halide", "halide", "halide"),
    "TVM": Peer("peer_tvm", "tvm", "apache-tvm"),
}
"""The peers by name."""


def bind(peer: str, operation: str, arrays: Arrays, threads: int) -> Call:
    """The operation of a row by a peer, on `threads` cores, as a call."""
    module = importlib.import_module(PEERS[peer].module)
    builder = getattr(module, PEERS[peer].function)
    call: Call = builder(operation, arrays, threads)
    return call
