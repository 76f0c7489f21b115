"""The cost of a kernel: operations, bytes and iterations, counted as formulas in its sizes."""
