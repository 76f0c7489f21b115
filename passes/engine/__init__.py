"""Listing, checking, applying and tracing moves."""
