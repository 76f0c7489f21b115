"""Quick answers of yes: theorems about the shapes that moves leave, each held against the core in the tests."""
