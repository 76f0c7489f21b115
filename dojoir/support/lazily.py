"""Names of a package that are imported when they are first used."""

from __future__ import annotations

import ast
import importlib
import sys
import warnings
from collections.abc import Callable


def lazily(package: str, **old: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, whose names are those that it imports under `if TYPE_CHECKING:`.
    One that has been used is an attribute from then on; one that is not there is an AttributeError. An `old` name
    stands for what is there under a new one, as `module.name`, and warns."""
    module = sys.modules[package]
    spec = module.__spec__
    text = getattr(spec and spec.loader, "get_source")(package)  # noqa: B009
    home = {
        name.name: one.module
        for block in ast.parse(text).body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for one in block.body
        if isinstance(one, ast.ImportFrom) and one.module
        for name in one.names
    }

    def get(name: str) -> object:
        if name in old:
            text = f"{package}.{name} is {old[name]} now, and goes from here with the next version"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            where, _, new = old[name].rpartition(".")
            return getattr(importlib.import_module(where), new)
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home[name]), name)
        setattr(module, name, value)
        return value

    return get, lambda: sorted({*vars(module), *home})
