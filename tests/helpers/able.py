"""Whether this machine can do what a test needs; tests of what it cannot do are skipped."""

from __future__ import annotations

import pytest

import dojoir
from dojoir.codegen.simd.isas import ISAS
from dojoir.runtime.build import host
from dojoir.runtime.build.c_toolchain import find


def runs(target: str) -> None:
    """Skips a test of a target that this machine does not run itself."""
    if target == "llvm":
        return
    try:
        find()
        if target in ISAS:
            if ISAS[target].architecture != host.architecture():
                pytest.skip(f"this machine is no {ISAS[target].architecture}")
            host.check_features(ISAS[target])
    except dojoir.ToolchainError as error:
        pytest.skip(error.diagnostic.message)
