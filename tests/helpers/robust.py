"""The shell, as a process."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


def shell(*arguments: str, stdin: str | None = "", **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs dojoir-opt as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "dojoir.cli", *arguments], input=stdin, capture_output=True, text=True, **options
    )
