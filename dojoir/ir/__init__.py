"""The kernel as data: nodes, affine expressions, element types, text, rewriting."""
