"""Calls: arguments, views of arrays, the compiled function."""
