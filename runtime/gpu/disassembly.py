"""A CUDA source as PTX and as machine code (SASS), with the lines of the source in it: by NVRTC and nvdisasm, which
need no GPU and no driver."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dojoir.errors import ToolchainError
from dojoir.runtime.gpu.nvrtc import failed, missing
from dojoir.support.files import write_file
from dojoir.support.temporary import temporary_folder

SECONDS = 60.0
"""The time limit of nvdisasm."""


def ptx(text: str, architecture: str) -> str:
    """The PTX of a CUDA source for an architecture (`sm_90a`); `.loc 1 LINE` names lines of the source. Raises
    ToolchainError where NVRTC is missing, or refuses the text."""
    return _compiled(text, architecture, "PTX").rstrip(b"\0").decode()


def sass(text: str, architecture: str) -> str:
    """The machine code of a CUDA source, as nvdisasm spells it, with a comment where another line of the source
    begins. Raises ToolchainError where NVRTC or nvdisasm is missing, or refuses it."""
    tool = _nvdisasm()
    with temporary_folder() as folder:
        file = Path(folder) / "kernel.cubin"
        write_file(file, _compiled(text, architecture, "CUBIN"))
        try:
            done = subprocess.run(
                [tool, "-gi", "-c", str(file)], capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolchainError(f"nvdisasm failed: {error}", "compiler-failed") from None
    if done.returncode:
        raise ToolchainError(f"nvdisasm failed: {done.stderr.strip()[:300]}", "compiler-failed")
    return done.stdout.replace(f"{os.getcwd()}/", "")


def _compiled(text: str, architecture: str, form: str) -> bytes:
    try:
        nvrtc: Any = import_module("cuda.bindings.nvrtc")
        _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, None, None)
    except (ImportError, RuntimeError, OSError) as error:
        raise missing("NVRTC", error) from None
    options = [f"-arch={architecture}".encode(), b"-std=c++17", b"-fmad=false", b"-lineinfo"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if int(status):
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = bytearray(size)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise failed(architecture, log.decode(errors="replace"))
    _, size = getattr(nvrtc, f"nvrtcGet{form}Size")(program)
    made = bytearray(size)
    getattr(nvrtc, f"nvrtcGet{form}")(program, made)
    nvrtc.nvrtcDestroyProgram(program)
    return bytes(made)


def _nvdisasm() -> str:
    """The path of nvdisasm: on PATH, of a CUDA toolkit, or what comes with Triton. Raises ToolchainError."""
    folders = [os.path.join(os.environ[name], "bin") for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    triton = find_spec("triton")
    if triton is not None and triton.origin is not None:
        folders.append(os.path.join(os.path.dirname(triton.origin), "backends", "nvidia", "bin"))
    for place in (None, *folders):
        found = shutil.which("nvdisasm", path=place)
        if found is not None:
            return found
    raise ToolchainError(
        "SASS needs nvdisasm, which is not found: it is in NVIDIA's CUDA toolkit, and comes with Triton "
        "(pip install triton)", "missing-package",
    )  # fmt: skip
