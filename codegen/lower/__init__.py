"""From a kernel to a low-level program, by the passes of `pipeline`."""
