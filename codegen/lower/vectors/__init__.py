"""Neighbours at once: rows as one, lanes beyond an edge, wide accesses, products of bytes."""
