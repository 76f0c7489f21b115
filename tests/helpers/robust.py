"""Two steps that hand on a value, and the shell."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

PAIR = """\
kernel pair(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N]

N @i
| t[{0}] = x[{0}] * 2
N @j
| y[{0}] = t[{0}] + 1
"""


def shell(*arguments: str, stdin: str | None = "", **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs dojoir-opt as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "dojoir.cli", *arguments], input=stdin, capture_output=True, text=True, **options
    )
