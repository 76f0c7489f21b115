"""Moves that set marks and hints, and use instructions."""
