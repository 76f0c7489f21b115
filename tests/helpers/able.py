"""Whether this machine can do what a test needs; tests of what it cannot do are skipped."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

import dojoir
from dojoir.codegen.simd.isas import ISAS
from dojoir.runtime.build import host_targets
from dojoir.runtime.build.c_toolchain import find


def needs(package: str, extra: str) -> None:
    """Skips a file where a package of an extra is not there. The package is not loaded for that."""
    if find_spec(package) is None:
        pytest.skip(f"needs the extra {extra}", allow_module_level=True)


def runs(target: str) -> None:
    """Skips a test of a target that this machine does not run itself."""
    reason = _lack(target)
    if reason is not None:
        pytest.skip(reason)


def can_run(target: str) -> bool:
    """Whether this machine runs a target itself: for a test that takes it among others."""
    return _lack(target) is None


def _lack(target: str) -> str | None:
    """What this machine lacks to run a target itself."""
    if target == "llvm":
        return None
    try:
        find()
        if target in ISAS:
            if ISAS[target].architecture != host_targets.architecture():
                return f"this machine is no {ISAS[target].architecture}"
            host_targets.check_features(ISAS[target])
    except dojoir.ToolchainError as error:
        return error.diagnostic.message
    return None
