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
    "backends.backend": "Backend",
    "backends.host": "machine_for",
    "backends.machine": "Machine Rates",
    "codegen": "TARGETS",
    "costs.cost": "cost",
    "costs.cycles": "estimate",
    "costs.features": "features",
    "errors": ("ArgumentError Diagnostic DojoError KernelError ParseError QueryError RunError ToolchainError"),
    "gradient": "gradient",
    "grammar": "load parse problems",
    "ir.comments": "commented_text",
    "ir.nodes": "Kernel",
    "ir.size_condition": "SizeCondition",
    "ir.text": "canonical_text to_text",
    "meaning.interpreter": "interpret",
    "passes": (
        "apply candidates certify check COMBINATORS draw find load_passes Move MOVES moves named_pass one "
        "parse_move parse_pipeline Pass PASSES suggest Trace Verdict Version Versions"
    ),
    "proof.verdict": "IllegalMove",
    "proof.checker_mode": "check_with",
    "proof.wellformed": "prove",
    "query.conditions": "Query",
    "query.search": "Match",
    "runtime": (
        "Bottleneck bottleneck Card Ceilings ceilings compile Compiled Contestant Doctor doctor emit "
        "Evaluation Evaluator ForTarget ignored_inputs Library measure measure_together Measurement processor "
        "profile PythonCode random_inputs Ratio ratio_of repeats thread_count Together verify write_library"
    ),
    "schedules": "optimize Plan plan versions",
    "search": "Budget tune Tuned",
    "support.files": "write_file",
    "support.memo": "clear_caches",
    "support.public": "public",
    "support.seconds": "format_seconds",
}
"""The public names, by the module of dojoir that has them. `python tests/helpers/stub.py` writes `__init__.pyi`
from it and from MODULES, for type checkers and editors."""

MODULES = "author.build highlight instructions kernels rules schedules search torch"
"""The modules that are public names themselves."""

_HOME = {name: f"dojoir.{module}" for module, names in PUBLIC.items() for name in names.split()}
_MODULES = {module.rpartition(".")[2]: f"dojoir.{module}" for module in MODULES.split()}

__all__ = sorted([*_HOME, *_MODULES])


def __getattr__(name: str) -> object:
    if name in _MODULES:
        value: object = importlib.import_module(_MODULES[name])
    elif name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
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
