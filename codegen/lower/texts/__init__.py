"""Passes from kernel to kernel: what is summed in arrays beside elements, sums of blocks, sizes that are known."""
