"""Normal forms: what is brought into another shape before a machine is thought of."""
