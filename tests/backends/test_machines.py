"""Machines: what is known of processors is so, and schedules make of each what it has."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys

import llvmlite.binding as llvm
import pytest
from machine_code import PROCESSORS, PRODUCTS, WIDE, assembly, innermost_loops

import dojoir
from dojoir import schedules
from dojoir.backends import host
from dojoir.backends.machine import Machine, Rates
from dojoir.backends.processors import PROCESSORS as KNOWN
from dojoir.costs.launches import floor_seconds
from dojoir.runtime import processor

OTHERS = ("softmax", "relu", "layernorm", "dot", "transpose")

SIZES = {
    "relu": {"N": 1 << 24},
    "dot": {"N": 1 << 24},
    "bmm": {"B": 64, "N": 256, "M": 256, "K": 64},
    **{name: {"N": 4096, "M": 4096} for name in ("softmax", "layernorm", "transpose")},
    **{name: {"N": 1024, "M": 1024, "K": 1024} for name in ("matmul", "matmul_nt", "matmul_tn")},
}


def probe(machine: Machine) -> str:
    """Additions of vectors of 16 floats, and of 8 where scalable ones have that length, fused products, conversions
    of halves, and sums of products of bytes, as a processor does them."""
    text = """
define void @f(ptr %p, <16 x float> %a, <16 x float> %b) #0 {
  %s = fadd <16 x float> %a, %b
  store <16 x float> %s, ptr %p
  ret void
}
define float @g(float %a, float %b) {
  %r = call float @llvm.fma.f32(float %a, float %b, float %a)
  ret float %r
}
define float @h(half %a) {
  %r = fpext half %a to float
  ret float %r
}
define void @s(ptr %p, ptr %q) vscale_range(2,2) {
  %a = load <8 x float>, ptr %p
  %s = fadd <8 x float> %a, %a
  store <8 x float> %s, ptr %q
  ret void
}
define i32 @d(<32 x i8> %a, <32 x i8> %b) {
  %x = zext <32 x i8> %a to <32 x i32>
  %y = sext <32 x i8> %b to <32 x i32>
  %m = mul nsw <32 x i32> %x, %y
  %r = call i32 @llvm.vector.reduce.add.v32i32(<32 x i32> %m)
  ret i32 %r
}
attributes #0 = { "prefer-vector-width"="512" "min-legal-vector-width"="512" }
declare float @llvm.fma.f32(float, float, float)
declare i32 @llvm.vector.reduce.add.v32i32(<32 x i32>)
"""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    name = "cortex-a72" if machine.name == "generic-aarch64" else machine.name
    target = llvm.Target.from_triple(f"{machine.architecture}-unknown-linux-gnu").create_target_machine(cpu=name)
    return str(target.emit_assembly(llvm.parse_assembly(text)))


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_of_a_processor_is_what_llvm_makes_for_it(name: str) -> None:
    machine = KNOWN[name]
    text = probe(machine)
    if machine.architecture == "aarch64":
        assert re.search(WIDE[16], text) and "fmadd" in text
        assert ("sve" in machine.features) == bool(re.search(r"\bz\d+\.s\b", text))
        return
    assert ("zmm" in text) == (machine.vector_bytes == 64) == machine.masks
    assert ("ymm" in text or "zmm" in text) == ("avx" in machine.features)
    assert ("vfmadd" in text) == ("fma" in machine.features)
    assert ("vcvtph2ps" in text or "vcvtsh2ss" in text) == ("f16c" in machine.features)
    assert ("vpdpbusd" in text) == bool({"avxvnni", "avx512vnni"} & machine.features)
    assert ("{vex}" in text) == ("avxvnni" in machine.features)


UNLIKE = ("haswell", "znver4", "skylake-avx512", "neoverse-n1")
"""Processors that differ in their vectors, or in what LLVM likes of them: what is no product is held on these, and
so is the product that has the tile of another."""

HELD = [
    (cpu, name)
    for cpu in PROCESSORS
    for name in (*PRODUCTS, *OTHERS)
    if cpu in UNLIKE or (name in PRODUCTS and name != "grouped_conv2d")
]


@pytest.mark.parametrize(("cpu", "name"), HELD)
def test_a_schedule_has_the_vectors_of_its_machine(cpu: str, name: str) -> None:
    """And in products and convolutions nothing is stored to the stack while a whole tile is summed up."""
    kernel = dojoir.kernels.load(name)
    machine = dojoir.machine_for("llvm", cpu)
    chosen = schedules.choose(kernel, cpu=cpu, sizes=SIZES.get(name))
    text = assembly(chosen.trace.kernel, cpu)
    assert re.search(WIDE[machine.vector_bytes], text)
    assert not re.search(r"%zmm\d", text) or machine.vector_bytes == 64
    if name in PRODUCTS:
        loops = [loop for loop in innermost_loops(text) if loop.multiplies]
        whole = max(loop.multiplies for loop in loops)
        assert whole >= 4
        assert min(loop.spills for loop in loops if loop.multiplies == whole) == 0, chosen


WINDOWS = """
kernel windows(C, O, H, W)
in  x: f32[C, H + 2, W + 2]
in  f: f32[O, C, 3, 3]
out y: f32[O, H, W]

