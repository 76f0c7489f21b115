"""The error for a missing package of an extra."""

from __future__ import annotations

import importlib
from types import ModuleType

import dojoir


def needed(package: str, extra: str, what: str) -> ModuleType:
    """A package. Raises ToolchainError, `missing-package`, that names the extra which brings it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise dojoir.ToolchainError(
            f"{what} needs {package}: pip install 'dojoir[{extra}]'", "missing-package"
        ) from None
