"""Instructions that a warp executes together: products on matrix units, right on the harness, taken by NVRTC, and
planted faults found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import numpy as np
import pytest
from gpu_compile import nvrtc_error
from narrow_products import agrees, drawn, numbers
from on_harness import run

import dojoir
from dojoir import instructions
from dojoir.backends.machine import MACHINES, nvidia
from dojoir.codegen.emission import gpu_program
from dojoir.codegen.gpu.program import GpuProgram
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.waits.barrier_proof import unseparated
from dojoir.codegen.lower.waits.barriers import barriers_of
from dojoir.costs.thread_work import gain_of_units
from dojoir.grammar.instructions import read_instruction
from dojoir.passes.schedule.gpu.tiles.matrix_units import large_matrix_tiles, small_matrix_tiles
from dojoir.passes.schedule.plan.structures import open_matrix_tiles

CUDA = MACHINES["cuda"]


def shared_by(threads: int) -> set[str]:
    """The instructions that as many threads execute together."""
    return {name for name in instructions.names() if instructions.load(name).group == threads}


def product(
    turned: str = "",
    dtype: str = "bf16",
    out: str = "",
    sizes: tuple[int, int, int] = (64, 64, 64),
    begin: bool = True,
) -> dojoir.Kernel:
    """c = a b, of operands that are `turned` in memory, with sums that begin at 0, or at what is there. A `dtype`
    of two words is that of each operand."""
    n, m, k = sizes
    a, at_a = ("K, N", "{2}, {0}") if "a" in turned else ("N, K", "{0}, {2}")
    b, at_b = ("M, K", "{1}, {2}") if "b" in turned else ("K, M", "{2}, {1}")
    left, right = (dtype.split() * 2)[:2]
    term = "i32(a[{}]) * i32(b[{}])" if out == "i32" else "a[{}] * b[{}]"
    return dojoir.parse(f"""kernel product(N = {n}, M = {m}, K = {k})
in  a: {left}[{a}]
in  b: {right}[{b}]
{"out" if begin else "inout"} c: {out or dtype}[N, M]
N
| M
{"| | c[{0}, {1}] = 0" if begin else ""}
| | K
| | | c[{{0}}, {{1}}] += {term.format(at_a, at_b)}
""")


@cache
def tiled(kernel: dojoir.Kernel, large: bool = False) -> dojoir.Kernel:
    """On matrix units, in one launch whatever the sizes."""
    trace = dojoir.Trace(kernel)
    structure = large_matrix_tiles if large else small_matrix_tiles
    assert structure(trace, (0,), CUDA) == []
    assert len(trace.kernel.body) == 1
    return trace.kernel


KERNELS = {
    f"{turned or 'plain'} {dtype} {out}": product(turned, dtype, out)
    for turned, dtype, out in (
        ("", "bf16", "bf16"),
        ("b", "bf16", "f32"),
        ("a", "f16", "f16"),
        ("ab", "f16", "f32"),
        ("ab", "bf16", "bf16"),
        ("", "f16", "f32"),
        ("b", "f16", "f16"),
        ("a", "bf16", "f32"),
    )
}
KERNELS |= {
    f"{turned or 'plain'} {dtype} {out} of {sizes}": product(turned, dtype, out, sizes, begin)
    for turned, dtype, out, sizes, begin in (
        ("b", "bf16", "f32", (64, 64, 64), False),
        ("", "f16", "f32", (65, 72, 100), True),  # 16 bytes at once, 8 of the left rows
        ("", "bf16", "bf16", (70, 67, 77), True),  # odd rows: an element at a time
        ("b", "f16", "f16", (33, 130, 40), True),
        ("b", "bf16", "bf16", (9, 130, 72), True),  # few rows
        ("a", "f16", "f32", (70, 12, 80), True),  # few columns
        ("a", "bf16", "f32", (66, 33, 9), True),
        ("ab", "f16", "bf16", (36, 65, 130), True),
        ("b", "bf16", "f32", (90, 50, 64), False),
        ("", "f16", "f16", (64, 64, 72), True),
        ("", "bf16", "bf16", (64, 44, 64), True),
        ("b", "i8", "i32", (64, 64, 128), True),
        ("", "u8 i8", "i32", (64, 64, 256), True),
        ("a", "i8 u8", "i32", (65, 40, 100), True),
        ("ab", "u8", "i32", (64, 96, 130), False),
        ("", "i8", "i32", (33, 67, 77), True),
        ("", "f64", "f64", (64, 64, 32), True),
        ("b", "f64", "f64", (40, 67, 21), True),
        ("a", "f64", "f64", (64, 64, 16), False),
        ("ab", "f64", "f64", (66, 34, 24), True),
    )
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("order", ["forward", "backward"])
def test_a_product_is_right_on_the_harness(name: str, order: Literal["forward", "backward"]) -> None:
    kernel = KERNELS[name]
    scheduled, given = tiled(kernel), drawn(kernel)
    assert agrees(kernel, run(scheduled, given, {}, order=order), given)


@pytest.mark.parametrize("name", KERNELS)
def test_nvrtc_takes_the_text(name: str) -> None:
    text = dojoir.emit(tiled(KERNELS[name]), "cuda")
    for architecture in ("sm_80", "sm_90a"):
        assert not nvrtc_error(text, architecture)


def test_a_gpu_without_the_instruction_is_told_so() -> None:
    text = dojoir.emit(tiled(KERNELS["plain bf16 bf16"]), "cuda")
    assert "this text is for GPUs that have sm_80" in nvrtc_error(text, "sm_75")


def test_all_instructions_are_used() -> None:
    texts = "".join(dojoir.to_text(tiled(kernel)) for kernel in KERNELS.values())
    of_warps = shared_by(32)
    assert of_warps
    assert {name for name in of_warps if f"use({name})" not in texts} == set()


def test_large_tiles() -> None:
    kernel = product("b", "bf16", "bf16", (128, 128, 64))
    given = drawn(kernel)
    assert agrees(kernel, run(tiled(kernel, True), given, {}), given)
    assert not nvrtc_error(dojoir.emit(tiled(kernel, True), "cuda"), "sm_80")


def test_a_batch() -> None:
    """What is the grid's beside rows and columns is a dimension of the tiles with one element."""
    kernel = dojoir.parse("""kernel batch(B = 2, N = 64, M = 64, K = 64)
in  a: bf16[B, N, K]
in  b: bf16[B, K, M]
out c: f32[B, N, M]
B
| N
| | M
| | | c[{0}, {1}, {2}] = 0
| | | K
| | | | c[{0}, {1}, {2}] += a[{0}, {1}, {3}] * b[{0}, {3}, {2}]
""")
    scheduled, given = tiled(kernel), drawn(kernel)
    found = run(scheduled, given, {})["c"].reshape(2, 64, 64)
    a, b = (numbers(given[name], "bf16") for name in "ab")
    assert np.allclose(found, a @ b, atol=1e-3)
    assert not nvrtc_error(dojoir.emit(scheduled, "cuda"), "sm_90a")


