"""Compiling, checking and timing kernels on this machine. Each name is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dojoir.support.lazily import lazily

if TYPE_CHECKING:
    from dojoir.runtime.build.compiler import compile
    from dojoir.runtime.build.emission import emit
    from dojoir.runtime.build.host_targets import processor
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
        measure,
        measure_together,
        ratio_of,
    )
    from dojoir.runtime.measurement.ratio import Ratio, mean_of, ratio_apart
    from dojoir.runtime.measurement.roofline import Ceilings, ceilings
    from dojoir.runtime.measurement.spread import Spread, geometric, spread
    from dojoir.runtime.process.subject import PythonCode
    from dojoir.runtime.verification.random_inputs import random_inputs
    from dojoir.runtime.verification.repeats import Repeats, ignored_inputs, repeats
    from dojoir.runtime.verification.report import Case, Report
    from dojoir.runtime.verification.verify import verify

__all__ = [
    "Bottleneck", "Card", "Case", "Ceilings", "Compiled", "Contestant", "Doctor", "Evaluation", "Evaluator",
    "ForTarget", "Library", "Measurement", "PythonCode", "Ratio", "Repeats", "Report", "Spread", "Together",
    "bottleneck", "ceilings", "compile", "doctor", "emit", "geometric", "ignored_inputs", "mean_of", "measure",
    "measure_together", "processor", "profile", "random_inputs", "ratio_apart", "ratio_of", "repeats", "spread",
    "thread_count", "verify", "write_library",
]  # fmt: skip
__getattr__, __dir__ = lazily(__name__)
