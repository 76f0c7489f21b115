"""What a kernel costs: operations, bytes and iterations, counted as formulas in its sizes."""
