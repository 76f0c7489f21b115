"""Pages that are made from the code: the reference of the moves and passes, and that of the names a user types."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dojoir
from dojoir.codes import ASKED, CODES, ELSEWHERE, PROVED

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent

ROOMS = {
    "loops": "Scopes and guards",
    "storage": "Storage",
    "values": "Statements",
    "hardware": "Marks, hints and instructions",
}

BESIDE = (
    "dojoir.ir.nodes.Buffer", "dojoir.ir.nodes.Size", "dojoir.ir.nodes.Scope", "dojoir.ir.nodes.Guard",
    "dojoir.ir.nodes.Statement", "dojoir.ir.nodes.Access", "dojoir.ir.nodes.Const", "dojoir.ir.nodes.Index",
    "dojoir.ir.nodes.Op", "dojoir.ir.nodes.Cast", "dojoir.ir.nodes.Condition", "dojoir.ir.nodes.Site",
    "dojoir.ir.instruction.Use", "dojoir.ir.hints.Prefetch", "dojoir.passes.engine.engine.Moves",
    "dojoir.passes.base.move.Rewrite", "dojoir.passes.base.alternatives.Alternative", "dojoir.costs.cost.Cost",
    "dojoir.runtime.verification.report.Report", "dojoir.runtime.measurement.roofline.ThreadCeilings",
    "dojoir.runtime.verification.compare.Worst", "dojoir.runtime.library.library.Scheduled",
    "dojoir.codegen.lir.outcome.Check", "dojoir.ir.affine.Affine", "dojoir.ir.affine.FloorDiv",
    "dojoir.ir.affine.Mod", "dojoir.ir.affine.Iter", "dojoir.ir.affine.SizeVar", "dojoir.errors.Source",
)  # fmt: skip
"""Classes that no caller makes, but that calls return."""


def errors_page() -> str:
    """Every code, by what it is about, each with its meaning, an example and the cure."""
    lines = ["# Errors, refusals and verdicts", ""]
    lines += [
        "Every error has a code, which stays (`error.diagnostic.code`; in JSON, `code`): programs may",
        "depend on it. A verdict also names the obligation that failed (`verdict.obligation`): the titles below.",
        "",
    ]
    for title, table in (
        ("What the checker proves", PROVED),
        ("What a move asks before", ASKED),
        ("Elsewhere", ELSEWHERE),
    ):
        lines += [f"## {title}", ""]
        for of, means in table.items():
            lines += [f"### {of}", "", f"{means[0].upper()}{means[1:]}.", ""]
            for code, entry in sorted(CODES.items()):
                if entry.of == of:
                    example = entry.example if entry.example.endswith(".") else f"`{entry.example}`."
                    lines += [f"`{code}`", f": {entry.meaning} Example: {example} {entry.cure}", ""]
    return "\n".join(lines)


def moves_page() -> str:
    """The reference of all moves, by room, each with its docstring: what it does, its inverse, an example."""
    lines = ["# The moves", ""]
    lines += [
        "Every move: its arguments, what it does to labels, its inverse and an example that runs. The table in",
        "`reference` is the short form; `dojoir-opt --help-pass NAME` shows the same in a shell.",
        "",
    ]
    for room, title in ROOMS.items():
        lines += [f"## {title}", ""]
        for kind in dojoir.MOVES:
            if kind.__module__.split(".")[2] == room:
                lines += [f"### {kind.name}", "", *_prose_and_example(inspect.cleandoc(kind.__doc__ or "")), ""]
    lines += ["## Passes", "", "A pass picks moves; what it did stands in the trace as moves.", ""]
    for name, chosen in dojoir.PASSES.items():
        lines += [f"### {name}", "", *_prose_and_example(chosen.documentation), ""]
    return "\n".join(lines)


def api_page() -> str:
    """The reference of the names of `import dojoir`, by task, from their docstrings, with the examples of
    `api_examples.txt`."""
    lines = ["# The names of `import dojoir`", "", "Grouped by task; the examples run one after another.", ""]
    for title, about, entries in api_groups():
        lines += [f"## {title}", "", about, ""]
        for names, example in entries:
            for name in names:
                lines += [f"### {name}", "", *_described(name), ""]
            if example.startswith(">>>"):
                lines += ["Example:" if len(names) == 1 else f"Example, of {', '.join(f'`{n}`' for n in names)}:"]
                lines += ["", "```pycon", example, "```", ""]
            else:
                lines += [example, ""]
    lines += ["## What calls return", ""]
    for target in BESIDE:
        lines += ["```{eval-rst}", f".. autoclass:: {target}", "   :members:", "```", ""]
    return "\n".join(lines)


Entry = tuple[list[str], str]
"""Names, and an example of them or a sentence that says where one is."""


def api_groups() -> list[tuple[str, str, list[Entry]]]:
    """The groups of public names in `api_examples.txt`: a title, a sentence on them, names with examples."""
    groups = []
    for group in (HERE / "api_examples.txt").read_text(encoding="utf-8").split("\n== ")[1:]:
        head, *parts = group.split("\n@")
        title, _, about = head.partition("\n")
        entries = []
        for part in parts:
            names, _, example = part.partition("\n")
            entries.append((names.split(), example.strip()))
        groups.append((title, about.strip(), entries))
    return groups


def _described(name: str) -> list[str]:
    """The docstring of a public name, under that name and not under that of the module where it lives."""
    module, _, own = f"dojoir.{name}".rpartition(".")
    value = getattr(importlib.import_module(module), own)
    if inspect.ismodule(value):  # what has a place of its own here is described there
        others = {word for _, _, entries in api_groups() for names, _ in entries for word in names}
        hidden = f"   :exclude-members: {', '.join(sorted(word.rpartition('.')[2] for word in others))}"
        return ["```{eval-rst}", f".. automodule:: {value.__name__}", "   :members:", hidden, "```"]
    if inspect.isclass(value):
        return ["```{eval-rst}", f".. autoclass:: dojoir.{name}", "   :members:", "```"]
    if inspect.isfunction(value):
        return ["```{eval-rst}", f".. autofunction:: dojoir.{name}", "```"]
    return [f"A constant: `dojoir.{name}`."]


def _prose_and_example(text: str) -> list[str]:
    """A docstring as Markdown: its examples fenced."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.startswith(">>>") and not inside:
            lines += ["```pycon", line]
            inside = True
        elif inside and not line.strip():
            lines += ["```", ""]
            inside = False
        else:
            lines.append(line)
    return [*lines, "```"] if inside else lines


def write_pages(_: Sphinx | None = None) -> None:
    """Writes the pages that are made from the code beside the others; git does not keep them."""
    (HERE / "moves.md").write_text(moves_page(), encoding="utf-8")
    (HERE / "errors.md").write_text(errors_page(), encoding="utf-8")
    (HERE / "api.md").write_text(api_page(), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}
