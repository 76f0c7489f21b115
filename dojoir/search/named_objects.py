"""Objects that a command line names: of a module, or of a file of Python."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import dojoir


def named(home: str, what: str, code: str) -> Any:
    """The object that `module:name` or `file.py:name` names. Raises ArgumentError with a code where it is not
    there."""
    module, _, name = home.partition(":")
    try:
        return getattr(_module(module), name)
    except (ImportError, AttributeError, ValueError, OSError, SyntaxError) as error:
        raise dojoir.ArgumentError(f"there is no {what} {home}: {error}", code) from None


def _module(name: str) -> object:
    """A module by its name, or a file of Python by its path."""
    if not name.endswith(".py"):
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(f"dojoir_strategy_{abs(hash(name))}", name)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
