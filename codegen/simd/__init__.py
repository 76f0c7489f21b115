"""The printers of C with intrinsics: one table an instruction set."""
