"""Who runs what on a GPU: launches, phases, threads, and what they have room for."""
