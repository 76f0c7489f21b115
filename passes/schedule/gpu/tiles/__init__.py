"""Tiles in shared memory and registers of a GPU: products, convolutions, triangles and transposed copies."""
