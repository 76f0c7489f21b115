"""CUDA C++ to machine code by NVRTC, which needs no GPU and no driver: through cuda.core, kept in the cache."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from dojoir.errors import Diagnostic, Note, ToolchainError
from dojoir.support.cache import Cache, content_key

OPTIONS = ("-std=c++17", "-fmad=false")
"""The options of every compilation: products and sums are fused where the kernel says so, and nowhere else."""

_MOST_LINES = 12


def cubin(text: str, architecture: str) -> bytes:
    """The machine code of a CUDA source for an architecture (`sm_90`), from the cache or from NVRTC.

    Raises ToolchainError where NVRTC is missing, with the cure, and with its words where it refuses the text."""
    core, version = _core(), _version()
    store = Cache.default()
    key = content_key("cuda", version, architecture, *OPTIONS, text)
    code = store.get(key)
    if code is None:
        options = core.ProgramOptions(arch=architecture, std="c++17", fma=False)
        try:
            made = core.Program(text, "c++", options).compile("cubin").code
        except Exception as error:
            raise failed(architecture, str(error)) from None
        code = bytes(made)
        store.put(key, code)
    return code


def failed(architecture: str, words: str) -> ToolchainError:
    """Says that NVRTC refused a text, with its first lines."""
    lines = [line for line in words.splitlines() if line.strip()]
    message = f"NVRTC failed to compile the kernel for {architecture}"
    return ToolchainError(Diagnostic("compiler-failed", message, notes=tuple(map(Note, lines[:_MOST_LINES]))))


@cache
def _core() -> Any:
    """cuda.core, which was experimental before version 0.5."""
    for name in ("cuda.core", "cuda.core.experimental"):
        try:
            module = import_module(name)
        except ImportError:
            continue
        if hasattr(module, "Program"):
            return module
    raise missing("cuda.core")


@cache
def _version() -> str:
    """The version of NVRTC, which is loaded for that."""
    try:
        nvrtc = import_module("cuda.bindings.nvrtc")
        status, major, minor = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, OSError) as error:
        raise missing("NVRTC", error) from None
    return f"{major}.{minor} ({int(status)})"


def missing(what: str, error: Exception | None = None) -> ToolchainError:
    """Says that a part of CUDA's Python packages is not there, and how to get it."""
    reason = "" if error is None else f" ({type(error).__name__})"
    message = (
        f"target cuda needs {what}, which is not found{reason}: pip install 'dojoir[cuda]'; --emit cuda writes "
        f"the source without it"
    )
    return ToolchainError(message, "no-cuda")
