"""Schedules that several families ask for: each is made once a run, by whichever worker comes first."""

from __future__ import annotations

import dojoir


def by_default(kernel: dojoir.Kernel, target: str) -> dojoir.Trace:
    """What `default_schedule` makes of a kernel for a target or a machine: kept beside what is compiled, under the
    text and the sources of dojoir. A test of how a schedule is made asks the pass itself."""
    made_for = f"default_schedule, for tests: {target}"
    return dojoir.Trace.kept(kernel, made_for, lambda: dojoir.PASSES["default_schedule"].given(target).on(kernel))
