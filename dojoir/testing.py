"""For tests of kernels: inputs of all their types, and inputs whose values a kernel ignores or repeats.

`verify` draws the same ones. They are arrays of NumPy by name, the same for the same seed.
"""

from dojoir.runtime.verification.random_inputs import random_inputs
from dojoir.runtime.verification.repeats import ignored_inputs, repeats

__all__ = ["ignored_inputs", "random_inputs", "repeats"]
