"""What is promised to be stable, as lines of text: names of moves with their parameters, passes, codes, targets,
libraries, and the keys of JSON. `python tests/helpers/listed.py` writes the list that `test_kept.py` holds
(`kept/stable.txt`); it only ever adds lines.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from folders import TESTS

import dojoir
from dojoir.codes import CODES

KEPT = TESTS / "kept"
LIST = KEPT / "stable.txt"

MOVED = {name: module for module, names in dojoir.MOVED.items() for name in names.split()}
"""The names that were public, and the modules of dojoir that have them now."""


def public_values() -> dict[str, Any]:
    """The public names with their values, and those that moved."""
    found = {name: getattr(dojoir, name) for name in (*dojoir.__all__, "highlight")}
    return found | {name: getattr(importlib.import_module(f"dojoir.{m}"), name) for name, m in MOVED.items()}


def stable() -> Iterator[str]:
    """Every line of the list, as it is now."""
    for kind in dojoir.MOVES:
        given = ", ".join(f"{field.name}: {field.type}" for field in fields(kind) if field.init)
        yield f"move {kind.name}({given})"
    for name in dojoir.PASSES:
        yield f"pass {name}"
    for name in dojoir.TARGETS:
        yield f"target {name}"
    for name in dojoir.kernels.names():
        yield f"kernel {name}"
    for name in dojoir.rules.names():
        yield f"rule {name}"
    for name, value in public_values().items():
        yield f"name {name}{_parameters(value)}"
        yield from (f"name {module}.{name}{_parameters(value)}" for module in (MOVED.get(name),) if module)
    for code in CODES:
        yield f"code {code}"
    trace = dojoir.Trace(dojoir.kernels.load("relu"))
    for key, value in trace.to_json().items():
        yield f"json trace.{key}: {type(value).__name__}"
    for key in dojoir.check(trace.kernel, "split(0, 8)").to_json():
        yield f"json verdict.{key}"
    schema = json.loads((Path(dojoir.__file__).parent / "cli" / "answers.schema.json").read_text(encoding="utf-8"))
    for name, part in schema["$defs"].items():
        yield from (f"json {line}" for line in _keys(name, part))


def _parameters(value: Any) -> str:
    """The names of the parameters of a function: what a call may say by name."""
    if not inspect.isfunction(value):
        return ""
    return f"({', '.join(inspect.signature(value).parameters)})"


def _keys(where: str, part: Any) -> Iterator[str]:
    """The keys of a part of a JSON schema, those below it too, and which of them are always there."""
    if not isinstance(part, dict):
        return
    for name, below in part.get("properties", {}).items():
        always = "" if name in part.get("required", ()) else "?"
        yield f"{where}.{name}{always}"
        yield from _keys(f"{where}.{name}", below)
    for word in ("items", "additionalProperties"):
        yield from _keys(f"{where}[]", part.get(word))
    for word in ("anyOf", "oneOf", "allOf"):
        for below in part.get(word, ()):
            yield from _keys(where, below)


if __name__ == "__main__":
    known = LIST.read_text(encoding="utf-8").splitlines() if LIST.exists() else []
    LIST.write_text("\n".join(sorted({*known, *stable()})) + "\n", encoding="utf-8")
