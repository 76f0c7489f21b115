"""Compiling, checking and timing kernels on this machine."""

from __future__ import annotations

from dojoir.runtime.compiled import Compiled
from dojoir.runtime.compiler import compile
from dojoir.runtime.verify import Report, verify

__all__ = ["Compiled", "Report", "compile", "verify"]
