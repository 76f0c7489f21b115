"""Scopes and guards as loops, lanes, chunks for cores, and code of threads."""
