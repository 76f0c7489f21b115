"""Running CUDA and HIP text with no GPU, so that a race, a wrong barrier or a wild access is an error."""
