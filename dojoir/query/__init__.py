"""Queries: conditions on nodes, and the search for the places that meet them."""
