"""What every room may use and nothing of dojoir is in: bounded caches, hashes of frozen data, the cache folder."""
