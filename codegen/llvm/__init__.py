"""The printer of LLVM IR."""
