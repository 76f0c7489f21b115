"""Decisions on a kernel before it is lowered: layouts, homes of temporaries, lanes."""
