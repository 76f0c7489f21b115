"""The instruction sets that dojoir prints intrinsics for, by the names of their targets."""

from __future__ import annotations

from collections.abc import Mapping

from dojoir.codegen.isa import Isa
from dojoir.codegen.isa_neon import NEON
from dojoir.codegen.isa_rvv import RVV
from dojoir.codegen.isa_x86 import AVX2, AVX512

ISAS: Mapping[str, Isa] = {isa.name: isa for isa in (AVX512, AVX2, NEON, RVV)}
