"""For tests of kernels: inputs of all their types, sizes, inputs that a kernel ignores, and what its calls use.

`verify` draws the same ones. They are arrays of NumPy by name, the same for the same seed.
"""

from dojoir.runtime.measurement.spending import spending
from dojoir.runtime.verification.random_inputs import random_inputs
from dojoir.runtime.verification.repeats import ignored_inputs, repeats
from dojoir.runtime.verification.sample_sizes import sample_sizes, sizes_between

__all__ = ["ignored_inputs", "random_inputs", "repeats", "sample_sizes", "sizes_between", "spending"]
