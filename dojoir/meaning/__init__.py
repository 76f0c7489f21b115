"""What a kernel computes: the reference interpreter, and the scalar operations that it is made of."""
