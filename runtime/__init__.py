"""Compiling, checking and timing kernels on this machine. Each name is imported when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dojoir.runtime.compiled import Compiled
    from dojoir.runtime.compiler import compile
    from dojoir.runtime.diagnosis import Doctor, doctor
    from dojoir.runtime.host import processor
    from dojoir.runtime.library import Library, write_library
    from dojoir.runtime.measurement import (
        Contestant,
        Measurement,
        Ratio,
        Together,
        format_seconds,
        measure,
        measure_together,
        ratio_of,
    )
    from dojoir.runtime.pool import thread_count
    from dojoir.runtime.random_inputs import random_inputs
    from dojoir.runtime.roofline import Ceilings, ceilings
    from dojoir.runtime.subject import PythonCode
    from dojoir.runtime.verification import Case, Report, verify

_HOME = {
    "Case": "verification",
    "Ceilings": "roofline",
    "Compiled": "compiled",
    "Contestant": "measurement",
    "Doctor": "diagnosis",
    "Library": "library",
    "Measurement": "measurement",
    "PythonCode": "subject",
    "Ratio": "measurement",
    "Report": "verification",
    "Together": "measurement",
    "ceilings": "roofline",
    "compile": "compiler",
    "doctor": "diagnosis",
    "format_seconds": "measurement",
    "measure": "measurement",
    "measure_together": "measurement",
    "processor": "host",
    "random_inputs": "random_inputs",
    "ratio_of": "measurement",
    "thread_count": "pool",
    "verify": "verification",
    "write_library": "library",
}

__all__ = [
    "Case",
    "Ceilings",
    "Compiled",
    "Contestant",
    "Doctor",
    "Library",
    "Measurement",
    "PythonCode",
    "Ratio",
    "Report",
    "Together",
    "ceilings",
    "compile",
    "doctor",
    "format_seconds",
    "measure",
    "measure_together",
    "processor",
    "random_inputs",
    "ratio_of",
    "thread_count",
    "verify",
    "write_library",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dojoir.runtime' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dojoir.runtime.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
