"""The text of kernels: the grammar, and the parser from text to the tree."""

from dojoir.grammar.parser import load, parse

__all__ = ["load", "parse"]
