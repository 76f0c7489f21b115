"""`dojoir-opt`: kernels from the shell. It uses only the public names of dojoir."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `dojoir-opt` with the given arguments (those of the process by default); returns the exit status:
    0 fine, 1 the input, 2 usage, 3 results differ, 4 a toolchain is missing, 5 time limit, 70 a bug of ours."""

    def work(given: list[str]) -> int:
        from dojoir.cli.options import parse_options

        options = parse_options(given)
        from dojoir.cli.driver import run

        return run(options)

    return guarded(work, arguments, "dojoir-opt")


def guarded(work: Callable[[list[str]], int], arguments: Sequence[str] | None, command: str) -> int:
    """The exit status of a command, which ends with one whatever comes."""
    import dojoir
    from dojoir.cli.streams import prepare, write_stdout

    prepare()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            return work(given)
        except SystemExit as left:  # --help, --version, usage
            if left.code == 0:
                write_stdout("")
            raise
    except dojoir.DojoError as error:
        from dojoir.cli.error_report import report

        return report(error, "--json" in given)
    except BrokenPipeError:  # the reader has seen enough
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from dojoir.cli.error_report import report_bug

        return report_bug(error, command)
