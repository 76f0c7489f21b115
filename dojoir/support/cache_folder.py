"""Where dojoir keeps what it can make again."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path | None:
    """`$DOJOIR_CACHE`, else the user's cache folder, else none. An empty `$DOJOIR_CACHE` turns the cache off."""
    chosen = os.environ.get("DOJOIR_CACHE")
    if chosen is not None:
        return Path(chosen) if chosen else None
    if sys.platform == "darwin":
        base = "~/Library/Caches"
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(base).expanduser() / "dojoir"
    except RuntimeError:  # there is no home
        return None
