"""Rows on a CPU: several at once, in lanes, in blocks, in waves; sums, scans and recurrences along them."""
