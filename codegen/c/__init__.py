"""The printer of portable C, which the printers of intrinsics derive from."""
