"""Kernels and trees made of others: names, types, accesses and affine values replaced."""
