"""A library out of kernels. C sources, a header, the shared library built from them, files for CMake and
pkg-config, a manifest, and a small C program that calls every kernel and checks what it gives."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, cast

from dojoir.backends.host import machine_for
from dojoir.codegen.c.printer import declaration
from dojoir.codegen.c.symbols import symbol
from dojoir.codegen.emission import emit, lower
from dojoir.codegen.simd.isas import ISAS
from dojoir.errors import ArgumentError, ToolchainError
from dojoir.ir.nodes import Kernel
from dojoir.ir.text import to_text
from dojoir.proof.wellformed import prove
from dojoir.runtime.build import c_toolchain, host_targets
from dojoir.runtime.call.scalars import takes_value
from dojoir.runtime.call.versioned import Versioned, fitting_version
from dojoir.runtime.library.demo import demo
from dojoir.runtime.library.gpu_library import device_part, device_texts, shared_library_line
from dojoir.runtime.library.text import LibraryPart, cmake, header, including, pkg_config
from dojoir.runtime.library.versioned import version_names, versioned_part
from dojoir.runtime.measurement.measure import Measurement, measure
from dojoir.runtime.verification.report import Report
from dojoir.runtime.verification.verify import verify
from dojoir.support.files import path_of, write_file
from dojoir.support.frozen import dataclass
from dojoir.support.public import public_with
from dojoir.types.in_bytes import in_bytes

FORMAT, VERSION = "dojoir-library", 1
MANIFEST = "manifest.json"


class Scheduled(Protocol):
    """A kernel with the moves that made it, such as a `dojoir.Trace`."""

    @property
    def start(self) -> Kernel: ...
    @property
    def kernel(self) -> Kernel: ...
    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Library:
    """A library that was written: its folder, its files by name, and for each kernel, by its name, what checking
    and timing it (None where that was not asked for) said."""

    folder: Path
    files: tuple[str, ...]
    reports: Mapping[str, Report | None]
    measurements: Mapping[str, Measurement | None]
    unsafe: tuple[str, ...] = ()
    """Kernels with moves that were made without the checker."""

    def __str__(self) -> str:
        lines = [f"{self.folder}: {', '.join(self.files)}"]
        lines += [f"{name}: made with moves that were not checked, may be wrong" for name in self.unsafe]
        lines += [str(report) for report in self.reports.values() if report is not None]
        lines += [str(measurement) for measurement in self.measurements.values() if measurement is not None]
        return "\n".join(lines)


@public_with(kernels="not-a-trace")
def write_library(
    kernels: Sequence[Scheduled],
    folder: str | os.PathLike[str],
    *,
    name: str = "kernels",
    target: str = "c",
    check: bool = True,
    sizes: Mapping[str, Mapping[str, int]] | None = None,
    emulated: bool = False,
) -> Library:
    """Writes the library `name` into `folder`, whole or not at all; a library that was there before is replaced.

    `kernels` are traces, or versions of one by size (`dojoir.schedules.versions`): then the function of the
    kernel calls the first that fits. `target` is one that gives C. With `check` each kernel is verified first
    against the kernel that its trace starts from. A kernel for which `sizes` has an entry, by its name, is timed
    at those sizes. The folder gets `NAME.h`, one `.c` for each kernel, `libNAME.so`, `CMakeLists.txt`, `NAME.pc`,
    `manifest.json` and `demo.c`. For a GPU (`cuda`, `hip`) it gets `NAME.h`, a `.cu` or `.hip` for each kernel
    with its function `run_NAME`, a demo with the line that builds it, and `manifest.json`, which has the line for
    a shared library. Nothing of it is compiled. Its kernels are checked on the GPU, or on the CPU with
    `emulated`.

    Raises ArgumentError for a name that C cannot use, for two kernels with one symbol, for a folder that holds
    something else and for a target that gives no C. Raises RunError for a kernel that is not verified,
    ToolchainError where there is no C compiler, or no GPU to check on.
    """
    check_name(name)
    for trace in kernels:
        if not (hasattr(trace, "kernel") and hasattr(trace, "to_json")):
            raise ArgumentError(
                f"a library is made of traces, such as dojoir.Trace(kernel), not of {type(trace).__name__}",
                "not-a-trace",
            )
    if not kernels:
        raise ArgumentError("a library needs at least one kernel", "empty-library")
    _check_symbols(name for trace in kernels for name in _names(trace))
    out = Path(path_of(folder))
    _check_replaceable(out)
    on_device = machine_for(target).kind == "gpu"
    toolchain = None if on_device else _toolchain(target)
    reports: dict[str, Report | None] = {}
    measurements: dict[str, Measurement | None] = {}
    parts: list[LibraryPart] = []
    for trace in kernels:
        kernel = trace.kernel
        for made in _kernels(trace):
            prove(made)
            if in_bytes(made) is not made:
                raise ArgumentError(
                    f"a library of {made.name} cannot be made: its demo prints elements, and some have 4 bits; "
                    "declare these buffers u8 or i8, an element or two a byte, or print the source alone "
                    f"(dojoir.emit(kernel, '{target}'), --emit {target})",
                    "bad-packing",
                )
            checked = verify(made, against=trace.start, target=target, emulated=emulated) if check else None
            reports[kernel.name] = checked
            if checked is not None:
                checked.raise_if_failed()
        parts.append(_part(trace, target, name, on_device))
        at = (sizes or {}).get(kernel.name)
        fitting = kernel if at is None else _at(trace, at)
        measurements[kernel.name] = None if at is None else measure(fitting, target=target, sizes=at)
    texts = device_texts(name, parts, target) if on_device else _c_texts(name, parts, target)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.resolve().parent) as temporary:
            inside = Path(temporary, "library")
            inside.mkdir()
            for file, text in texts.items():
                write_file(inside / file, text)
            if toolchain is not None:
                sources = [inside / file for part in parts for file in part.texts]
                c_toolchain.link_shared(sources, inside / f"lib{name}.so", toolchain=toolchain)
            manifest = {
                "format": FORMAT,
                "version": VERSION,
                "name": name,
                "target": target,
                "compiler": toolchain.identity if toolchain else shared_library_line(name, parts, target),
                "machine": platform.machine(),
                "files": {file.name: _digest(file) for file in sorted(inside.iterdir())},
                "kernels": [
                    _entry(trace, part, reports[part.kernel.name], measurements[part.kernel.name])
                    for trace, part in zip(kernels, parts, strict=True)
                ],
            }
            write_file(inside / MANIFEST, json.dumps(manifest, indent=1) + "\n")
            files = tuple(sorted(file.name for file in inside.iterdir()))
            _replace(inside, out.resolve(), Path(temporary, "old"))
    except OSError as error:
        raise ArgumentError(f"cannot write {out}: {error.strerror or error}", "cannot-write") from None
    unsafe = tuple(trace.kernel.name for trace in kernels if trace.to_json()["unsafe"])
    return Library(out, files, reports, measurements, unsafe)


def _versions(trace: Scheduled) -> Versioned | None:
    """The versions that a kernel is made of, where there are several."""
    return cast("Versioned", trace) if hasattr(trace, "versions") else None


def _kernels(trace: Scheduled) -> list[Kernel]:
    """All kernels that run as one of the library."""
    versioned = _versions(trace)
    return [trace.kernel] if versioned is None else [version.kernel for version in versioned.versions]


def _at(trace: Scheduled, sizes: Mapping[str, int]) -> Kernel:
    """The kernel that runs at some sizes."""
    versioned = _versions(trace)
    return trace.kernel if versioned is None else fitting_version(versioned, sizes).kernel


def _part(trace: Scheduled, target: str, name: str, on_device: bool) -> LibraryPart:
    versioned = _versions(trace)
    if versioned is None:
        return device_part(trace.kernel, target, name) if on_device else _c_part(trace.kernel, target, name)
    if on_device:
        message = f"a kernel for {target} asks for its sizes itself: give the one trace of dojoir.optimize"
        raise ArgumentError(message, "bad-target")
    return versioned_part(versioned, target, name)


def _c_part(kernel: Kernel, target: str, name: str) -> LibraryPart:
    source = including(emit(kernel, target), f"{name}.h")
    return LibraryPart(kernel, declaration(lower(kernel, target)), f"{symbol(kernel.name)}.c", source)


def _c_texts(name: str, parts: Sequence[LibraryPart], target: str) -> dict[str, str]:
    """The files of a library in C, by their names."""
    return {
        **{file: text for part in parts for file, text in part.texts.items()},
        f"{name}.h": header(name, parts),
        "CMakeLists.txt": cmake(name, parts, ISAS[target].options if target in ISAS else ()),
        f"{name}.pc": pkg_config(name, parts),
        "demo.c": demo(name, parts),
    }


def _toolchain(target: str) -> c_toolchain.Toolchain:
    """The compiler for a target of this machine. Raises ToolchainError for one of another processor."""
    isa = ISAS.get(target)
    if isa is not None and isa.architecture != host_targets.architecture():
        message = (
            f"a library for target {target} is built on a {isa.architecture} machine, which this one is not; "
            f"--emit {target} writes the source of a kernel"
        )
        raise ToolchainError(message, "no-compiler")
    found = c_toolchain.find()
    return found if isa is None else found.with_options(isa.options)


def check_name(name: str) -> None:
    """Raises ArgumentError for a library name that files, macros and build systems cannot all use."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ArgumentError(
            f"'{name}' cannot name a library: use letters, digits and _, beginning with a letter", "bad-name"
        )


