"""The base of every move."""
