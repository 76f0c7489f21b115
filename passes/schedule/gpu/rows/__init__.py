"""Rows, columns, sums and scans on a GPU."""