def _names(trace: Scheduled) -> list[str]:
    """The names of the kernel and of its versions."""
    versioned = _versions(trace)
    return [trace.kernel.name, *([] if versioned is None else version_names(versioned))]


def _check_symbols(names: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        mine = symbol(name)
        if mine.lower() in seen:
            raise ArgumentError(
                f"two kernels of the library would be called `{mine}` in C: rename one in its `kernel` line",
                "name-taken",
            )
        seen[mine.lower()] = name
        if mine in {"demo", "main"}:
            raise ArgumentError(f"a kernel of a library cannot be called `{mine}`: rename it", "bad-name")


def _check_replaceable(folder: Path) -> None:
    """Raises ArgumentError where the folder is there and is neither empty nor a library of ours."""
    if not folder.exists():
        if not folder.resolve().parent.is_dir():
            raise ArgumentError(f"cannot write {folder}: its parent is no folder", "cannot-write")
        return
    if not folder.is_dir():
        raise ArgumentError(f"cannot write a library to {folder}: it is a file", "cannot-write")
    with suppress(OSError, ValueError, AttributeError):
        if json.loads((folder / MANIFEST).read_text(encoding="utf-8")).get("format") == FORMAT:
            return
    if any(folder.iterdir()):
        raise ArgumentError(
            f"{folder} holds something else than a library of dojoir: name a new or empty folder", "not-empty"
        )


def _replace(new: Path, folder: Path, aside: Path) -> None:
    """Puts `new` where `folder` is; what was there goes to `aside`."""
    os.chmod(new, 0o755)
    if folder.exists():
        os.rename(folder, aside)
    try:
        os.rename(new, folder)
    except OSError:
        if aside.exists():
            os.rename(aside, folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _digest(file: Path) -> str:
    return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


def _entry(
    trace: Scheduled, part: LibraryPart, report: Report | None, measurement: Measurement | None
) -> dict[str, Any]:
    kernel = part.kernel
    return {
        "name": kernel.name,
        "symbol": re.split(r"[ (]", part.declaration.partition("(")[0])[-1],
        "declaration": part.declaration,
        "source": part.file,
        "arguments": [
            {
                "name": buffer.name,
                "role": buffer.role,
                "dtype": buffer.dtype.name,
                "dims": [str(dim.extent) for dim in buffer.dims],
                "by_value": takes_value(buffer),
                **({"strided": list(buffer.steps)} if buffer.strided else {}),
            }
            for buffer in kernel.arguments
        ],
        "sizes": list(kernel.runtime_sizes),
        "text": to_text(kernel).splitlines(),
        "hash": kernel.hash,
        "trace": trace.to_json(),
        "verified": None if report is None else {"cases": len(report.cases), "against": report.reference},
        "measured": None
        if measurement is None
        else {
            "sizes": dict(measurement.sizes),
            "threads": measurement.threads,
            "seconds": measurement.seconds,
            "low": measurement.low,
            "high": measurement.high,
            "gflops": measurement.gflops,
            "gbytes_per_second": measurement.gbytes,
        },
    }
