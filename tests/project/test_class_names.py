"""A class name says one thing: a search for it, and a traceback, lead to one file."""

from __future__ import annotations

from collections import defaultdict

from asked import PRODUCT
from folders import ROOT
from styled import class_names

TREES = ("grammar/syntax.py", "dojoir/ir/", "dojoir/types/typed.py", "codegen/lir/")
"""The trees of a kernel on its way: as written, the IR, with its types, and lowered. The node of one tree and what
becomes of it in the next have one name where they are one thing. Elsewhere the tree is said: `syntax.Scope`."""

SHARED = {
    "Prefetch": "the hint of a text, the move that writes it, and the statement that it is lowered to",
    "Stream": "the move that marks a buffer, and the statement that its stores are lowered to",
    "Array": "of the builder and of passes: both are public, and stand for a buffer of a kernel",
}
"""Other names that several files define, each with the reason."""


def homes() -> dict[str, list[str]]:
    """The files of the product that define a class of each name."""
    found = defaultdict(list)
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in class_names(path):
                found[name].append(str(path.relative_to(ROOT)))
    return found


def test_a_class_name_is_defined_once() -> None:
    several = {
        name: files
        for name, files in homes().items()
        if len(files) > 1
        and name not in SHARED
        and not (len(files) == 2 and all(file.startswith(TREES) for file in files))
    }
    assert several == {}, "say of what: LaunchPlan and not Plan"


def test_the_exceptions_are_needed() -> None:
    found = homes()
    assert [name for name in SHARED if len(found[name]) < 2] == []
