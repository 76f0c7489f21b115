"""The text of kernels: the grammar, and the parser from text to the tree."""

from dojoir.grammar.parser import load, parse, parse_affine, parse_conditions, parse_extent
from dojoir.grammar.recovery import problems

__all__ = ["load", "parse", "parse_affine", "parse_conditions", "parse_extent", "problems"]
