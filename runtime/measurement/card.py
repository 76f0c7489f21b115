"""`profile`: on one card, what bounds a kernel, how near it is to what the machine reaches, the lines that it
comes from, and the legal moves that address it. It also shows what that is read off: the text, the machine code,
counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

from dojoir.backends.host import machine_for
from dojoir.backends.registry import is_device
from dojoir.costs.scopes import ScopeWork, hottest_lines, scopes
from dojoir.ir.nodes import Kernel
from dojoir.runtime.build.compiler import check_kernel, compile
from dojoir.runtime.gpu.compiled import DeviceCompiled
from dojoir.runtime.gpu.driver import Resources
from dojoir.runtime.measurement.bottleneck import bottleneck, machine_code
from dojoir.runtime.measurement.counters import Counters, counters
from dojoir.runtime.measurement.hot_loop import hottest, innermost
from dojoir.runtime.measurement.measure import Measurement, measure
from dojoir.runtime.measurement.traced import read_traced, traced
from dojoir.support.frozen import dataclass
from dojoir.support.public import public
from dojoir.support.seconds import format_seconds

VERSION = 1

UNREAD = "only the code of LLVM for x86 is read"
"""Why there is no machine code to look at."""


@dataclass(frozen=True)
class HotCode:
    """The hot loop of the machine code: how many instructions of which kinds it has, and how many elements an
    iteration computes and a widest instruction at a time. Then which share goes to the stack, how often an
    iteration adds to each sum that the next one adds to again. Then in which function, with how many loops around
    it, of how many innermost loops. Where nothing is read, all are zero, and `reason` says why."""

    instructions: int = 0
    kinds: Mapping[str, int] | None = None
    elements: int = 0
    lanes: int = 0
    stack: float = 0.0
    chains: tuple[int, ...] = ()
    function: str = ""
    depth: int = 0
    loops: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Card:
    """The bottleneck of a kernel at some sizes: `kind` and `why` (`unknown` where nothing tells). It has the share
    of the ceiling `of` that the kernel reaches, the numbers of the `lines` of its text that cause it, and legal
    `moves` that address it. `status` of what was not to be had is in `counters.reason` and `code.reason`."""

    version: int
    kernel: str
    hash: str
    text: str
    target: str
    sizes: Mapping[str, int]
    threads: int
    seconds: float
    gbytes: float
    gflops: float
    share: float | None
    of: str | None
    kind: str
    why: str
    lines: tuple[int, ...]
    moves: tuple[str, ...]
    scopes: tuple[ScopeWork, ...]
    code: HotCode
    counters: Counters
    launches: tuple[Resources, ...] = ()
    """Of a GPU, what each of its kernels takes."""

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        rate = f"{self.gbytes:.3g} GB/s, {self.gflops:.3g} GFLOP/s"
        text = [f"{self.kernel}({sizes}) on {self.target}: {format_seconds(self.seconds)}, {rate}"]
        text += [f"bound by {self.kind}: {self.why}"]
        text += [f"share of the {self.of} ceiling: {self.share:.0%}"] if self.share is not None else []
        written = self.text.splitlines()
        text += [f"  line {n:<4} {written[n - 1]}" for n in self.lines]
        text += [f"legal moves that address it: {'; '.join(self.moves)}"] if self.moves else []
        text += ["", "place      line        runs        work    accessed   footprint  share"]
        text += [
            f"{one.place:<10} {one.line:4}{one.runs:12,}{one.work:12,}{one.accessed:12,}{one.footprint:12,}"
            f"  {one.share:5.0%}"
            for one in self.scopes
        ]
        text += [
            f"launch {one.name}: {one.threads} threads, {one.registers} registers, {one.local_bytes} local bytes, "
            f"{one.shared_bytes} shared bytes, occupancy {one.occupancy:.0%}"
            for one in self.launches
        ]
        text += ["", f"hot loop: {self._loop()}", f"counters: {self._counted()}"]
        return "\n".join(text)

    def _loop(self) -> str:
        code = self.code
        if code.reason:
            return f"unavailable: {code.reason}"
        kinds = ", ".join(f"{count} {kind}" for kind, count in (code.kinds or {}).items())
        sums = f", {len(code.chains)} sums carried" if code.chains else ""
        return f"{code.instructions} instructions ({kinds}), {code.lanes} elements at a time{sums}"

    def _counted(self) -> str:
        if not self.counters.values:
            return f"unavailable: {self.counters.reason}"
        return ", ".join(f"{value:.3g} {name}" for name, value in self.counters.values.items()) + " a call"


@public
def profile(
    kernel: Kernel,
    target: str = "llvm",
    *,
    sizes: Mapping[str, int],
    threads: int = 1,
    measurement: Measurement | None = None,
    counted: bool = True,
    ncu: str | None = None,
    under: Literal["", "ncu", "nsys", "rocprof"] = "",
    time_limit: float = 60.0,
) -> Card:
    """The bottleneck of a kernel at some sizes, on a card. It is timed first, unless a `measurement` of it is
    given. `counted` reads the counters of the processor, where the system gives them. `ncu` is a file that
    NVIDIA's `ncu --csv`, `nsys stats --format csv` or AMD's `rocprof --stats` wrote of the kernel on a GPU; `under`
    runs it once more under one of them. Raises as `measure` does, ArgumentError for such a file that cannot be
    read, and as `traced` does."""
    check_kernel(kernel, "profile")
    own = measurement or measure(kernel, target, sizes=sizes, threads=threads, time_limit=time_limit)
    found = bottleneck(kernel, own)
    machine = machine_for(own.target)
    rows = scopes(kernel, own.sizes, machine)
    if ncu is not None:
        values = read_traced(ncu, kernel.name)
    elif under:
        values = traced(under, kernel, own.target, own.sizes)
    elif counted:
        values = counters(kernel, own.target, own.threads, own.sizes)
    else:
        values = Counters({}, "not asked for")
    return Card(
        VERSION, kernel.name, kernel.hash, kernel.text(), own.target,
        dict(own.sizes), own.threads, own.seconds, own.gbytes, own.gflops, own.fraction, own.bound_by,
        "unknown" if found is None else found.kind,
        "no ceiling is near, and there is no machine code that is read" if found is None else found.why,
        hottest_lines(kernel, rows),
        () if found is None else tuple(found.legal_moves(kernel, own.target)),
        tuple(rows), code_of(kernel, own.target),
        values, launches_of(kernel, own.target),
    )  # fmt: skip


def launches_of(kernel: Kernel, target: str) -> tuple[Resources, ...]:
    """The resources of a GPU's kernels; none elsewhere."""
    made = compile(kernel, target) if is_device(target) else None
    return made.resources() if isinstance(made, DeviceCompiled) else ()


def code_of(kernel: Kernel, target: str) -> HotCode:
    """The hot loop of the machine code of a kernel."""
    asm = machine_code(kernel, target)
    loop = hottest(asm)
    if loop is None:
        reason = "ncu has it: give its CSV" if is_device(target) else UNREAD if not asm else "there is no loop"
        return HotCode(reason=reason)
    return HotCode(
        len(loop.code), loop.kinds, loop.elements, loop.lanes, loop.on_stack, loop.chains, loop.function,
        loop.depth, sum(1 for _ in innermost(asm)),
    )  # fmt: skip