O
| H
| | W
| | | y[{0}, {1}, {2}] = 0
| | | C
| | | | 3
| | | | | 3
| | | | | | y[{0}, {1}, {2}] += x[{3}, {1} + {4}, {2} + {5}] * f[{0}, {3}, {4}, {5}]
"""


@pytest.mark.parametrize("cpu", ["sapphirerapids", "znver4"])
def test_windows_that_share_what_they_read_leave_the_tile_in_registers(cpu: str) -> None:
    """The three columns of a window read the same elements but for one. LLVM would keep all of them for the next
    column, and spill the tile."""
    sizes = {"C": 64, "O": 64, "H": 56, "W": 56}
    loops = [*innermost_loops(assembly(dojoir.optimize(dojoir.parse(WINDOWS), f"llvm@{cpu}", sizes=sizes), cpu))]
    whole = max(loop.multiplies for loop in loops)
    assert whole == 28
    assert all(loop.spills == 0 for loop in loops if loop.multiplies == whole)


def test_the_loops_of_machine_code() -> None:
    text = "f:\n.L1:\n\tvmovups %ymm1, 32(%rsp)\n.L2:\n\tvfmadd231ps %ymm1, %ymm2, %ymm3\n\tjne .L2\n\tjmp .L1\n"
    (loop,) = innermost_loops(text)
    assert (loop.multiplies, loop.spills) == (1, 0)
    text = "f:\n.LBB0_1:\n\tfmla v1.4s, v2.4s, v3.4s\n\tstr q1, [sp, #16]\n\tb.ne .LBB0_1\n"
    (loop,) = innermost_loops(text)
    assert (loop.multiplies, loop.spills) == (1, 1)


# -- which machine -------------------------------------------------------------------------------------------
@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """This machine as if it were a Haswell."""
    machine = dataclasses.replace(KNOWN["haswell"], cores=2)
    monkeypatch.setattr(host, "detected", lambda: machine)
    return machine


def test_the_host_is_scheduled_for_what_it_has(limited: Machine) -> None:
    for target in ("llvm", "c", "llvm@haswell", "llvm@host"):
        machine = dojoir.machine_for(target)
        assert (machine.vector_bytes, machine.registers, machine.masks) == (32, 16, False)
    assert dojoir.machine_for("avx512").vector_bytes == 64
    matmul = dojoir.kernels.load("matmul")
    assert "tile(0, 0.0, 6, 16)" in map(str, dojoir.optimize(matmul).moves)
    assert "tile(0, 0.0, 6, 16)" in map(str, dojoir.PASSES["default_schedule"].on(matmul).moves)
    assert "tile(0, 0.0, 6, 64)" in map(str, dojoir.optimize(matmul, cpu="znver4").moves)


def test_code_that_this_machine_cannot_run_is_emitted_but_not_run(limited: Machine) -> None:
    relu = dojoir.kernels.load("relu")
    for cpu in ("znver4", "apple-m1"):
        assert f'"target-cpu"="{cpu}"' in dojoir.emit(relu, "llvm", cpu=cpu)
        with pytest.raises(dojoir.ToolchainError, match=f"cannot run code for {cpu}"):
            dojoir.compile(relu, cpu=cpu)
    with pytest.raises(dojoir.ToolchainError, match="avx512"):
        dojoir.compile(relu, "avx512")


def test_code_for_a_lesser_processor_runs_here() -> None:
    if dojoir.machine_for("llvm", "host").architecture != "x86_64":
        pytest.skip("this is no x86")
    for name in ("softmax", "matmul"):
        kernel = dojoir.kernels.load(name)
        for target in ("llvm", "c"):
            fast = dojoir.optimize(kernel, target, cpu="x86-64-v2").kernel
            report = dojoir.verify(fast, against=kernel, target=target, cpu="x86-64-v2", seeds=1)
            assert report.ok and report.target == f"{target}@x86-64-v2", report


def test_the_variable_names_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOJOIR_CPU", "znver3")
    assert dojoir.machine_for("llvm").name == processor() == "znver3"
    monkeypatch.setenv("DOJOIR_CPU", "znver33")
    with pytest.raises(dojoir.ArgumentError, match="did you mean 'znver3'"):
        dojoir.machine_for("llvm")


@pytest.mark.parametrize(
    ("target", "cpu", "complaint"),
    [
        ("llvm", "haswel", "did you mean 'haswell'"),
        ("avx512", "haswell", "haswell has no avx512"),
        ("neon", "haswell", "haswell has no neon"),
        ("sve", "neoverse-n1", "neoverse-n1 has no sve"),
        ("sve", "apple-m1", "apple-m1 has no sve"),
        ("llvm@znver3", "znver4", "names another processor"),
        ("lvm", None, "no machine is known for 'lvm'"),
    ],
)
def test_a_machine_that_there_is_not(target: str, cpu: str | None, complaint: str) -> None:
    with pytest.raises(dojoir.ArgumentError, match=complaint):
        dojoir.optimize(dojoir.kernels.load("relu"), target, cpu=cpu)


def test_a_gpu_is_a_machine() -> None:
    gpu = Machine("h100", kind="gpu", warp=32, multiprocessors=132, shared_bytes=232448, thread_registers=255)
    assert gpu.facts["gpu"] and not gpu.facts["cpu"] and str(gpu).startswith("h100: 132 multiprocessors")
    stored = schedules.Schedule("f", "relu", (), (), "", needs=("gpu", "warp == 32"))
    assert stored.suits(gpu) and not stored.suits(KNOWN["znver4"])


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), float("inf")])
def test_rates_are_positive_and_finite(wrong: float) -> None:
    with pytest.raises(dojoir.ArgumentError, match="memory of the rates of a machine is a positive number"):
        Rates(memory=wrong)


def test_a_plan_is_by_the_rates_of_its_machine() -> None:
    kernel = dojoir.kernels.load("relu").specialize(N=1 << 24)
    gpu = dojoir.machine_for("cuda")
    slow = dataclasses.replace(gpu, rates=Rates(memory=gpu.rates.memory / 4))
    assert 3 < floor_seconds(kernel, slow, {}) / floor_seconds(kernel, gpu, {}) < 4


PLAIN = {"x86_64": "x86-64", "aarch64": "cortex-a72"}.get(host.architecture(), "")
PASSES_FOR = """import dojoir
from dojoir.backends.host import detected
from dojoir.runtime.build import c_toolchain, llvm_engine
print(detected().name, detected().vector_bytes, llvm_engine.host().cpu, llvm_engine.host().vector_bits)
print([word for word in c_toolchain._OPTIONAL if word.startswith("-march")])
kernel = dojoir.optimize(dojoir.kernels.load("softmax")).kernel
print(dojoir.verify(kernel).ok)
"""


@pytest.mark.skipif(not PLAIN, reason="no processor of this architecture is known")
def test_a_machine_passes_for_a_lesser_one() -> None:
    """For LLVM, for C compilers and for schedules, whatever else it has."""
    said = as_host(PLAIN, PASSES_FOR).stdout.splitlines()
    assert said == [f"{PLAIN} 16 {PLAIN} 128", f"['-march={PLAIN}']", "True"]


def test_it_does_not_pass_for_one_that_has_more_or_that_nobody_knows() -> None:
    other = "cortex-a72" if host.architecture() == "x86_64" else "x86-64"
    assert f"DOJOIR_HOST={other}: this machine is no " in as_host(other, PASSES_FOR).stderr
    assert "DOJOIR_HOST: no machine is known for 'nonsense'" in as_host("nonsense", PASSES_FOR).stderr


def as_host(name: str, code: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"DOJOIR_HOST": name}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
