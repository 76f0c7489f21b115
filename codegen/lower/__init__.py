"""From a kernel to a low-level program."""
