"""A class name says one thing, and a file name says of what: a search and a traceback lead to one file."""

from __future__ import annotations

from collections import Counter, defaultdict

from asked import PRODUCT
from folders import ROOT
from styled import class_names

TREES = ("grammar/syntax.py", "dojoir/ir/", "dojoir/types/typed.py", "codegen/lir/")
"""The trees of a kernel on its way: as written, the IR, with its types, and lowered. The node of one tree and what
becomes of it in the next have one name where they are one thing. Elsewhere the tree is said: `syntax.Scope`."""

SHARED = {
    "Extract": "the move `extract`, and the element of a wide value in a lowered program, as LLVM calls it",
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


MOST_NAMESAKES = 3
"""How many files of the product may have one name."""

EACH_HAS = {
    "__init__.py", "__main__.py",
    "printer.py", "source.py",  # of a family of targets: `codegen/{c,gpu,llvm,simd}`
    "reductions.py",  # moves, their lowering, their schedule on a GPU, and the operators of PyTorch that are some
}  # fmt: skip
"""File names of which the folder says of what."""


def test_a_file_name_says_of_what() -> None:
    """`values.py` in seven folders says nothing in a traceback."""
    found = Counter(path.name for folder in PRODUCT for path in (ROOT / folder).rglob("*.py"))
    often = {name: count for name, count in found.items() if count > MOST_NAMESAKES and name not in EACH_HAS}
    assert often == {}
    assert found.keys().isdisjoint({"products.py", "device.py", "rules.py", "table.py"})
    assert found["values.py"] == 1, "the values of LIR"
