"""What is decided of a kernel before it is lowered: layouts, homes of temporaries, lanes."""
