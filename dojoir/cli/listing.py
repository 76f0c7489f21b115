"""What `dojoir-opt` can list without an input."""

from __future__ import annotations

import inspect
import json

import dojoir
from dojoir.cli.options import Options


def listing(options: Options) -> str | None:
    """The list that the options ask for, or None if they ask for none. Raises ArgumentError."""
    if options.doctor:
        found = dojoir.doctor()
        return json.dumps(found.to_json(), indent=1) + "\n" if options.json else f"{found}\n"
    if options.help_pass is not None:
        return _help(options.help_pass, passes(options))
    if options.list_passes:
        entries = {name: f"pass: {_sentence(p.documentation)}" for name, p in passes(options).items()}
        entries |= {name: f"pass: {_sentence(text)}" for name, text in dojoir.COMBINATORS.items()}
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


def passes(options: Options) -> dict[str, dojoir.Pass]:
    """The passes that may be named: ours, and those of `--load`. Raises ArgumentError."""
    found = dict(dojoir.PASSES)
    for path in options.load:
        found |= dojoir.load_passes(path)
    return found


def _summary(kind: type[dojoir.Move]) -> str:
    """The call and the first sentence of what a move does."""
    return f"({', '.join(kind.parameters())}): {_sentence(inspect.getdoc(kind) or '')}"


def _sentence(documentation: str) -> str:
    return " ".join(documentation.split("\n\n")[0].split()).split(". ")[0].rstrip(".:")


def _help(name: str, known: dict[str, dojoir.Pass]) -> str:
    if name in known:
        return f"{known[name].usage}\n\n{known[name].documentation}\n"
    if name in dojoir.COMBINATORS:
        return f"{dojoir.COMBINATORS[name]}\n"
    kind = next((kind for kind in dojoir.MOVES if kind.name == name), None)
    if kind is None:
        raise dojoir.ArgumentError(f"there is no move or pass '{name}'; --list-passes lists them", "unknown-move")
    return f"{kind.name}({', '.join(kind.parameters())})\n\n{inspect.getdoc(kind)}\n"
