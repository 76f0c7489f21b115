"""LLVM IR to machine code in this process, with no compiler installed: optimise, emit an object, load it.

An object is plain bytes, so that it can come from the build cache as well; loading one compiles nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache

from dojoir.backends.host import llvm_features, processor_here
from dojoir.errors import ToolchainError
from dojoir.runtime.build.llvm_passes import Processor, binding, object_of
from dojoir.support.cache import Cache, content_key
from dojoir.support.frozen import dataclass

REVISION = "4"
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
class LoadedCode:
    """Machine code in this process. It stays as long as this object does."""

    addresses: Mapping[str, int]
    tracker: object


@cache
def host(cpu: str | None = None) -> Host:
    """This machine, as LLVM sees it, or with the instructions of another processor of its architecture."""
    llvm = binding()
    if cpu is not None:
        return replace(host(), cpu=cpu, features="")
    return Host(
        triple=str(llvm.get_process_triple()),
        cpu=processor_here()[0],
        features=llvm_features(),
        llvm=".".join(str(part) for part in llvm.llvm_version_info),
    )


def build(
    text: str, names: Iterable[str], symbols: Mapping[str, int], store: Cache, cpu: str | None = None
) -> LoadedCode:
    """The functions `names` of an LLVM module, compiled, or loaded from the cache. `symbols` gives the
    addresses of functions that the module declares, beside those of the process (libc, libm). `cpu` is the
    processor to compile for, whose code this one runs: this one by default."""
    here = host(cpu)
    key = content_key("llvm", REVISION, here.llvm, here.triple, here.cpu, here.features, text)
    code = store.get(key)
    if code is None:
        code = compile_object(text, cpu)
        store.put(key, code)
    return load_object(code, names, symbols)


def load_entry(text: str, symbols: Mapping[str, int] | None = None) -> tuple[int, object]:
    """The function `entry` of a module, and what keeps it in memory. `symbols` are the addresses of functions that
    it calls by name."""
    library = build(text, ["entry"], symbols or {}, Cache.default())
    return library.addresses["entry"], library


def compile_object(text: str, cpu: str | None = None) -> bytes:
    """An LLVM module as an object file for this machine. Raises ToolchainError where LLVM refuses the text."""
    here = host(cpu)
    return object_of(text, Processor(here.triple, here.cpu, here.features))


def load_object(code: bytes, names: Iterable[str], symbols: Mapping[str, int]) -> LoadedCode:
    """An object file's functions, in this process. Raises ToolchainError where one of them, or a symbol that
    they need, does not exist."""
    link = binding().JITLibraryBuilder().add_object_img(code).add_current_process()
    for name, address in symbols.items():
        link.import_symbol(name, address)
    wanted = tuple(names)
    for name in wanted:
        link.export_symbol(name)
    try:
        number = next(_fresh_numbers())
        session = _session(number)
        tracker = link.link(session, f"dojoir-{number}")
    except RuntimeError as error:
        raise ToolchainError(f"the compiled code cannot be loaded: {error}", "load-failed") from None
    return LoadedCode({name: int(tracker[name]) for name in wanted}, (tracker, session))


LIBRARIES = 64
"""How many libraries a JIT holds before the next one is made: it keeps some 9 KB of each that was let go."""


@cache
def _sessions() -> dict[int, object]:
    """The JIT that the next library goes to, by the number of its first library. The others stay as long as a
    library that they hold."""
    return {}


def _session(number: int) -> object:
    sessions, first = _sessions(), number - number % LIBRARIES
    session = sessions.get(first)
    if session is None:
        here = host()
        target = binding().Target.from_triple(here.triple)
        session = binding().create_lljit_compiler(
            target.create_target_machine(cpu=here.cpu, features=here.features), use_jit_link=True
        )
        sessions.clear()
        sessions[first] = session
    return session


@cache
def _fresh_numbers() -> itertools.count[int]:
    """The names of libraries are never used twice."""
    return itertools.count()
