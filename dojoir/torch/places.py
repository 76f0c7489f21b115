"""What a call on a GPU asks of PyTorch: the current stream and device, and new memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Places:
    """One for all GPUs; tests have one of their own."""

    def __init__(self) -> None:
        guards: Any = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
        quick: Any = torch._C
        self.stream: Callable[[int], int] = getattr(quick, "_cuda_getCurrentRawStream", None) or (
            lambda device: int(torch.cuda.current_stream(device).cuda_stream)
        )
        self.empty: Callable[..., torch.Tensor] = getattr(guards, "_empty_strided_cuda", None) or (
            lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device="cuda")
        )
        self.current: Callable[[], int] = getattr(quick, "_cuda_getDevice", None) or torch.cuda.current_device

    def words(self, count: int) -> torch.Tensor:
        """Words that a GPU writes and the CPU reads."""
        return torch.zeros(count, dtype=torch.int32).pin_memory()

    def on(self, device: int) -> Any:
        """The device is the current one inside."""
        return torch.cuda.device(device)


places = Places()
