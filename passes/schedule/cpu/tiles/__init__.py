"""Tiles in vector registers: products, convolutions, windows, triangles and transposed copies."""
