"""Child processes that run what may crash or hang."""
