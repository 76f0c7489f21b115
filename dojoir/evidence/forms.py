"""Moved to `dojoir.records.plain_data`: this is here for a version."""

from dojoir.records.plain_data import from_data, from_text, json_of, schema, to_data, to_text

__all__ = ["from_data", "from_text", "json_of", "schema", "to_data", "to_text"]
