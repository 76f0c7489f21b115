"""The drivers of this process, one for each vendor, found when a kernel is first compiled for it."""

from __future__ import annotations

from functools import cache

from dojoir.runtime.gpu.driver import Driver


@cache
def find(target: str) -> Driver:
    """The driver for `cuda` or `hip`. Raises ToolchainError, with what can be done without, where there is
    none."""
    if target == "cuda":
        from dojoir.runtime.gpu.cuda import Cuda

        return Cuda()
    from dojoir.runtime.gpu.hip import Hip

    return Hip()
