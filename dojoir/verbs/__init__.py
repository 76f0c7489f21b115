"""`dojoir`: tune a kernel, play it by hand, train what plays it, look after the database.

It is a second command beside the filter `dojoir-opt`, with the same exit statuses and the same form of errors.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `dojoir` with the given arguments (those of the process by default); returns the exit status: 0 fine, 1
    the input, 2 usage, 3 results differ, 4 a package or toolchain is missing, 5 time limit, 70 a bug of ours."""
    from dojoir.cli import guarded

    def work(given: list[str]) -> int:
        from dojoir.verbs.options import parse

        options = parse(given)
        return int(options.run(options))

    return guarded(work, arguments, "dojoir")
