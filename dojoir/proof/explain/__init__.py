"""What the core finds wrong, in words: example iterations, who is accused, and facts that would mend it."""
