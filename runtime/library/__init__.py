"""Kernels as C libraries."""
