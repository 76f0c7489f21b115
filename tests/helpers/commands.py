"""Commands of `dojoir`, called in this process."""

from __future__ import annotations

import pytest

from dojoir.verbs import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The status, stdout and stderr of a command."""
    try:
        status = main(arguments)
    except SystemExit as left:
        status = int(str(left.code or 0))
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err and "internal" not in err, err
    return status, out, err
