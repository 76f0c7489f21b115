"""Short forms of the language, written out where a text is read."""
