"""LLVM IR to machine code in this process, with no compiler installed: optimise, emit an object, load it.

An object is plain bytes, so that it can come from the build cache as well; loading one compiles nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from dojoir.errors import ToolchainError
from dojoir.runtime.cache import Cache, content_key

if TYPE_CHECKING:
    from types import ModuleType

OPTIMISATION = 3
"""The level of LLVM's pass pipeline and of its code generator."""

REVISION = "1"
"""Part of every cache key: raise it when this file changes what it makes of the same text."""


@dataclass(frozen=True)
class Host:
    """The machine that code is made for. `features` is LLVM's list, such as `+avx2,-avx512f`."""

    triple: str
    cpu: str
    features: str
    llvm: str

    def has(self, feature: str) -> bool:
        return f"+{feature}" in self.features.split(",")

    @property
    def vector_bits(self) -> int:
        """The width of the widest vector register: 512, 256 or 128."""
        return 512 if self.has("avx512f") else 256 if self.has("avx") else 128


@dataclass(frozen=True)
class Library:
    """Machine code in this process. It stays as long as this object does."""

    addresses: Mapping[str, int]
    tracker: object


@cache
def host() -> Host:
    """This machine, as LLVM sees it."""
    llvm = _binding()
    return Host(
        triple=str(llvm.get_process_triple()),
        cpu=str(llvm.get_host_cpu_name()),
        features=str(llvm.get_host_cpu_features().flatten()),
        llvm=".".join(str(part) for part in llvm.llvm_version_info),
    )


def build(text: str, names: Iterable[str], symbols: Mapping[str, int], store: Cache) -> Library:
    """The functions `names` of an LLVM module, compiled, or loaded from the cache. `symbols` gives the
    addresses of functions that the module declares, beside those of the process (libc, libm)."""
    here = host()
    key = content_key("llvm", REVISION, here.llvm, here.triple, here.cpu, here.features, text)
    code = store.get(key)
    if code is None:
        code = compile_object(text)
        store.put(key, code)
    return load_object(code, names, symbols)


def compile_object(text: str) -> bytes:
    """An LLVM module as an object file for this machine. Raises ToolchainError where LLVM refuses the text."""
    llvm = _binding()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise ToolchainError(
            f"LLVM refused the generated code, which is a bug in dojoir; please report it: {error}", "llvm-refused"
        ) from None
    machine = _target_machine()
    tuning = llvm.create_pipeline_tuning_options(OPTIMISATION)
    tuning.loop_vectorization = True
    tuning.loop_interleaving = True
    tuning.loop_unrolling = True
    tuning.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def load_object(code: bytes, names: Iterable[str], symbols: Mapping[str, int]) -> Library:
    """An object file's functions, in this process. Raises ToolchainError where one of them, or a symbol that
    they need, does not exist."""
    link = _binding().JITLibraryBuilder().add_object_img(code).add_current_process()
    for name, address in symbols.items():
        link.import_symbol(name, address)
    wanted = tuple(names)
    for name in wanted:
        link.export_symbol(name)
    try:
        tracker = link.link(_session(), f"dojoir-{next(_numbers())}")
    except RuntimeError as error:
        raise ToolchainError(f"the compiled code cannot be loaded: {error}", "load-failed") from None
    return Library({name: int(tracker[name]) for name in wanted}, tracker)


@cache
def _binding() -> ModuleType:
    """llvmlite.binding, which takes a while to import, initialised for this machine."""
    llvm = importlib.import_module("llvmlite.binding")
    with contextlib.suppress(RuntimeError):  # newer versions need no call, and refuse it
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@cache
def _target_machine() -> TargetMachine:
    here = host()
    target = _binding().Target.from_triple(here.triple)
    machine: TargetMachine = target.create_target_machine(
        cpu=here.cpu, features=here.features, opt=OPTIMISATION, reloc="pic", codemodel="default"
    )
    return machine


@cache
def _session() -> object:
    """The JIT that holds every library of this process."""
    here = host()
    target = _binding().Target.from_triple(here.triple)
    session: object = _binding().create_lljit_compiler(
        target.create_target_machine(cpu=here.cpu, features=here.features)
    )
    return session


@cache
def _numbers() -> itertools.count[int]:
    """The names of libraries are never used twice."""
    return itertools.count()


if TYPE_CHECKING:
    from typing import Protocol

    class TargetMachine(Protocol):
        """What is used of llvmlite's class of that name, which comes without types."""

        def emit_object(self, module: object) -> bytes: ...
