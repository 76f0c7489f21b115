"""The words of the language that several readers share: marks of scopes, storages and attributes of buffers."""

from __future__ import annotations

MARKS = ("p", "v", "u", "gx", "gy", "gz", "bx", "by", "bz", "lane")
"""The marks of a scope."""

STORAGES = ("heap", "stack", "reg", "shared")
"""Where a temporary may live."""

ATTRIBUTES = (*STORAGES, "order", "pad", "align", "stream", "strided", "flat", "packed", "distinct")
"""The words that may follow the type of a buffer."""
