"""JAX as a peer on a GPU: compiled functions on PyTorch's arrays, timed by PyTorch's profiler.

XLA launches its kernels in a stream of its own, so that events around a call say nothing. The profiler sees every
kernel of the process: the time of a call is the sum of its kernels' times, without what lies between them. What
events see besides is taken from a call of another library that is timed both ways.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Self

ROUNDS = 10


class Jax:
    """The module, with products in full f32."""

    def __init__(self, jax: Any) -> None:
        jax.config.update("jax_default_matmul_precision", "highest")
        self.jax, self.version = jax, str(jax.__version__)

    @classmethod
    def load(cls) -> Self | None:
        """None where it is not installed, or knows no GPU."""
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        try:
            import jax

            jax.devices("gpu")
        except (ImportError, RuntimeError):
            return None
        return cls(jax)

    def time(
        self, function: Callable[..., Any], inputs: Sequence[Any], flush: Callable[[], None]
    ) -> tuple[float, Any]:
        """Microseconds of a call with cold caches, and its result as a tensor."""
        import torch

        jax = self.jax
        arrays = [jax.dlpack.from_dlpack(tensor) for tensor in inputs]
        compiled = jax.jit(lambda *given: function(jax, *given))
        result = torch.from_dlpack(compiled(*arrays).block_until_ready())
        return kernel_time(lambda: compiled(*arrays).block_until_ready(), flush), result


def kernel_time(call: Callable[[], object], flush: Callable[[], None]) -> float:
    """Microseconds that the kernels of a call take together, the caches cold: the median of some calls. Raises
    RuntimeError where the profiler sees none."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    times = []
    for _ in range(ROUNDS):
        flush()
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            call()
            torch.cuda.synchronize()
        own = [event for event in seen.events() if str(event.device_type).endswith("CUDA")]
        times.append(sum(event.device_time for event in own))
    if not min(times):
        raise RuntimeError("the profiler saw no kernel")
    return statistics.median(times)
