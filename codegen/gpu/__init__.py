"""The GPU targets: a lowered program as CUDA C++ or HIP."""