def test_no_padding_meets_what_is_infinite_or_no_number() -> None:
    for turned in ("", "ab"):
        kernel = product(turned, "f16", "f32", (34, 37, 43))
        given = drawn(kernel)
        for a in given.values():
            a[-1, -1], a[0, 0] = np.inf, np.nan
        (want,) = dojoir.interpret(kernel, given).values()
        found = run(tiled(kernel), given, {})["c"].reshape(want.shape)
        assert np.allclose(found, want, atol=1e-3, equal_nan=True)
        assert 0 < np.isfinite(want).sum() < want.size


OPEN = """kernel product(N, M, K)
in  a: bf16[N, K]
in  b: bf16[M, K]
out c: f32[N, M]
N
| M
| | c[{0}, {1}] = 0
| | K
| | | c[{0}, {1}] += a[{0}, {2}] * b[{1}, {2}]
"""


def test_sizes_that_are_not_known() -> None:
    for text in (OPEN, OPEN.replace("\nin", "\nwhere K % 8 == 0\nin", 1)):
        kernel = dojoir.parse(text)
        trace = dojoir.Trace(kernel)
        open_matrix_tiles(trace, (0,), CUDA)
        assert not nvrtc_error(dojoir.emit(trace.kernel, "cuda"), "sm_90a")
        for sizes in ({"N": 1, "M": 1, "K": 8}, {"N": 70, "M": 65, "K": 72}, {"N": 64, "M": 128, "K": 64}):
            fixed = kernel.specialize(**sizes)
            given = drawn(fixed)
            (want,) = dojoir.interpret(fixed, given).values()
            found = run(trace.kernel, given, sizes)["c"].reshape(want.shape)
            assert np.allclose(found, want, atol=1e-3)


def test_a_ragged_product_is_certified() -> None:
    trace = dojoir.Trace(product("b", "bf16", "f32", (70, 67, 77)))
    small_matrix_tiles(trace, (0,), CUDA)
    assert dojoir.certify(trace)


