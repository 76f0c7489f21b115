"""The tools that every room may use: tables of answers, frozen classes, hashes computed once, files, the cache
folder."""

import time

BEGUN = time.time()
"""About when this process began to load dojoir."""
