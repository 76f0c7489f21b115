"""Kernels written by programs: the builder, its expressions, and kernels joined into one."""
