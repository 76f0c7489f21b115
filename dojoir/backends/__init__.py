"""Targets and machines as data."""
