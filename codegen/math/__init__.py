"""Elementary functions as arithmetic on vectors."""
