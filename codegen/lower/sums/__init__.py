"""Sums in variables and of many threads: what carries them, and how they reach their elements."""
