"""Products that four warps share, from shared memory: right on the harness, taken by NVRTC; planted faults are
found."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest
from gpu_compile import nvrtc_error
from narrow_products import agrees, drawn
from on_harness import run
from test_matrix_units import CUDA, product, shared_by, with_text

import dojoir
from dojoir import instructions
from dojoir.backends.machine import nvidia
from dojoir.codegen.emission import gpu_program
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.waits.barrier_proof import unseparated
from dojoir.codegen.lower.waits.barriers import barriers_of
from dojoir.grammar.instructions import read_instruction
from dojoir.passes.schedule.facts.product_facts import BYTES, FP8
from dojoir.passes.schedule.gpu.tiles.matrix_units import large_group_tiles, small_group_tiles

KERNELS = {
    f"{turned or 'plain'} {dtype} {out} of {sizes}": (product(turned, dtype, out, sizes, begin), large)
    for turned, dtype, out, sizes, begin, large in (
        ("", "bf16", "bf16", (128, 256, 256), True, True),
        ("b", "f16", "f32", (256, 128, 256), True, True),
        ("a", "f16", "f16", (128, 128, 256), False, True),
        ("ab", "bf16", "f32", (128, 128, 256), True, True),
        ("", "f16", "f16", (64, 128, 320), False, False),
        ("b", "bf16", "f32", (64, 256, 320), True, False),
        ("", "bf16", "bf16", (150, 136, 328), True, True),  # 16 bytes at once
        ("b", "f16", "f32", (70, 90, 300), True, False),  # 8 bytes at once
        ("a", "bf16", "bf16", (66, 100, 350), True, False),
        ("ab", "f16", "f16", (130, 200, 514), True, True),
        ("b", "i8", "i32", (128, 128, 512), True, True),
        ("b", "u8 i8", "i32", (70, 132, 660), True, False),
        ("b", "f8e4m3", "f32", (128, 128, 512), True, True),
        ("b", "f8e5m2 f8e4m3", "f32", (70, 132, 660), False, False),
    )
}
TURNED = ("", "trans_a_", "trans_b_", "trans_ab_")
SMALL = "plain f16 f16 of (64, 128, 320)"


@cache
def tiled(name: str) -> dojoir.Kernel:
    kernel, large = KERNELS[name]
    trace = dojoir.Trace(kernel)
    assert (large_group_tiles if large else small_group_tiles)(trace, (0,), CUDA) == []
    return trace.kernel


@pytest.mark.parametrize("name", KERNELS)
def test_a_product_is_right_on_the_harness(name: str) -> None:
    kernel, scheduled = KERNELS[name][0], tiled(name)
    given = drawn(kernel)
    for order in ("forward", "backward"):
        assert agrees(kernel, run(scheduled, given, {}, order=order), given)  # type: ignore[arg-type]
    text = dojoir.emit(scheduled, "cuda")
    assert text.count(" fence_proxy();\n") == text.count(" __syncthreads();") > 0
    for architecture in ("sm_80", "sm_90", "sm_90a"):
        told = nvrtc_error(text, architecture)
        assert bool(told) == (architecture != "sm_90a")
        assert not told or "this text is for GPUs that have sm_90a" in told


def test_arrays_may_be_called_as_operands_are() -> None:
    kernel, text = KERNELS[SMALL][0], dojoir.to_text(tiled(SMALL))
    for name, other in (("a", "left"), ("b", "right"), ("a_tile", "a"), ("b_tile", "b")):
        text = re.sub(rf"\b{name}\b", other, text)
    given = drawn(kernel)
    called = {{"a": "left", "b": "right"}.get(name, name): array for name, array in given.items()}
    assert agrees(kernel, run(dojoir.parse(text), called, {}), given)  # type: ignore[arg-type]


def test_all_of_these_instructions_are_used() -> None:
    texts = "".join(dojoir.to_text(tiled(name)) for name in KERNELS)
    own = shared_by(128)
    halves = {f"wgmma_m64n128k64_{turned}{dtype}" for turned in TURNED for dtype in ("bf16", "f16")}
    bits = {
        f"wgmma_m64n128k128_{kind}{left}_{right}"
        for kind, types in (("byte_", BYTES), ("", FP8))
        for left in types
        for right in types
    }
    assert own == halves | bits
    used = {name for name in own if f"use({name})" in texts}
    assert {name.rpartition("_")[0] for name in halves & used} == {name.rpartition("_")[0] for name in halves}
    assert len(bits & used) == 4


def test_what_no_group_has_or_another_machine_gets_none() -> None:
    for kernel, machine in (
        (product("", "bf16", "bf16", (128, 261, 320)), CUDA),  # rows of odd bytes
        (product("", "i8", "i32", (128, 256, 1024)), CUDA),
        (product("", "bf16", "bf16", (128, 256, 128)), CUDA),
        (product("", "bf16", "bf16", (128, 256, 320)), replace(CUDA, features=nvidia("sm_100a"))),
    ):
        with pytest.raises(dojoir.DojoError):
            large_group_tiles(dojoir.Trace(kernel), (0,), machine)


def test_barriers_are_proved_with_reads_by_four_warps() -> None:
    scheduled = tiled(SMALL)
    placed = dict(barriers_of(Threads(scheduled, 32)))
    assert unseparated(scheduled, 32, placed) == []
    for at in placed:
        left = unseparated(scheduled, 32, {k: v for k, v in placed.items() if k != at})
        assert {pair.buffer for pair in left} >= {"a_tile", "b_tile"}


FAULTS = {
    "no fence of the proxy": (r"fence_proxy\(\);", "", "not-fenced"),
    "a wait one group too late": (r"land_copies<2>\(\);", "land_copies<3>();", "not-landed"),
    "no barrier": (r"__syncthreads\(\);", "", "race|uninitialised|not-landed|not-fenced"),
    "a thread stays away": (
        r"( +)(wgmma_m64n128k64_trans_b_f16\(&)", r"\1if (threadIdx.x != 77) \2", "divergent-barrier",
    ),
    "parts farther apart than they are": (r", 4096\)", ", 32768)", "out-of-bounds"),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_in_the_text_is_found_by_the_harness(what: str) -> None:
    pattern, instead, code = FAULTS[what]
    kernel, scheduled = KERNELS[SMALL][0], tiled(SMALL)

    def change(text: str) -> str:
        start = text.index('extern "C"')
        return text[:start] + re.sub(pattern, instead, text[start:])

    program = with_text(gpu_program(scheduled, "cuda"), change)
    with pytest.raises(dojoir.RunError) as told:
        run(scheduled, drawn(kernel), {}, program=program)
    assert re.search(code, told.value.diagnostic.code), told.value


def test_a_file_names_what_the_proxy_reads() -> None:
    with open(instructions.__file__.replace("__init__.py", "wgmma_m64n128k64_TYPE.dojo"), encoding="utf-8") as file:
        text = file.read().replace("each     TYPE bf16 f16\n", "").replace("TYPE", "f16")
    with pytest.raises(dojoir.DojoError, match="`async` is for what lies there"):
        read_instruction(text.replace("async    a b", "async    a d"), "wgmma_m64n128k64_f16.dojo")
