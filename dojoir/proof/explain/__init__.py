"""The findings of the core, in words: example iterations, the accesses in conflict, and facts that would cure
it."""
