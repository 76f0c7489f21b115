"""From source to a function in memory: compilers, LLVM, the cache, threads, emulators."""
