"""Running kernels on a GPU: CUDA and HIP programs built, launched on streams, or run without a device."""