@pytest.mark.parametrize("sizes", [{"B": 3, "N": 65, "M": 40, "K": 24}, {"B": 2, "N": 64, "M": 35, "K": 17}])
def test_a_ragged_batch(sizes: dict[str, int]) -> None:
    kernel = dojoir.parse("""kernel batch(B, N, M, K)
in  a: bf16[B, N, K]
in  b: bf16[B, K, M]
out c: f32[B, N, M]
B
| N
| | M
| | | c[{0}, {1}, {2}] = 0
| | | K
| | | | c[{0}, {1}, {2}] += a[{0}, {1}, {3}] * b[{0}, {3}, {2}]
""").specialize(**sizes)
    scheduled, given = tiled(kernel), drawn(kernel)
    found = run(scheduled, given, {})["c"].reshape(sizes["B"], sizes["N"], sizes["M"])
    a, b = (numbers(given[name], "bf16") for name in "ab")
    assert np.allclose(found, a @ b, atol=1e-3)
    assert not nvrtc_error(dojoir.emit(scheduled, "cuda"), "sm_90a")


LINEAR = """kernel linear(N, M, K)
in  a: f16[N, K]
in  b: f16[M, K]
in  bias: f16[M]
out c: f16[N, M]
tmp h: f32[N, M]
N
| M
| | h[{0}, {1}] = 0
| | K
| | | h[{0}, {1}] += a[{0}, {2}] * b[{1}, {2}]
| | h[{0}, {1}] += bias[{1}]
| | c[{0}, {1}] = 0.5 * h[{0}, {1}] * (1 + tanh(0.8 * h[{0}, {1}]))
"""


@pytest.mark.parametrize("sizes", [(64, 128, 64), (65, 66, 70), (34, 67, 77)])
def test_what_is_done_with_a_result_stays_in_registers(sizes: tuple[int, int, int]) -> None:
    kernel = dojoir.parse(LINEAR).specialize(**dict(zip("NMK", sizes, strict=True)))
    scheduled, given = tiled(kernel), drawn(kernel)
    assert {buffer.storage for buffer in scheduled.buffers if buffer.role == "tmp"} == {"reg", "shared"}
    a, b = (given[name].astype(np.float64) for name in "ab")
    sums = a @ b.T + given["bias"]
    found = run(scheduled, given, {})["c"].reshape(sizes[:2])
    assert np.allclose(found, 0.5 * sums * (1 + np.tanh(0.8 * sums)), rtol=2e-3, atol=2e-3)
    assert not nvrtc_error(dojoir.emit(scheduled, "cuda"), "sm_90a")


def test_the_next_tiles_are_read_while_these_are_multiplied() -> None:
    """In words of 4 bytes, 32 of them, which are registers to the compiler."""
    for sizes in ((512, 512, 192), (500, 504, 192)):
        text = dojoir.emit(tiled(product("", "bf16", "bf16", sizes), True), "cuda")
        loop = text[text.index("for (int i2 = 0") :]
        for array in "ab":
            assert f"unsigned short {array}_ahead[32];" in text
            assert (
                loop.index("__syncthreads") < loop.index(f"*(uint4 *)&{array}_ahead[") < loop.index("mma_m16n8k16")
            )
        assert not nvrtc_error(text, "sm_90a")


def test_other_targets_run_the_text_as_it_stands() -> None:
    kernel = KERNELS["plain f16 f32"]
    given = drawn(kernel)
    found = dojoir.compile(tiled(kernel), "llvm").run(given)
    assert agrees(kernel, found, given)
    with pytest.raises(dojoir.KernelError, match="crosses-threads"):
        dojoir.emit(tiled(kernel), "hip")


@pytest.mark.parametrize(
    ("turned", "dtype", "out", "sizes", "unit"),
    [
        ("", "bf16", "", (2048, 2048, 1000), "wgmma_m64n128k64_trans_b_bf16"),
        ("b", "f16", "", (1000, 1000, 1000), "wgmma_m64n128k64_f16"),
        ("", "bf16", "", (3000, 777, 1500), "mma_m16n8k16_bf16"),
        ("b", "i8", "i32", (1024, 1024, 1024), "wgmma_m64n128k128_byte_i8_i8"),
        ("", "i8", "i32", (1024, 1024, 1024), "wgmma_m64n128k128_byte_i8_i8"),  # turned by a launch before it
        ("b", "f8e4m3", "f32", (1024, 1024, 1024), "wgmma_m64n128k128_f8e4m3_f8e4m3"),
    ],
)
def test_optimize_takes_them_by_itself(
    turned: str, dtype: str, out: str, sizes: tuple[int, int, int], unit: str
) -> None:
    kernel = dojoir.optimize(product(turned, dtype, out, sizes), "cuda").kernel
    assert f"use({unit})" in dojoir.to_text(kernel)
    assert len(kernel.body) == 1 + (dtype == "i8" and not turned)


