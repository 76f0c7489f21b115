"""Graphs of ATen operators to texts of kernels: what `dojoir.torch.from_module` and the backend of `torch.compile`
stand on."""
