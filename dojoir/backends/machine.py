"""The properties of a machine that a schedule needs: data, no code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from math import inf
from types import MappingProxyType
from typing import Literal

from dojoir.errors import ArgumentError, did_you_mean, repr_of
from dojoir.support.frozen import dataclass
from dojoir.support.public import public, public_class

STREAMS = 4
"""The number of concurrent non-temporal store streams that run at full speed, where each writes whole lines."""

SHARED = 16
"""How many times as large as a core's own last cache the one that all share is taken to be, where it is not
known."""


RANGES = {
    "vector_bytes": (1, 1 << 16), "registers": (1, 1 << 16), "line": (1, 1 << 16), "cores": (0, 1 << 20),
    "warp": (0, 1 << 16), "multiprocessors": (0, 1 << 20), "shared_bytes": (0, 1 << 40),
    "thread_registers": (0, 1 << 16), "last_cache": (0, 1 << 50),
}  # fmt: skip
"""The least and the most that each number of a machine may be: beyond, a schedule would try for hours."""

LARGEST_CACHE = 1 << 50

GRID = (2**31 - 1, 65535, 65535)
"""How many blocks a launch may have along x, y and z, on every GPU."""

ACCESS_BYTES = 16
"""The maximum size of one access of a thread of a GPU, in bytes."""


@public_class
@dataclass(frozen=True)
class Rates:
    """The throughputs and latencies of a GPU, which `benchmarks/ordering.py --fit` finds: the constants of the cost
    model `dojoir.costs.launches`.

    A launch takes `launch` seconds before its blocks run, and waits for the share `hidden` of what it asks of other
    parts than the busiest. `memory` and `cache` are bytes a second from memory, and from the second cache, `clock`
    cycles a second. A block has begun after `begin` cycles of its multiprocessor; its threads have put together
    what they have after `together` cycles, those of a warp after `in_warp`. An element of memory is there after
    `far` cycles, one of the first cache or of shared memory after `near`, a sum after `sum`. `kept` bytes of the
    blocks on a multiprocessor stay in the first cache until they are read again. `ahead` loads of a loop are under
    way at a time.

    Raises ArgumentError for a number that is not positive and finite.
    """

    launch: float = 2.5e-6
    memory: float = 2.9e12
    cache: float = 7e12
    clock: float = 1.7e9
    hidden: float = 0.1
    begin: float = 130
    together: float = 1500
    in_warp: float = 200
    far: float = 500
    near: float = 30
    sum: float = 5
    kept: float = 64 << 10
    ahead: float = 3

    def __post_init__(self) -> None:
        for part in fields(self):
            value = getattr(self, part.name)
            if not 0 < value < inf:
                message = f"{part.name} of the rates of a machine is a positive number, not {repr_of(value)}"
                raise ArgumentError(message, "bad-machine")


@public_class
@dataclass(frozen=True)
class Machine:
    """A machine that code is scheduled for. A target is how it is spelled.

    Of a CPU: a core has `registers` vector registers of `vector_bytes` bytes each, with `masks` that turn lanes
    off. There are `cores` cores (0: some, not known how many). `caches` gives the bytes of the caches that one
    core uses, the nearest first, `last_cache` those of the one that all cores share (0: not known), and `line`
    those that they move at a time. `quads` says that sums of four products of bytes are spelled as an instruction,
    as portable C cannot. `architecture` and `features` are by LLVM's names (empty: any).

    Of a GPU: threads run `warp` at a time, on `multiprocessors`, with `shared_bytes` for a block, and
    `thread_registers` of 4 bytes for a thread at most. A launch has at most `grid` blocks along x, y and z. `rates`
    are how fast its parts are. `units` says of each type that its matrix units multiply how many products a
    multiprocessor adds up in a cycle; `features` are then the architectures whose instructions it has.

    Raises ArgumentError for a field of another type, and for a number outside RANGES.
    """

    name: str
    vector_bytes: int = 64
    registers: int = 32
    cores: int = 0
    caches: tuple[int, ...] = (32 << 10, 1 << 20)
    kind: Literal["cpu", "gpu"] = "cpu"
    masks: bool = False
    line: int = 64
    architecture: str = ""
    features: frozenset[str] = frozenset()
    warp: int = 0
    multiprocessors: int = 0
    shared_bytes: int = 0
    thread_registers: int = 0
    last_cache: int = 0
    quads: bool = True
    grid: tuple[int, int, int] = GRID
    rates: Rates = Rates()
    units: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        numbers = {name: (getattr(self, name), *limits) for name, limits in RANGES.items()}
        numbers |= {f"caches[{level}]": (size, 0, LARGEST_CACHE) for level, size in enumerate(self.caches)}
        numbers |= {f"grid[{axis}]": (most, 1, GRID[0]) for axis, most in enumerate(self.grid)}
        for name, (value, least, most) in numbers.items():
            if not least <= value <= most:
                message = f"{name} of a machine is from {least} to {most}, not {repr_of(value)}"
                raise ArgumentError(message, "bad-machine")

    @property
    def thread_bytes(self) -> int:
        """The size of the registers of a thread of a GPU, in bytes."""
        return 4 * self.thread_registers

    @public
    def products(self, dtype: str) -> int:
        """How many products of a type the matrix units of a multiprocessor add up in a cycle; 0 where they have no
        such type."""
        return dict(self.units).get(dtype, 0)

    @property
    def held(self) -> int:
        """The bytes that its caches hold: those of the last one, where it is known; 0 where it has none."""
        return self.last_cache or (SHARED * self.caches[-1] if self.caches else 0)

    @property
    def streams(self) -> int:
        """The number of concurrent non-temporal store streams at full speed: several only where a store is a whole
        line, as the parts of a line wait for each other in few buffers."""
        return STREAMS if self.vector_bytes >= self.line else 1

    @property
    def dots(self) -> bool:
        """Whether it sums four products of bytes in each lane of 32 bits at once."""
        wide = self.architecture == "x86_64" and self.vector_bytes >= 32
        return self.quads and self.kind == "cpu" and (wide or self.architecture == "aarch64")

    @property
    def facts(self) -> Mapping[str, int]:
        """The facts that a stored schedule may ask for, each as a number; a feature is 1 where the machine has it,
        else 0."""
        numbers = ("vector_bytes", "registers", "masks", "cores", "line", "streams", "warp", "multiprocessors",
                   "shared_bytes", "thread_registers", "last_cache")  # fmt: skip
        found = {name: int(getattr(self, name)) for name in numbers}
        sizes = (*self.caches, 0, 0, 0)
        found |= {f"L{level}": sizes[level - 1] for level in (1, 2, 3)}
        found |= {kind: int(self.kind == kind) for kind in ("cpu", "gpu")}
        return found | {name: int(self.architecture == name) for name in ("x86_64", "aarch64", "riscv64")}

    def __str__(self) -> str:
        if self.kind == "gpu":
            return (f"{self.name}: {self.multiprocessors} multiprocessors, warps of {self.warp}, "
                    f"{_size(self.shared_bytes)} shared")  # fmt: skip
        parts = [f"vectors of {self.vector_bytes} bytes", f"{self.registers} registers"]
        parts += ["masks"] if self.masks else []
        parts += [f"caches {' + '.join(map(_size, self.caches))}"]
        parts += [f"{self.cores} core{'' if self.cores == 1 else 's'}"] if self.cores else []
        return f"{self.name}: {', '.join(parts)}"


NVIDIA = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
"""The architectures of NVIDIA's GPUs: each has the instructions of those before it."""


