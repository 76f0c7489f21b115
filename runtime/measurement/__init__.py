"""Timing kernels, and the ceilings of the machine."""
