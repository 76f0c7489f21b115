"""dojoir: a human-readable loop-nest IR whose transformations are proved, and fast code on many targets.

Everything a user types is a name of this module; each is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dojoir import build, instructions, kernels, rules, schedules
    from dojoir.chaining import chain
    from dojoir.codegen import TARGETS, emit
    from dojoir.costs import cost
    from dojoir.errors import (
        ArgumentError,
        Diagnostic,
        DojoError,
        IllegalMove,
        KernelError,
        ParseError,
        QueryError,
        RunError,
        ToolchainError,
    )
    from dojoir.grammar import load, parse
    from dojoir.interpreter import interpret
    from dojoir.ir import Kernel
    from dojoir.passes import (
        COMBINATORS,
        MOVES,
        PASSES,
        Move,
        Pass,
        Trace,
        Verdict,
        apply,
        candidates,
        certify,
        check,
        find,
        load_passes,
        moves,
        named_pass,
        one,
        parse_move,
        parse_pipeline,
        suggest,
    )
    from dojoir.printer import to_text
    from dojoir.queries import Match, Query
    from dojoir.runtime import (
        Ceilings,
        Compiled,
        Contestant,
        Doctor,
        Library,
        Measurement,
        PythonCode,
        ceilings,
        compile,
        doctor,
        format_seconds,
        measure,
        measure_together,
        processor,
        random_inputs,
        ratio_of,
        thread_count,
        verify,
        write_library,
    )
    from dojoir.schedules import optimize
    from dojoir.wellformed import prove

__version__ = "0.1.0"

_HOME = {
    "build": "dojoir.build",
    "chain": "dojoir.chaining",
    "TARGETS": "dojoir.codegen",
    "emit": "dojoir.codegen",
    "cost": "dojoir.costs",
    "ArgumentError": "dojoir.errors",
    "Diagnostic": "dojoir.errors",
    "DojoError": "dojoir.errors",
    "IllegalMove": "dojoir.errors",
    "KernelError": "dojoir.errors",
    "ParseError": "dojoir.errors",
    "QueryError": "dojoir.errors",
    "RunError": "dojoir.errors",
    "ToolchainError": "dojoir.errors",
    "load": "dojoir.grammar",
    "parse": "dojoir.grammar",
    "instructions": "dojoir.instructions",
    "interpret": "dojoir.interpreter",
    "Kernel": "dojoir.ir",
    "kernels": "dojoir.kernels",
    "rules": "dojoir.rules",
    "schedules": "dojoir.schedules",
    "optimize": "dojoir.schedules",
    "COMBINATORS": "dojoir.passes",
    "MOVES": "dojoir.passes",
    "PASSES": "dojoir.passes",
    "Move": "dojoir.passes",
    "Pass": "dojoir.passes",
    "Trace": "dojoir.passes",
    "Verdict": "dojoir.passes",
    "apply": "dojoir.passes",
    "candidates": "dojoir.passes",
    "certify": "dojoir.passes",
    "check": "dojoir.passes",
    "find": "dojoir.passes",
    "load_passes": "dojoir.passes",
    "named_pass": "dojoir.passes",
    "moves": "dojoir.passes",
    "one": "dojoir.passes",
    "parse_move": "dojoir.passes",
    "parse_pipeline": "dojoir.passes",
    "suggest": "dojoir.passes",
    "to_text": "dojoir.printer",
    "Match": "dojoir.queries",
    "Query": "dojoir.queries",
    "Ceilings": "dojoir.runtime",
    "PythonCode": "dojoir.runtime",
    "Compiled": "dojoir.runtime",
    "compile": "dojoir.runtime",
    "Doctor": "dojoir.runtime",
    "doctor": "dojoir.runtime",
    "measure": "dojoir.runtime",
    "measure_together": "dojoir.runtime",
    "Measurement": "dojoir.runtime",
    "Contestant": "dojoir.runtime",
    "ratio_of": "dojoir.runtime",
    "format_seconds": "dojoir.runtime",
    "ceilings": "dojoir.runtime",
    "processor": "dojoir.runtime",
    "random_inputs": "dojoir.runtime",
    "thread_count": "dojoir.runtime",
    "verify": "dojoir.runtime",
    "Library": "dojoir.runtime",
    "write_library": "dojoir.runtime",
    "prove": "dojoir.wellformed",
}

__all__ = [
    "COMBINATORS",
    "MOVES",
    "PASSES",
    "TARGETS",
    "ArgumentError",
    "Ceilings",
    "Compiled",
    "Contestant",
    "Diagnostic",
    "Doctor",
    "DojoError",
    "IllegalMove",
    "Kernel",
    "KernelError",
    "Library",
    "Match",
    "Measurement",
    "Move",
    "ParseError",
    "Pass",
    "PythonCode",
    "Query",
    "QueryError",
    "RunError",
    "ToolchainError",
    "Trace",
    "Verdict",
    "apply",
    "build",
    "candidates",
    "ceilings",
    "certify",
    "chain",
    "check",
    "compile",
    "cost",
    "doctor",
    "emit",
    "find",
    "format_seconds",
    "instructions",
    "interpret",
    "kernels",
    "load",
    "load_passes",
    "measure",
    "measure_together",
    "moves",
    "named_pass",
    "one",
    "optimize",
    "parse",
    "parse_move",
    "parse_pipeline",
    "processor",
    "prove",
    "random_inputs",
    "ratio_of",
    "rules",
    "schedules",
    "suggest",
    "thread_count",
    "to_text",
    "verify",
    "write_library",
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