def nvidia(architecture: str) -> frozenset[str]:
    """The architectures whose instructions a GPU of NVIDIA has: `sm_90a` those of `sm_90` and its own."""
    number = int("".join(letter for letter in architecture if letter.isdigit()))
    return frozenset({architecture, *(name for name in NVIDIA if int(name[3:]) <= number)})


MACHINES: Mapping[str, Machine] = MappingProxyType(
    {
        machine.name: machine
        for machine in (
            Machine("avx512", masks=True, architecture="x86_64"),
            Machine("avx2", vector_bytes=32, registers=16, architecture="x86_64"),
            Machine("neon", vector_bytes=16, architecture="aarch64"),
            Machine("sve", vector_bytes=16, masks=True, architecture="aarch64", features=frozenset({"sve"})),
            Machine("rvv", vector_bytes=16, masks=True, architecture="riscv64"),
            Machine(
                "cuda",
                vector_bytes=16,
                caches=(256 << 10, 50 << 20),
                kind="gpu",
                line=128,
                architecture="sm_90a",
                features=nvidia("sm_90a"),
                units=(
                    *(("bf16", 1300), ("f16", 1300), ("f64", 110)),
                    *(("i8", 2600), ("u8", 2600), ("f8e4m3", 2300), ("f8e5m2", 2300)),
                ),
                warp=32,
                multiprocessors=132,
                shared_bytes=227 << 10,
                thread_registers=255,
            ),
            Machine(
                "sm_80",
                vector_bytes=16,
                caches=(192 << 10, 40 << 20),
                kind="gpu",
                line=128,
                architecture="sm_80",
                features=nvidia("sm_80"),
                warp=32,
                multiprocessors=108,
                shared_bytes=163 << 10,
                thread_registers=255,
                rates=Rates(memory=1.4e12, cache=4e12, clock=1.4e9),
                units=(("bf16", 900), ("f16", 900), ("i8", 1800), ("u8", 1800), ("f64", 55)),
            ),
            Machine(
                "hip",
                vector_bytes=16,
                caches=(32 << 10, 4 << 20),
                kind="gpu",
                line=128,
                architecture="gfx942",
                warp=64,
                multiprocessors=304,
                shared_bytes=64 << 10,
                thread_registers=512,
            ),
        )
    }
)
"""Typical machines of an instruction set, by the target that is spelled in it, and GPUs: `cuda` is an H100 or H200
(sm_90a, its matrix units by `mma.sync`), `sm_80` an A100, `hip` a gfx942."""


def machine_with(name: str, architecture: str, features: frozenset[str]) -> Machine:
    """A CPU with LLVM's names for its architecture and features: the vectors, registers and masks that these
    mean."""
    if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= features:
        return Machine(name, 64, 32, masks=True, architecture=architecture, features=features)
    if "avx2" in features:
        return Machine(name, 32, 16, architecture=architecture, features=features)
    registers = 32 if architecture == "aarch64" else 16
    return Machine(name, 16, registers, architecture=architecture, features=features)


def typical(name: str, known: Mapping[str, Machine] = MACHINES) -> Machine:
    """A machine by its name. Raises ArgumentError with the nearest one."""
    try:
        return known[name]
    except KeyError:
        message = f"no machine is known for '{name}'{did_you_mean(name, known)}; known are {', '.join(known)}"
        raise ArgumentError(message, "unknown-machine") from None


def _size(count: int) -> str:
    return f"{count / (1 << 20):g} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"
