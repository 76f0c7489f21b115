"""Compiling, checking and timing kernels on this machine. Each name is imported when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dojoir.runtime.build.compiler import compile
    from dojoir.runtime.build.emission import emit
    from dojoir.runtime.build.host import processor
    from dojoir.runtime.build.pool import thread_count
    from dojoir.runtime.call.compiled import Compiled
    from dojoir.runtime.diagnosis import Doctor, doctor
    from dojoir.runtime.evaluation.evaluation import Evaluation
    from dojoir.runtime.evaluation.evaluator import Evaluator
    from dojoir.runtime.library.library import Library, write_library
    from dojoir.runtime.measurement.bottleneck import Bottleneck, bottleneck
    from dojoir.runtime.measurement.card import Card, profile
    from dojoir.runtime.measurement.measure import (
        Contestant,
        ForTarget,
        Measurement,
        Together,
        format_seconds,
        measure,
        measure_together,
        ratio_of,
    )
    from dojoir.runtime.measurement.ratio import Ratio
    from dojoir.runtime.measurement.roofline import Ceilings, ceilings
    from dojoir.runtime.process.subject import PythonCode
    from dojoir.runtime.verification.random_inputs import random_inputs
    from dojoir.runtime.verification.repeats import Repeats, ignored_inputs, repeats
    from dojoir.runtime.verification.report import Case, Report
    from dojoir.runtime.verification.verify import verify

_HOME = {
    "Bottleneck": "measurement.bottleneck",
    "Card": "measurement.card",
    "Case": "verification.report",
    "Ceilings": "measurement.roofline",
    "Compiled": "call.compiled",
    "Contestant": "measurement.measure",
    "Doctor": "diagnosis",
    "Evaluation": "evaluation.evaluation",
    "Evaluator": "evaluation.evaluator",
    "ForTarget": "measurement.measure",
    "Library": "library.library",
    "Measurement": "measurement.measure",
    "PythonCode": "process.subject",
    "Ratio": "measurement.ratio",
    "Repeats": "verification.repeats",
    "Report": "verification.report",
    "Together": "measurement.measure",
    "bottleneck": "measurement.bottleneck",
    "ceilings": "measurement.roofline",
    "compile": "build.compiler",
    "doctor": "diagnosis",
    "emit": "build.emission",
    "format_seconds": "measurement.measure",
    "ignored_inputs": "verification.repeats",
    "measure": "measurement.measure",
    "measure_together": "measurement.measure",
    "processor": "build.host",
    "profile": "measurement.card",
    "random_inputs": "verification.random_inputs",
    "ratio_of": "measurement.measure",
    "repeats": "verification.repeats",
    "thread_count": "build.pool",
    "verify": "verification.verify",
    "write_library": "library.library",
}

__all__ = [
    "Bottleneck",
    "Card",
    "Case",
    "Ceilings",
    "Compiled",
    "Contestant",
    "Doctor",
    "Evaluation",
    "Evaluator",
    "ForTarget",
    "Library",
    "Measurement",
    "PythonCode",
    "Ratio",
    "Repeats",
    "Report",
    "Together",
    "bottleneck",
    "ceilings",
    "compile",
    "doctor",
    "emit",
    "format_seconds",
    "ignored_inputs",
    "measure",
    "measure_together",
    "processor",
    "profile",
    "random_inputs",
    "ratio_of",
    "repeats",
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
