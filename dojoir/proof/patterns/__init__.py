"""Fast proofs: theorems about the shapes that moves leave, each compared with the core by the tests."""
