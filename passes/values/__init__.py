"""Moves on statements: what is computed, and where."""
