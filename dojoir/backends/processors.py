"""Processors by LLVM's names: what each has that a schedule or a target asks for. Data, no code.

A line is names, then features, then how many KiB of caches one core uses, the nearest first. Sources: the makers'
optimisation manuals for caches, LLVM's X86.td and AArch64Processors.td for features, which
`tests/backends/test_machines.py` holds against what LLVM makes for each name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from dojoir.backends.machine import Machine, machine_with

V2 = frozenset({"sse4.1", "sse4.2", "ssse3"})
V3 = V2 | {"avx", "avx2", "bmi2", "f16c", "fma"}
V4 = V3 | {"avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd"}
_ICELAKE = V4 | {"avx512vnni"}
_COOPERLAKE = _ICELAKE | {"avx512bf16"}
_NEON = frozenset({"neon"})
_DOTS = _NEON | {"dotprod"}
_SVE = _DOTS | {"sve"}

_X86 = (
    ("x86-64", frozenset[str](), (32, 256)),
    ("x86-64-v2 nehalem westmere", V2, (32, 256)),
    ("sandybridge", V2 | {"avx"}, (32, 256)),
    ("ivybridge", V2 | {"avx", "f16c"}, (32, 256)),
    ("x86-64-v3 haswell broadwell skylake", V3, (32, 256)),
    ("znver1 znver2 znver3", V3, (32, 512)),
    ("alderlake raptorlake meteorlake arrowlake lunarlake", V3 | {"avxvnni"}, (48, 2048)),
    ("x86-64-v4 skylake-avx512", V4, (32, 1024)),
    ("cascadelake", _ICELAKE, (32, 1024)),
    ("cooperlake", _COOPERLAKE, (32, 1024)),
    ("icelake-client rocketlake", _ICELAKE, (48, 512)),
    ("icelake-server tigerlake", _ICELAKE, (48, 1280)),
    ("sapphirerapids emeraldrapids graniterapids", _COOPERLAKE | {"avxvnni"}, (48, 2048)),
    ("znver4", _COOPERLAKE, (32, 1024)),
    ("znver5", _COOPERLAKE | {"avxvnni"}, (48, 1024)),
)
_ARM = (
    ("generic-aarch64 cortex-a72", _NEON, (32, 1024)),
    ("cortex-a76 neoverse-n1", _DOTS, (64, 1024)),
    ("neoverse-v1 neoverse-n2", _SVE, (64, 1024)),
    ("neoverse-v2", _SVE, (64, 2048)),
    ("apple-m1 apple-m2 apple-m3 apple-m4", _DOTS, (128, 12288)),
)


def _machines() -> dict[str, Machine]:
    found: dict[str, Machine] = {}
    for architecture, rows in (("x86_64", _X86), ("aarch64", _ARM)):
        for names, features, caches in rows:
            for name in names.split():
                machine = machine_with(name, architecture, features)
                line = 128 if name.startswith("apple") else 64
                found[name] = replace(machine, caches=tuple(size << 10 for size in caches), line=line)
    return found


PROCESSORS: Mapping[str, Machine] = MappingProxyType(_machines())
"""The processors that code may be made for on any machine."""
