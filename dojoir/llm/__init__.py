"""Language models as players, and games for them: the tools that a model plays with, a server of the Model Context
Protocol for them, and the strategy `llm:…`, which asks a model for plans.

`Table` has the tools as plain methods that answer with plain data; `mcp_server` puts them on the official SDK
(extra `llm`; `docs/mcp.md`). `ModelPlanner` is the strategy, `Model` what it asks (`docs/models.md`); the other
names are the parts that an agent of one's own is made of (`docs/agents.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dojoir.support.lazily import lazily

if TYPE_CHECKING:
    from dojoir.llm.limits import Limits
    from dojoir.llm.models.asking import Asker, Prices
    from dojoir.llm.models.chat import Chat, ChatSubject
    from dojoir.llm.models.exchange import Message, Model, ModelError, Question, Reply, Tool, ToolCall
    from dojoir.llm.planner.answer import ANSWER, answered, in_text
    from dojoir.llm.planner.plan_making import made
    from dojoir.llm.planner.providers import model_named
    from dojoir.llm.planner.question import fenced, listed_at
    from dojoir.llm.planner.settings import Settings
    from dojoir.llm.planner.strategy import ModelPlanner
    from dojoir.llm.planner.system import SYSTEM
    from dojoir.llm.planner.tools import TOOLS, Tools
    from dojoir.llm.planner.tries import Try
    from dojoir.llm.server import mcp_server, serve
    from dojoir.llm.tool_table import Table

__all__ = [
    "ANSWER", "SYSTEM", "TOOLS", "Asker", "Chat", "ChatSubject", "Limits", "Message", "Model", "ModelError",
    "ModelPlanner", "Prices", "Question", "Reply", "Settings", "Table", "Tool", "ToolCall", "Tools", "Try",
    "answered", "fenced", "in_text", "listed_at", "made", "mcp_server", "model_named", "serve",
]  # fmt: skip
__getattr__, __dir__ = lazily(
    __name__, Begun="dojoir.llm.ChatSubject", Call="dojoir.llm.ToolCall", Planner="dojoir.llm.ModelPlanner",
)  # fmt: skip
