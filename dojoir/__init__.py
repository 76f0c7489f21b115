"""dojoir: a human-readable loop-nest IR whose transformations are proved, and fast code on many targets.

Everything a user types is a name of this module; each is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dojoir import highlight, instructions, kernels, rules, schedules, search, torch
    from dojoir.author import build
    from dojoir.author.chain import chain
    from dojoir.backends.backend import Backend
    from dojoir.backends.host import machine_for
    from dojoir.backends.machine import Machine
    from dojoir.codegen import TARGETS
    from dojoir.costs.cost import cost
    from dojoir.costs.features import estimate, features
    from dojoir.errors import (
        ArgumentError,
        Diagnostic,
        DojoError,
        KernelError,
        ParseError,
        QueryError,
        RunError,
        ToolchainError,
    )
    from dojoir.gradient import gradient
    from dojoir.grammar import load, parse, problems
    from dojoir.ir.comments import commented_text
    from dojoir.ir.nodes import Kernel
    from dojoir.ir.size_condition import SizeCondition
    from dojoir.ir.text import canonical_text, to_text
    from dojoir.meaning.interpreter import interpret
    from dojoir.passes import (
        COMBINATORS,
        MOVES,
        PASSES,
        Move,
        Pass,
        Trace,
        Verdict,
        Version,
        Versions,
        apply,
        candidates,
        certify,
        check,
        draw,
        find,
        load_passes,
        moves,
        named_pass,
        one,
        parse_move,
        parse_pipeline,
        suggest,
    )
    from dojoir.proof.verdict import IllegalMove
    from dojoir.proof.way import check_with
    from dojoir.proof.wellformed import prove
    from dojoir.query.conditions import Query
    from dojoir.query.search import Match
    from dojoir.runtime import (
        Bottleneck,
        Card,
        Ceilings,
        Compiled,
        Contestant,
        Doctor,
        Evaluation,
        Evaluator,
        ForTarget,
        Library,
        Measurement,
        PythonCode,
        Ratio,
        Together,
        bottleneck,
        ceilings,
        compile,
        doctor,
        emit,
        ignored_inputs,
        measure,
        measure_together,
        processor,
        profile,
        random_inputs,
        ratio_of,
        repeats,
        thread_count,
        verify,
        write_library,
    )
    from dojoir.schedules import Plan, optimize, plan, versions
    from dojoir.search import Budget, Tuned, tune
    from dojoir.support.files import write_file
    from dojoir.support.memo import clear_caches
    from dojoir.support.public import public
    from dojoir.support.seconds import format_seconds

__version__ = "0.1.0"

_HOME = {
    "build": "dojoir.author.build",
    "chain": "dojoir.author.chain",
    "Backend": "dojoir.backends.backend",
    "Machine": "dojoir.backends.machine",
    "machine_for": "dojoir.backends.host",
    "TARGETS": "dojoir.codegen",
    "emit": "dojoir.runtime",
    "cost": "dojoir.costs.cost",
    "features": "dojoir.costs.features",
    "estimate": "dojoir.costs.features",
    "draw": "dojoir.passes",
    "Evaluation": "dojoir.runtime",
    "Evaluator": "dojoir.runtime",
    "Budget": "dojoir.search",
    "Tuned": "dojoir.search",
    "tune": "dojoir.search",
    "search": "dojoir.search",
    "clear_caches": "dojoir.support.memo",
    "ArgumentError": "dojoir.errors",
    "Diagnostic": "dojoir.errors",
    "DojoError": "dojoir.errors",
    "IllegalMove": "dojoir.proof.verdict",
    "KernelError": "dojoir.errors",
    "ParseError": "dojoir.errors",
    "QueryError": "dojoir.errors",
    "RunError": "dojoir.errors",
    "ToolchainError": "dojoir.errors",
    "gradient": "dojoir.gradient",
    "load": "dojoir.grammar",
    "parse": "dojoir.grammar",
    "problems": "dojoir.grammar",
    "commented_text": "dojoir.ir.comments",
    "canonical_text": "dojoir.ir.text",
    "highlight": "dojoir.highlight",
    "instructions": "dojoir.instructions",
    "interpret": "dojoir.meaning.interpreter",
    "Kernel": "dojoir.ir.nodes",
    "kernels": "dojoir.kernels",
    "rules": "dojoir.rules",
    "schedules": "dojoir.schedules",
    "Plan": "dojoir.schedules",
    "optimize": "dojoir.schedules",
    "plan": "dojoir.schedules",
    "COMBINATORS": "dojoir.passes",
    "MOVES": "dojoir.passes",
    "PASSES": "dojoir.passes",
    "Move": "dojoir.passes",
    "Pass": "dojoir.passes",
    "Trace": "dojoir.passes",
    "Version": "dojoir.passes",
    "Versions": "dojoir.passes",
    "versions": "dojoir.schedules",
    "SizeCondition": "dojoir.ir.size_condition",
    "Verdict": "dojoir.passes",
    "apply": "dojoir.passes",
    "candidates": "dojoir.passes",
    "certify": "dojoir.passes",
    "check": "dojoir.passes",
    "check_with": "dojoir.proof.way",
    "find": "dojoir.passes",
    "load_passes": "dojoir.passes",
    "named_pass": "dojoir.passes",
    "moves": "dojoir.passes",
    "one": "dojoir.passes",
    "parse_move": "dojoir.passes",
    "parse_pipeline": "dojoir.passes",
    "suggest": "dojoir.passes",
    "to_text": "dojoir.ir.text",
    "torch": "dojoir.torch",
    "Match": "dojoir.query.search",
    "Query": "dojoir.query.conditions",
    "Ceilings": "dojoir.runtime",
    "PythonCode": "dojoir.runtime",
    "Compiled": "dojoir.runtime",
    "ForTarget": "dojoir.runtime",
    "Ratio": "dojoir.runtime",
    "Together": "dojoir.runtime",
    "compile": "dojoir.runtime",
    "Doctor": "dojoir.runtime",
    "doctor": "dojoir.runtime",
    "measure": "dojoir.runtime",
    "measure_together": "dojoir.runtime",
    "Measurement": "dojoir.runtime",
    "Contestant": "dojoir.runtime",
    "ratio_of": "dojoir.runtime",
    "repeats": "dojoir.runtime",
    "ignored_inputs": "dojoir.runtime",
    "Bottleneck": "dojoir.runtime",
    "Card": "dojoir.runtime",
    "bottleneck": "dojoir.runtime",
    "format_seconds": "dojoir.support.seconds",
    "ceilings": "dojoir.runtime",
    "processor": "dojoir.runtime",
    "profile": "dojoir.runtime",
    "random_inputs": "dojoir.runtime",
    "thread_count": "dojoir.runtime",
    "verify": "dojoir.runtime",
    "Library": "dojoir.runtime",
    "write_library": "dojoir.runtime",
    "prove": "dojoir.proof.wellformed",
    "public": "dojoir.support.public",
    "write_file": "dojoir.support.files",
}

_MODULES = {"build", "highlight", "instructions", "kernels", "rules", "schedules", "search", "torch"}
"""The names that are modules themselves."""

__all__ = [
    "COMBINATORS",
    "MOVES",
    "PASSES",
    "TARGETS",
    "ArgumentError",
    "Backend",
    "Bottleneck",
    "Budget",
    "Card",
    "Ceilings",
    "Compiled",
    "Contestant",
    "Diagnostic",
    "Doctor",
    "DojoError",
    "Evaluation",
    "Evaluator",
    "ForTarget",
    "IllegalMove",
    "Kernel",
    "KernelError",
    "Library",
    "Machine",
    "Match",
    "Measurement",
    "Move",
    "ParseError",
    "Pass",
    "Plan",
    "PythonCode",
    "Query",
    "QueryError",
    "Ratio",
    "RunError",
    "SizeCondition",
    "Together",
    "ToolchainError",
    "Trace",
    "Tuned",
    "Verdict",
    "Version",
    "Versions",
    "apply",
    "bottleneck",
    "build",
    "candidates",
    "canonical_text",
    "ceilings",
    "certify",
    "chain",
    "check",
    "check_with",
    "clear_caches",
    "commented_text",
    "compile",
    "cost",
    "doctor",
    "draw",
    "emit",
    "estimate",
    "features",
    "find",
    "format_seconds",
    "gradient",
    "highlight",
    "ignored_inputs",
    "instructions",
    "interpret",
    "kernels",
    "load",
    "load_passes",
    "machine_for",
    "measure",
    "measure_together",
    "moves",
    "named_pass",
    "one",
    "optimize",
    "parse",
    "parse_move",
    "parse_pipeline",
    "plan",
    "problems",
    "processor",
    "profile",
    "prove",
    "public",
    "random_inputs",
    "ratio_of",
    "repeats",
    "rules",
    "schedules",
    "search",
    "suggest",
    "thread_count",
    "to_text",
    "torch",
    "tune",
    "verify",
    "versions",
    "write_file",
    "write_library",
]


def __getattr__(name: str) -> object:
    try:
        module = importlib.import_module(_HOME[name])
    except KeyError:
        raise AttributeError(f"module 'dojoir' has no attribute {name!r}") from None
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
