"""The loops that show what a machine reaches, as LLVM IR: streams through memory, and chains of multiply-adds."""

from __future__ import annotations

import ctypes
from functools import cached_property

import numpy as np

from dojoir.runtime.build.llvm_engine import Host, LoadedCode, build, host
from dojoir.runtime.build.pool import parallel_for
from dojoir.runtime.measurement.memory import touched
from dojoir.support.cache import Cache
from dojoir.support.frozen import dataclass

UNROLLED = 8
BLOCK_BYTES = 1 << 16
"""The number of bytes that one iteration of a parallel loop streams through. The sizes of arrays are multiples of
it."""

WAYS = ("", "_split", "_past", "_split_past")
"""How to stream: in one piece or in four side by side, writing through the caches or past them."""

CHAINS = 12
"""Independent sums of a chain of multiply-adds: enough to fill two units of latency 4 to 6, and few enough for 16
registers."""

STEPS = 20_000
"""Multiply-adds of each chain."""


@dataclass(frozen=True)
class Loops:
    """The loops on a number of threads. Every array is of bytes, a multiple of BLOCK_BYTES, aligned to 64."""

    threads: int

    def read(self, way: str, source: np.ndarray) -> None:
        """Sums an array."""
        self._run(f"read{way}", source.size // BLOCK_BYTES, source, source, source)

    def copy(self, way: str, target: np.ndarray, source: np.ndarray) -> None:
        """Copies an array."""
        self._run(f"copy{way}", source.size // BLOCK_BYTES, target, source, source)

    def triad(self, way: str, target: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
        """`target = first + 0.5 * second` in f32."""
        self._run(f"triad{way}", first.size // BLOCK_BYTES, target, first, second)

    def multiply_add(self, double: bool) -> None:
        """Chains of multiply-adds in f32 or f64 on every thread."""
        nothing = touched(64)
        self._run("fma_double" if double else "fma_float", self.threads, nothing, nothing, nothing)

    def operations(self, double: bool) -> int:
        """The operations of `multiply_add`, a multiply-add being two."""
        return 2 * CHAINS * STEPS * (host().vector_bits // (64 if double else 32)) * self.threads

    def multiply_bytes(self) -> None:
        """Chains of sums of products of bytes in i32 on every thread."""
        nothing = touched(64)
        self._run("dot_bytes", self.threads, nothing, nothing, nothing)

    def byte_operations(self) -> int:
        """The operations of `multiply_bytes`, a product and its addition being two."""
        here = host()
        return 2 * _products(here) * CHAINS * STEPS * (here.vector_bits // 32) * self.threads

    def _run(self, name: str, count: int, *arrays: np.ndarray) -> None:
        pointers = (ctypes.c_void_p * 3)(*(array.ctypes.data for array in arrays))
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(self._library.addresses[name])(
            ctypes.addressof(pointers), count
        )

    @cached_property
    def _library(self) -> LoadedCode:
        bodies = {**_bodies(host().vector_bits), "dot_bytes": _byte_chains(host())}
        text = "\n".join(
            [_DECLARATIONS, _dot(host())[0], *(_functions(name, lines) for name, lines in bodies.items())]
        )
        return build(text, [*bodies], {"dojo_parallel_for": parallel_for(self.threads)}, Cache.default())


_DECLARATIONS = """
declare void @dojo_parallel_for(ptr, ptr, i64)
@sink = internal global i64 0
!0 = !{i32 1}
"""

_SINK = "%old = atomicrmw xor ptr @sink, i64 %bits monotonic"


def _functions(name: str, lines: list[str]) -> str:
    """A body, whose context is the addresses of three arrays, and the function that runs it on the threads."""
    return "\n".join([
        f"define internal void @{name}.body(ptr %context, i64 %from, i64 %to) {{",
        "entry:",
        "%p1 = getelementptr ptr, ptr %context, i64 1",
        "%p2 = getelementptr ptr, ptr %context, i64 2",
        "%x0 = load ptr, ptr %context",
        "%x1 = load ptr, ptr %p1",
        "%x2 = load ptr, ptr %p2",
        *lines,
        "}",
        f"define void @{name}(ptr %context, i64 %n) {{",
        f"call void @dojo_parallel_for(ptr @{name}.body, ptr %context, i64 %n)",
        "ret void",
        "}",
    ])  # fmt: skip


def _bodies(bits: int) -> dict[str, list[str]]:
    """The bodies by name, for vectors of `bits`."""
    number, whole = f"<{bits // 32} x float>", f"<{bits // 64} x i64>"
    size = bits // 8

    def loads(array: int, kind: str) -> list[str]:
        return [
            line
            for u in range(UNROLLED)
            for line in (
                f"%q{array}.{u} = getelementptr {kind}, ptr %x{array}, i64 %i{u}",
                f"%v{array}.{u} = load {kind}, ptr %q{array}.{u}, align {size}",
            )
        ]

    def stores(kind: str, value: str, streaming: bool) -> list[str]:
        hint = ", !nontemporal !0" if streaming else ""
        return [
            line
            for u in range(UNROLLED)
            for line in (
                f"%t{u} = getelementptr {kind}, ptr %x0, i64 %i{u}",
                f"store {kind} %{value}{u}, ptr %t{u}, align {size}{hint}",
            )
        ]

    def sums() -> list[str]:
        return [
            line
            for u in range(UNROLLED)
            for line in (
                f"%h{u} = fmul {number} %v2.{u}, splat (float 0.5)",
                f"%r{u} = fadd {number} %v1.{u}, %h{u}",
            )
        ]

    bodies = {"fma_float": _chains("float", bits // 32), "fma_double": _chains("double", bits // 64)}
    for way in WAYS:
        streams, past = (4 if "split" in way else 1), "past" in way
        copied = [*loads(1, whole), *stores(whole, "v1.", past)]
        added = [*loads(1, number), *loads(2, number), *sums(), *stores(number, "r", past)]
        bodies[f"copy{way}"] = _stream(size, streams, copied)
        bodies[f"triad{way}"] = _stream(size, streams, added)
        if not past:
            bodies[f"read{way}"] = _stream(size, streams, [*loads(1, whole), *_accumulate(whole)], whole)
    return bodies


def _accumulate(kind: str) -> list[str]:
    return [f"%s{u}.next = add {kind} %s{u}, %v1.{u}" for u in range(UNROLLED)]


def _stream(size: int, streams: int, work: list[str], summed: str | None = None) -> list[str]:
    """A loop over the vectors of the blocks [from, to), UNROLLED at a time, in as many streams side by side. With
    `summed`, the type of a vector, it keeps UNROLLED sums of that type, which `work` takes from `%s` to `%s.next`.
    """
    vectors = BLOCK_BYTES // size
    lines = [
        f"%first = mul i64 %from, {vectors}",
        f"%last = mul i64 %to, {vectors}",
        "%count = sub i64 %last, %first",
        f"%part = sdiv i64 %count, {streams}",
        "%stop = add i64 %first, %part",
        *(f"%part{k} = mul i64 %part, {k}" for k in range(streams)),
        "br label %loop",
        "loop:",
        "%i = phi i64 [ %first, %entry ], [ %i.next, %loop ]",
    ]
    if summed is not None:
        zero = f"{summed} [ zeroinitializer, %entry ]"
        lines += [f"%s{u} = phi {zero}, [ %s{u}.next, %loop ]" for u in range(UNROLLED)]
    for u in range(UNROLLED):
        lines += [f"%d{u} = add i64 %part{u % streams}, {u // streams}", f"%i{u} = add i64 %i, %d{u}"]
    lines += [
        *work,
        f"%i.next = add i64 %i, {UNROLLED // streams}",
        "%more = icmp slt i64 %i.next, %stop",
        "br i1 %more, label %loop, label %end",
        "end:",
    ]
    if summed is not None:
        # The sums must have a use, or the loads go.
        lines += _combine([f"%s{u}.next" for u in range(UNROLLED)], "xor", summed)
        lines += [
            f"%bits = extractelement {summed} %all, i32 0",
            "%old = atomicrmw xor ptr @sink, i64 %bits monotonic",
        ]
    return [*lines, "ret void"]


def _chains(element: str, lanes: int) -> list[str]:
    """CHAINS independent multiply-adds, STEPS times. The factor comes from memory, so that it is not known;
    the summands differ, so that the chains do."""
    kind = f"<{lanes} x {element}>"
    bits = 32 if element == "float" else 64
    suffix = f"v{lanes}f{bits}"
    call = f"call {kind} @llvm.fma.{suffix}({kind} %s{{u}}, {kind} %f, {kind} %g{{u}})"
    lines = [
        f"%f = load {kind}, ptr %x0, align 64",
        *[f"%g{u} = fadd {kind} %f, splat ({element} {u}.0)" for u in range(CHAINS)],
        "br label %loop",
        "loop:",
        "%k = phi i64 [ 0, %entry ], [ %k.next, %loop ]",
    ]
    start = f"{kind} [ splat ({element} 1.0), %entry ]"
    lines += [f"%s{u} = phi {start}, [ %s{u}.next, %loop ]" for u in range(CHAINS)]
    lines += [f"%s{u}.next = {call.format(u=u)}" for u in range(CHAINS)]
    lines += [
        "%k.next = add i64 %k, 1",
        f"%more = icmp slt i64 %k.next, {STEPS}",
        "br i1 %more, label %loop, label %end",
        "end:",
        *_combine([f"%s{u}.next" for u in range(CHAINS)], "fadd", kind),
        f"%one = extractelement {kind} %all, i32 0",
        f"%wide = bitcast {element} %one to i{bits}",
        *(["%bits = zext i32 %wide to i64"] if bits == 32 else ["%bits = add i64 %wide, 0"]),
        _SINK,
        "ret void",
    ]
    return lines


def _has_vnni(here: Host) -> bool:
    return (here.has("avx512vnni") and here.has("avx512vl")) or (here.has("avxvnni") and here.vector_bits == 256)


def _has_pairs(here: Host) -> bool:
    return here.has("avx512bw") if here.vector_bits == 512 else here.has("avx2")


def _products(here: Host) -> int:
    """How many products of bytes a lane of 32 bits takes at once."""
    return 4 if _has_vnni(here) else 2 if _has_pairs(here) else 1


def _dot(here: Host) -> tuple[str, list[str]]:
    """The declarations for a step of a chain `%s{u}`, and the lines that make `%s{u}.next` of it: by the
    instruction that `codegen.legal` takes, else a product of i32."""
    lanes = here.vector_bits // 32
    kind, pairs = f"<{lanes} x i32>", f"<{2 * lanes} x i16>"
    if _has_vnni(here):
        name = f"@llvm.x86.avx512.vpdpbusd.{here.vector_bits}"
        call = f"%s{{u}}.next = call {kind} {name}({kind} %s{{u}}, {kind} %f, {kind} %g{{u}})"
        return f"declare {kind} {name}({kind}, {kind}, {kind})", [call]
    if _has_pairs(here):
        name = "@llvm.x86.avx512.pmaddw.d.512" if lanes == 16 else "@llvm.x86.avx2.pmadd.wd"
        lines = [f"%h{{u}} = bitcast {kind} %s{{u}} to {pairs}", f"%f{{u}} = bitcast {kind} %g{{u}} to {pairs}",
                 f"%m{{u}} = call {kind} {name}({pairs} %h{{u}}, {pairs} %f{{u}})"]  # fmt: skip
        return f"declare {kind} {name}({pairs}, {pairs})", [*lines, f"%s{{u}}.next = add {kind} %m{{u}}, %f"]
    lines = [f"%m{{u}} = mul {kind} %s{{u}}, %g{{u}}", f"%s{{u}}.next = add {kind} %m{{u}}, %f"]
    return "", lines


def _byte_chains(here: Host) -> list[str]:
    """CHAINS independent sums, STEPS times, of a factor that is not known."""
    lanes = here.vector_bits // 32
    kind = f"<{lanes} x i32>"
    step = _dot(here)[1]
    return [
        f"%f = load {kind}, ptr %x0, align 64",
        *[f"%g{u} = add {kind} %f, splat (i32 {u + 1})" for u in range(CHAINS)],
        "br label %loop",
        "loop:",
        "%k = phi i64 [ 0, %entry ], [ %k.next, %loop ]",
        *[f"%s{u} = phi {kind} [ %g{u}, %entry ], [ %s{u}.next, %loop ]" for u in range(CHAINS)],
        *[line.format(u=u) for u in range(CHAINS) for line in step],
        "%k.next = add i64 %k, 1",
        f"%more = icmp slt i64 %k.next, {STEPS}",
        "br i1 %more, label %loop, label %end",
        "end:",
        *_combine([f"%s{u}.next" for u in range(CHAINS)], "add", kind),
        f"%one = extractelement {kind} %all, i32 0",
        "%bits = zext i32 %one to i64",
        _SINK,
        "ret void",
    ]


def _combine(values: list[str], operation: str, kind: str) -> list[str]:
    """All values combined into `%all`."""
    lines = []
    so_far = values[0]
    for number, value in enumerate(values[1:]):
        name = "%all" if number == len(values) - 2 else f"%all{number}"
        lines.append(f"{name} = {operation} {kind} {so_far}, {value}")
        so_far = name
    return lines
