"""The roles of what no structure took: the order of scopes, storage, lanes, cores."""
