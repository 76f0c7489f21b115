"""Moved to `dojoir.records.forms`: this is here for a version."""

from dojoir.records.forms import from_data, from_text, json_of, schema, to_data, to_text

__all__ = ["from_data", "from_text", "json_of", "schema", "to_data", "to_text"]
