"""Elements and values of one statement: addresses, loads and stores, checks, expressions."""
