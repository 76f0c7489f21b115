"""Moves on buffers: their dimensions, layout, place and sharing."""