def test_optimize_takes_none_for_f32() -> None:
    assert "use(" not in dojoir.to_text(dojoir.optimize(product("", "f32", "", (512, 512, 512)), "cuda").kernel)


def refusal(kernel: dojoir.Kernel, machine: Any = CUDA) -> str:
    with pytest.raises(dojoir.DojoError) as told:
        small_matrix_tiles(dojoir.Trace(kernel), (0,), machine)
    return str(told.value)


def test_a_machine_without_units_and_a_strict_kernel_get_none() -> None:
    older = replace(CUDA, features=nvidia("sm_75"))
    assert "for this machine's units" in refusal(KERNELS["plain bf16 bf16"], older)
    strict = dojoir.parse(
        dojoir.to_text(product()).replace("\n\n", "\nfp strict\n\n", 1).replace("\nin ", "\nin ", 1)
    )
    assert "a sum in any order" in refusal(strict.evolve(fp="strict"))
    assert "that matrix units have" in refusal(product("", "f32"))


# -- planted faults --------------------------------------------------------------------------------------------
def with_text(program: GpuProgram, change: Any) -> GpuProgram:
    source = change(program.source)
    assert source != program.source
    return replace(program, source=source)


FAULTS = {
    "a lane stays away from a product": (
        r"( +)(mma_m16n8k16_f16\(&)", r"\1if (threadIdx.x % 32 != 5) \2", "divergent-barrier|bad-shuffle",
    ),
    "a lane stays away from a load": (
        r"( +)(ldmatrix_a_f16\(&)", r"\1if (threadIdx.x % 32 != 5) \2", "divergent-barrier|bad-shuffle",
    ),
    "no barrier between copies and loads": (r"__syncthreads\(\);", "", "race|uninitialised-shared"),
    "rows farther apart than they are": (
        r"(ldmatrix_a_f16\(&.*?), 64, 7\)", r"\1, 640, 7)", "uninitialised|out-of-bounds|race",
    ),
    "a load from rows further on": (
        r"(ldmatrix_a_f16\(&a_tile\[)", r"\g<1>72 * 40 + ", "uninitialised|out-of-bounds|race",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_in_the_text_is_found_by_the_harness(what: str) -> None:
    pattern, instead, code = FAULTS[what]
    kernel = KERNELS["plain f16 f32"]
    program = with_text(
        gpu_program(tiled(kernel), "cuda"),
        lambda text: (
            text[: text.index("extern")] + re.sub(pattern, instead, text[text.index("extern") :], flags=re.DOTALL)
        ),
    )
    with pytest.raises(dojoir.RunError) as told:
        run(tiled(kernel), drawn(kernel), {}, program=program)
    assert re.search(code, told.value.diagnostic.code), told.value


WRONG_RESULTS = {
    "the fragments of another tile": (r"&b_part\[\((i\d+) / 2", r"&b_part[(\1 / 4"),
    "chunks exchanged on one side only": (r", 64, 7\)", ", 64, 0)"),
    "a fragment that is not turned": (r" ldmatrix_b_trans_f16\(&", r" ldmatrix_b_f16(&"),
}


@pytest.mark.parametrize("what", WRONG_RESULTS)
def test_a_fault_that_is_no_race_gives_other_results(what: str) -> None:
    pattern, instead = WRONG_RESULTS[what]
    kernel = KERNELS["plain f16 f32"]
    other = dojoir.emit(tiled(KERNELS["b f16 f16"]), "cuda")  # for the helper that is called instead
    helper = other[other.index("static __device__ inline void ldmatrix_b_f16") : other.index("extern")]
    helper = helper[: helper.index("\n}\n") + 3]

    def change(text: str) -> str:
        start = text.index("extern")
        return text[:start] + helper + re.sub(pattern, instead, text[start:], flags=re.DOTALL)

    program, given = gpu_program(tiled(kernel), "cuda"), drawn(kernel)
    assert not agrees(kernel, run(tiled(kernel), given, {}, program=with_text(program, change)), given)


def test_barriers_are_proved_with_reads_by_all_lanes() -> None:
    """Each barrier of a product is needed: without any one of them the proof finds a pair, the copies of a tile and
    the loads of a warp."""
    scheduled = tiled(product("", "f16", "f32", (64, 64, 128)))
    placed = dict(barriers_of(Threads(scheduled, 32)))
    assert len(placed) == 2
    assert unseparated(scheduled, 32, placed) == []
    for at in placed:
        left = unseparated(scheduled, 32, {k: v for k, v in placed.items() if k != at})
        assert {pair.buffer for pair in left} >= {"a_tile", "b_tile"}


def test_an_accumulator_that_another_thread_has_is_refused() -> None:
    kernel = tiled(KERNELS["plain f16 f32"])
    text = dojoir.to_text(kernel)
    at = text.rindex("c_tile[")
    wrong = text[:at] + text[at:].replace("{4} // 4", "({4} + 4) // 4 % 8", 1)
    with pytest.raises(dojoir.KernelError) as told:
        dojoir.emit(dojoir.parse(wrong), "cuda")
    assert told.value.diagnostic.code == "crosses-threads"
    assert "c_tile" in str(told.value)


def hinted(change: Mapping[str, str]) -> str:
    """What is said against a text with a change to it."""
    text = dojoir.to_text(tiled(KERNELS["plain f16 f32"]))
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(dojoir.KernelError) as told:
        dojoir.prove(dojoir.parse(text))
    assert told.value.diagnostic.code == "not-this-instruction"
    return str(told.value)


def test_two_layouts_mixed_are_refused() -> None:
    assert "moves" in hinted({"reg order(0, 2, 4, 3, 1, 5)": "reg order(0, 2, 4, 1, 3, 5)"})
    assert "moves" in hinted({"reg order(0, 4, 1, 5, 3, 6, 2, 7)": "reg order(0, 4, 1, 5, 3, 6, 7, 2)"})


def test_rows_that_no_access_reaches_are_refused() -> None:
    assert "16 bytes" in hinted({"shared swizzle(128)": "shared pad(0, 1)"})
    assert "swizzle(a_tile, 0)" in hinted({"shared swizzle(128)": "shared swizzle(64)"})


def test_operands_are_where_the_instruction_has_them() -> None:
    assert "place(a_tile, shared)" in hinted({"[64, 64] shared swizzle(128)": "[64, 64] heap pad(0, 8)"})
    assert "place(a_part, reg)" in hinted({"] reg order(0, 2, 4, 3, 1, 5)": "] stack order(0, 2, 4, 3, 1, 5)"})


def test_terms_of_another_lane_are_no_such_product() -> None:
    text = dojoir.to_text(tiled(KERNELS["plain f16 f32"]))
    (line,) = [line for line in text.splitlines() if "+= a_part[" in line]
    found = re.search(r"a_part\[\{6\}, \{8\}, \{9\}, \{12\}, \{13\}", line)
    assert found is not None
    assert "by which its threads differ" in hinted({found[0]: found[0].replace("{9}", "({9} + 1) % 8")})


# -- files -----------------------------------------------------------------------------------------------------
FILES = {
    "a group of no warp": ("group    32 f", "group    16 f", "a group has 32 or 64 or 128 threads"),
    "no group": ("group    32 f\n", "", "a line `group` says how many"),
    "spread by other dimensions": ("group    32 f", "group    32 f s", "spread over 32 threads"),
    "neither spread nor shared": ("shared   s\n", "", "neither spread over the threads"),
    "no operand": ("shared   s", "shared   t", "'t' is no operand"),
    "no stride": ("{s.stride}", "16", "by which its rows are apart"),
    "words of C": ("cuda     const", "c        const", "spelled by a line `cuda` alone"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_is_wrong_is_told_with_its_line(what: str) -> None:
    old, new, message = FILES[what]
    with open(instructions.__file__.replace("__init__.py", "ldmatrix_a_TYPE.dojo"), encoding="utf-8") as file:
        text = file.read().replace("each     TYPE bf16 f16\n", "").replace("TYPE", "f16")
    assert old in text
    with pytest.raises(dojoir.DojoError) as told:
        read_instruction(text.replace(old, new), "ldmatrix_a_f16.dojo")
    assert message in str(told.value)
    assert "ldmatrix_a_f16.dojo:" in str(told.value)


def test_the_ceiling_of_arithmetic_is_that_of_the_units_that_are_used() -> None:
    plain = product("", "bf16", "f32")
    assert gain_of_units(plain, CUDA) == 0 and gain_of_units(tiled(plain), CUDA) > 4
