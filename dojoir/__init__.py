"""dojoir: a human-readable loop-nest IR whose transformations are proved, and fast code on many targets.

Everything a user types is a name of this module; each is imported when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

__version__ = "0.1.0"

PUBLIC = {
    "author.chain": "chain",
    "author.function": "kernel",
    "backends.host": "machine_for",
    "backends.machine": "Machine",
    "codegen": "TARGETS",
    "costs.cost": "cost",
    "errors": "ArgumentError DojoError KernelError ParseError QueryError RunError ToolchainError",
    "gradient": "gradient",
    "grammar": "load parse",
    "ir.nodes": "Kernel",
    "ir.text": "to_text",
    "meaning.interpreter": "interpret",
    "passes": (
        "apply candidates certify check find Move MOVES moves one parse_move parse_pipeline Pass PASSES suggest "
        "Trace Verdict"
    ),
    "proof.verdict": "IllegalMove",
    "proof.wellformed": "prove",
    "runtime": (
        "bottleneck compile Compiled doctor emit Evaluator measure measure_together profile verify write_library"
    ),
    "schedules": "optimize plan",
    "search": "Budget tune",
}
"""The public names, by the module of dojoir that has them. `python tests/helpers/stub.py` writes `__init__.pyi`
from it and from MODULES, for type checkers and editors."""

MODULES = "author.build instructions kernels rules schedules search testing torch"
"""The modules that are public names themselves."""

MOVED = {
    "backends.backend": "Backend",
    "backends.machine": "Rates",
    "errors": "Diagnostic",
    "grammar": "problems",
    "ir.comments": "commented_text",
    "ir.size_condition": "SizeCondition",
    "ir.text": "canonical_text",
    "passes": "COMBINATORS load_passes named_pass Version Versions",
    "proof.checker_mode": "check_with",
    "query.conditions": "Query",
    "query.search": "Match",
    "runtime": (
        "Bottleneck Card Ceilings ceilings Contestant Doctor Evaluation ForTarget Library Measurement processor "
        "PythonCode Ratio ratio_of thread_count Together"
    ),
    "schedules": "Plan versions",
    "search": "draw estimate features Tuned",
    "support.files": "write_file",
    "support.memo": "clear_caches",
    "support.public": "public",
    "support.seconds": "format_seconds",
    "testing": "ignored_inputs random_inputs repeats",
}
"""Names that were public here, by the modules that have them now, where they stay: `Ratio` is
`dojoir.runtime.Ratio`. Here each warns, and goes with the next version (docs/stability.md)."""


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: f"dojoir.{module}" for module, names in table.items() for name in names.split()}


_HOME, _NOW = _by_name(PUBLIC), _by_name(MOVED)
_ROOMS = {"highlight", *(module.partition(".")[0] for module in MOVED)}
_MODULES = {module.rpartition(".")[2]: f"dojoir.{module}" for module in MODULES.split()}

__all__ = sorted([*_HOME, *_MODULES])


def __getattr__(name: str) -> object:
    if name in _MODULES:
        value: object = importlib.import_module(_MODULES[name])
    elif name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _NOW:
        import warnings

        text = f"dojoir.{name} is {_NOW[name]}.{name}, and goes from here with the next version"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(_NOW[name]), name)
    elif name in _ROOMS:
        value = importlib.import_module(f"dojoir.{name}")
    else:
        raise AttributeError(f"module 'dojoir' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """The class of this module: the import of the module `dojoir.gradient` leaves the function of that name."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
