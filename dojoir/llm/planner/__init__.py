"""A language model as a strategy: what it is asked, what it may answer, the tools it has, and what it is told of
what became of its plans."""
