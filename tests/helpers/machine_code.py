"""Machine code for processors that this machine need not be: what LLVM makes of a kernel for them, and its loops.

python tests/helpers/machine_code.py [KERNEL…]     every schedule for every processor: vectors, and loops that spill
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm
from scheduled import by_default

import dojoir
from dojoir import schedules

PROCESSORS = (
    "haswell", "znver3", "znver4", "skylake-avx512", "sapphirerapids", "neoverse-n1", "neoverse-v2", "apple-m1",
)  # fmt: skip
"""Those that the tests make code for."""

PRODUCTS = ("matmul", "matmul_nt", "matmul_tn", "bmm", "conv2d", "grouped_conv2d", "depthwise_conv2d")
"""Kernels in whose innermost loops nothing may be stored to the stack."""

WIDE = {64: r"%zmm\d", 32: r"%ymm\d", 16: r"\bv\d+\.(4s|2d|8h|16b)|%xmm\d|\bq\d"}
"""How a register of so many bytes is written."""

_LABEL = re.compile(r"^([.\w$]+):")
_JUMP = re.compile(r"^\s+(j\w+|b|b\.\w+|cbn?z|tbn?z)\s+(?:.*\s)?([.\w$]+)$")
_TO_STACK = re.compile(r"^\s+(v?mov\w*\s+%[\w]+,\s*-?\d*\(%r[sb]p\)|st[rup]\w*\s.*\[(sp|x29)\b)")
_FUSED = re.compile(r"^\s+(vfn?madd\w+[ps]s|vfn?madd\w+pd|fml[as])\b")


@cache
def _initialise() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def assembly(kernel: dojoir.Kernel, cpu: str) -> str:
    """What LLVM makes of a kernel for a processor, as text."""
    _initialise()
    machine = dojoir.machine_for("llvm", cpu)
    system = "apple-macosx" if cpu.startswith("apple") else "unknown-linux-gnu"
    triple = f"{'arm64' if cpu.startswith('apple') else machine.architecture}-{system}"
    target = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=3, reloc="pic")
    module = llvm.parse_assembly(dojoir.emit(kernel, "llvm", cpu=cpu))
    module.triple, module.data_layout = triple, str(target.target_data)
    tuning = llvm.create_pipeline_tuning_options(3)
    tuning.loop_vectorization = tuning.loop_interleaving = tuning.loop_unrolling = tuning.slp_vectorization = True
    builder = llvm.create_pass_builder(target, tuning)
    builder.getModulePassManager().run(module, builder)
    return str(target.emit_assembly(module))


@dataclass(frozen=True)
class Loop:
    """A loop with none inside: its lines."""

    lines: tuple[str, ...]

    @property
    def spills(self) -> int:
        """How many stores to the stack are in it."""
        return sum(bool(_TO_STACK.match(line)) for line in self.lines)

    @property
    def multiplies(self) -> int:
        """How many fused multiply-adds are in it."""
        return sum(bool(_FUSED.match(line)) for line in self.lines)


def innermost_loops(text: str) -> Iterator[Loop]:
    """The loops of machine code with none inside: from a label to a jump back to it. What is laid out between but
    leaves the loop is counted as in it."""
    lines = [
        line.split("#")[0].rstrip() if "%" in line else line.split(";")[0].rstrip() for line in text.split("\n")
    ]
    places = {match[1]: n for n, line in enumerate(lines) if (match := _LABEL.match(line))}
    found = []
    for n, line in enumerate(lines):
        match = _JUMP.match(line)
        if match and places.get(match[2], n) < n:
            found.append((places[match[2]], n))
    for start, end in found:
        if not any((a, b) != (start, end) and start <= a and b <= end for a, b in found):
            yield Loop(tuple(lines[start : end + 1]))


def scheduled(name: str, cpu: str) -> Iterator[tuple[str, dojoir.Kernel]]:
    """A kernel of the library for a processor: by default, and by each stored schedule whose needs it meets."""
    kernel = dojoir.kernels.load(name)
    machine = dojoir.machine_for("llvm", cpu)
    key = (machine.vector_bytes, machine.registers, machine.caches[0])
    yield f"{name} default", _default(name, key, cpu)
    for schedule in schedules.schedules(name):
        if schedule.suits(machine):
            yield schedule.path, _stored(schedule, kernel.with_fp(schedule.fp) if schedule.fp else kernel)


_MADE: dict[tuple[object, ...], dojoir.Kernel] = {}


def _default(name: str, key: tuple[int, ...], cpu: str) -> dojoir.Kernel:
    if (name, *key) not in _MADE:
        _MADE[name, *key] = by_default(dojoir.kernels.load(name), cpu).kernel
    return _MADE[name, *key]


def _stored(schedule: schedules.Schedule, kernel: dojoir.Kernel) -> dojoir.Kernel:
    if (schedule.path,) not in _MADE:
        _MADE[schedule.path,] = schedule.on(kernel).kernel
    return _MADE[schedule.path,]


def main(names: list[str]) -> None:
    """Prints for each schedule and processor whether it has vectors of that machine, and its loops that spill."""
    for name in names or dojoir.kernels.names():
        for cpu in PROCESSORS:
            wide = WIDE[dojoir.machine_for("llvm", cpu).vector_bytes]
            for title, kernel in scheduled(name, cpu):
                text = assembly(kernel, cpu)
                loops = list(innermost_loops(text))
                spilling = [loop for loop in loops if loop.spills]
                vectors = "" if re.search(wide, text) else "  NO VECTORS"
                counts = ", ".join(f"{loop.spills} of {len(loop.lines)}" for loop in spilling)
                print(f"{title:32} {cpu:15} {len(loops):3} loops{vectors}{'  spill: ' + counts if counts else ''}")


if __name__ == "__main__":
    main(sys.argv[1:])
