"""The parts of docs/lowering.md that are made: the tables of passes, and a kernel followed through them.

`python tests/helpers/lowering_page.py` writes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from folders import ROOT

import dojoir
from dojoir.codegen.lower.pipeline import DEVICE, HOST, LoweringPass

PAGE = ROOT / "docs" / "lowering.md"
HEAD = "kernel norms(N)\nin x: f32[N, 16]\nout s: f32[N]\n\n"
TEXTS = {
    "avx2": HEAD + "N : p\n| s[{0}] = 0\n| 16 : v\n| | s[{0}] += x[{0}, {1}] * x[{0}, {1}]\n",
    "cuda": HEAD + "N : gx\n| s[{0}] = 0\n| 16 : bx\n| | s[{0}] += x[{0}, {1}] * x[{0}, {1}]\n",
}


def made() -> dict[str, str]:
    """The parts of the page by name."""
    tables = {"passes of a CPU": _table(HOST), "passes of a GPU": _table(DEVICE)}
    return {**tables, **{f"norms for {target}": _followed(text, target) for target, text in TEXTS.items()}}


def _table(passes: Sequence[LoweringPass]) -> str:
    rows = (f"| `{each.name}` | {each.needs} | {each.leaves} |" for each in passes)
    return "\n".join(["| pass | needs | leaves |", "|---|---|---|", *rows])


def _followed(text: str, target: str) -> str:
    """What each pass leaves of a kernel, those that change nothing told of together."""
    shown = [f"```dojo\n{text.rstrip()}\n```"]
    before, same = "", list[str]()

    def watch(name: str, left: str) -> None:
        nonlocal before
        if left == before or not left.startswith(("program", "function")):
            same.append(f"`{name}`")
            return
        if same:
            shown.append(f"{', '.join(same)}: the same.")
            same.clear()
        shown.append(f"`{name}`:\n\n```text\n{left.rstrip()}\n```")
        before = left

    dojoir.emit(dojoir.parse(text), target, watch=watch)
    return "\n\n".join([*shown, *([f"{', '.join(same)}: the same."] if same else [])])


def with_parts(page: str) -> str:
    """A page with its made parts as they are now."""
    for name, part in made().items():
        mark = re.escape(f"<!-- made: {name} -->")
        page, count = re.subn(
            rf"({mark}\n).*?(<!-- end -->)", lambda m, part=part: f"{m[1]}\n{part}\n\n{m[2]}", page, flags=re.DOTALL
        )
        assert count == 1, f"the page has no part {name}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_parts(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
