"""dojoir: a human-readable loop-nest IR whose transformations are proved, and fast code on many targets.

Everything a user types is a name of this module; each is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dojoir import build, kernels
    from dojoir.codegen import emit
    from dojoir.errors import (
        ArgumentError,
        Diagnostic,
        DojoError,
        IllegalMove,
        KernelError,
        ParseError,
        RunError,
        ToolchainError,
    )
    from dojoir.grammar import load, parse
    from dojoir.interpreter import interpret
    from dojoir.ir import Kernel
    from dojoir.passes import Trace, apply, candidates, certify, check, moves
    from dojoir.printer import to_text
    from dojoir.runtime import Compiled, compile, measure, verify
    from dojoir.wellformed import prove

__version__ = "0.1.0"

_HOME = {
    "build": "dojoir.build",
    "kernels": "dojoir.kernels",
    "emit": "dojoir.codegen",
    "ArgumentError": "dojoir.errors",
    "Diagnostic": "dojoir.errors",
    "DojoError": "dojoir.errors",
    "IllegalMove": "dojoir.errors",
    "KernelError": "dojoir.errors",
    "ParseError": "dojoir.errors",
    "RunError": "dojoir.errors",
    "ToolchainError": "dojoir.errors",
    "load": "dojoir.grammar",
    "parse": "dojoir.grammar",
    "prove": "dojoir.wellformed",
    "interpret": "dojoir.interpreter",
    "Kernel": "dojoir.ir",
    "Trace": "dojoir.passes",
    "apply": "dojoir.passes",
    "candidates": "dojoir.passes",
    "certify": "dojoir.passes",
    "check": "dojoir.passes",
    "moves": "dojoir.passes",
    "to_text": "dojoir.printer",
    "Compiled": "dojoir.runtime",
    "compile": "dojoir.runtime",
    "measure": "dojoir.runtime",
    "verify": "dojoir.runtime",
}

__all__ = [
    "ArgumentError",
    "Compiled",
    "Diagnostic",
    "DojoError",
    "IllegalMove",
    "Kernel",
    "KernelError",
    "ParseError",
    "RunError",
    "ToolchainError",
    "Trace",
    "apply",
    "build",
    "candidates",
    "certify",
    "check",
    "compile",
    "emit",
    "interpret",
    "kernels",
    "load",
    "measure",
    "moves",
    "parse",
    "prove",
    "to_text",
    "verify",
]


def __getattr__(name: str) -> object:
    try:
        module = importlib.import_module(_HOME[name])
    except KeyError:
        raise AttributeError(f"module 'dojoir' has no attribute {name!r}") from None
    value = module if module.__name__ == f"dojoir.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
