"""The low-level program: loops, vector values with masks, scalars, arrays."""
