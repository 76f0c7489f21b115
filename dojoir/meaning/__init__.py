"""The meaning of a kernel: the reference interpreter, and the scalar operations that it uses."""
