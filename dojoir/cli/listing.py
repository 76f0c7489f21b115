"""What `dojoir-opt` can list without an input."""

from __future__ import annotations

import inspect
import json

import dojoir
from dojoir.cli.options import Options


def listing(options: Options) -> str | None:
    """The list that the options ask for, or None if they ask for none. Raises ArgumentError."""
    if options.help_pass is not None:
        return _help(options.help_pass)
    if options.list_passes:
        entries = {name: f"pass: {_sentence(found.documentation)}" for name, found in dojoir.PASSES.items()}
        entries |= {kind.name: _summary(kind) for kind in dojoir.MOVES}
    elif options.list_targets:
        entries = dict(dojoir.TARGETS)
    elif options.list_kernels:
        entries = {name: dojoir.kernels.summary(name) for name in dojoir.kernels.names()}
    else:
        return None
    if options.json:
        return json.dumps(entries, indent=1) + "\n"
    width = max(map(len, entries))
    return "".join(f"{name:<{width}}  {summary}\n" for name, summary in entries.items())


def _summary(kind: type[dojoir.Move]) -> str:
    """The call and the first sentence of what a move does."""
    return f"({', '.join(kind.parameters())}): {_sentence(inspect.getdoc(kind) or '')}"


def _sentence(documentation: str) -> str:
    return " ".join(documentation.split("\n\n")[0].split()).split(". ")[0].rstrip(".:")


def _help(name: str) -> str:
    if name in dojoir.PASSES:
        return f"{name}\n\n{dojoir.PASSES[name].documentation}\n"
    kind = next((kind for kind in dojoir.MOVES if kind.name == name), None)
    if kind is None:
        raise dojoir.ArgumentError(f"there is no move or pass '{name}'; --list-passes lists them", "unknown-move")
    return f"{kind.name}({', '.join(kind.parameters())})\n\n{inspect.getdoc(kind)}\n"
