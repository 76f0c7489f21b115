"""The instruction sets that dojoir prints intrinsics for, by the names of their targets."""

from __future__ import annotations

from collections.abc import Mapping

from dojoir.codegen.simd.isa_table import Isa
from dojoir.codegen.simd.isas.neon import NEON
from dojoir.codegen.simd.isas.rvv import RVV
from dojoir.codegen.simd.isas.sve import SVE
from dojoir.codegen.simd.isas.x86 import AVX2, AVX512

ISAS: Mapping[str, Isa] = {isa.name: isa for isa in (AVX512, AVX2, NEON, SVE, RVV)}
