"""How much code the product is, by folder: `python benchmarks/code_size.py [REVISION ...]`.

A line counts if there is code on it. Comments, docstrings, blank lines, and lines with nothing but pieces of text
(errors, tables that are written as text) do not. Each revision of git is a column; without one, what is here now.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("dojoir", "grammar", "passes", "codegen", "runtime")
SILENT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER, tokenize.STRING,
}  # fmt: skip
PUNCTUATION = frozenset("()[]{},")


def code_lines(text: str) -> int:
    """The lines of a file with code on them."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT and token.string not in PUNCTUATION:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def sources(revision: str | None) -> dict[str, str]:
    """The product's Python files by path, of a revision or as they are."""
    if revision is None:
        paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
        return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    command = ["git", "archive", revision, *FOLDERS]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        members = [member for member in files.getmembers() if member.name.endswith(".py")]
        held = ((member.name, files.extractfile(member)) for member in members)
        return {name: file.read().decode("utf-8") for name, file in held if file is not None}


def room_of(path: str) -> str:
    """The folder that a file is counted in: one level below dojoir, else the top one and the one below."""
    parts = path.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def main() -> None:
    columns = sys.argv[1:] or [None]
    counts: list[Counter[str]] = []
    for revision in columns:
        count: Counter[str] = Counter()
        for path, text in sources(revision).items():
            count[room_of(path)] += code_lines(text)
        counts.append(count)
    rooms = sorted(set().union(*counts))
    width = max(map(len, rooms))
    print(" " * width, *(f"{(name or 'now')[:12]:>12}" for name in columns))
    for room in rooms:
        print(f"{room:{width}}", *(f"{count[room]:12}" for count in counts))
    print(f"{'all':{width}}", *(f"{sum(count.values()):12}" for count in counts))


if __name__ == "__main__":
    main()
