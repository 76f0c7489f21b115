"""Blocks of numbers on the threads of a GPU."""

from __future__ import annotations

import pytest

import dojoir
from dojoir import kernels
from dojoir.kernels.quantised import OPTIONS

NAMES = [name for name in OPTIONS if name != "matmul_fp4"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scales", ["linear", "tiled"])
def test_a_thread_has_a_block(name: str, scales: str) -> None:
    """By moves that certify; nothing of a block is in memory."""
    kernel = kernels.load(name, scales=scales)
    trace = dojoir.optimize(kernel, "cuda")
    text = dojoir.to_text(trace.kernel)
    assert ": gx" in text and ": bx" in text
    assert all(b.storage == "reg" for b in trace.kernel.buffers if b.role == "tmp"), text
    assert dojoir.certify(trace).status == "legal"


def test_what_is_no_nest_of_blocks_has_another_schedule() -> None:
    text = dojoir.to_text(kernels.load("nvfp4_quantize")).replace("16*B", "96*B").replace("\n| | 16", "\n| | 96")
    kernel = dojoir.parse(text.replace("16*{", "96*{"))
    tried = [one for one in dojoir.plan(kernel, "cuda").tried if one.structure == "blocks_in_threads"]
    assert tried and all(one.seconds is None for one in tried)
