"""Passes: they pick moves and prove nothing."""
