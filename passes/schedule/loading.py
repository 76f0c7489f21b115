"""Passes of users, from Python files."""

from __future__ import annotations

import os
import runpy

from dojoir.errors import ArgumentError
from dojoir.passes.schedule.pipeline import COMBINATORS, PASSES
from dojoir.passes.schedule.steps.combinators import Pass
from dojoir.support.public import public


@public
def load_passes(path: str | os.PathLike[str]) -> dict[str, Pass]:
    """Runs a Python file and gives the passes that it defines, by name: its functions under
    `@dojoir.passes.named_pass`, and other `Pass` values. Raises ArgumentError for a file that cannot be read,
    fails, defines no pass, or one with a name that is taken."""
    name = os.fspath(path)
    try:
        found = runpy.run_path(name, run_name="<passes>")
    except OSError as error:
        raise ArgumentError(f"cannot read {name}: {error.strerror or error}", "cannot-read") from None
    except SyntaxError as error:
        raise ArgumentError(f"{name}:{error.lineno}: {error.msg}", "bad-passes") from None
    except Exception as error:
        raise ArgumentError(f"{name} failed: {type(error).__name__}: {error}", "bad-passes") from error
    passes = {value.name: value for value in found.values() if isinstance(value, Pass)}
    if not passes:
        raise ArgumentError(f"{name} defines no pass: put @named_pass before a function", "bad-passes")
    for taken in passes.keys() & {*PASSES, *COMBINATORS}:
        if passes[taken] != PASSES.get(taken):
            raise ArgumentError(f"{name} defines the pass {taken}, which there is already", "bad-passes")
    return passes
