"""Facts of nests that rules ask: how accesses step through memory, what scopes count, which nests are products."""
