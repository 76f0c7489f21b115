"""Games for language models: the tools that a model plays with, and a server of the Model Context Protocol for
them.

`Table` has the tools as plain methods that answer with plain data; `mcp_server` puts them on the official SDK
(extra `llm`). `docs/mcp.md` says what each does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dojoir.records.lazily import lazily

if TYPE_CHECKING:
    from dojoir.llm.limits import Limits
    from dojoir.llm.server import mcp_server, serve
    from dojoir.llm.table import Table

_HOME = {"Limits": "limits", "Table": "table", "mcp_server": "server", "serve": "server"}

__all__ = ["Limits", "Table", "mcp_server", "serve"]


__getattr__, __dir__ = lazily(__name__, _HOME)
