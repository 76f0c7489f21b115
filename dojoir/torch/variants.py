"""The forms of one kernel that tensors of other types and strides ask for, compiled when the first comes."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import torch

import dojoir
from dojoir.torch.operator_on_gpu import Given, OnDevice, last, to_compile
from dojoir.torch.thread_count import threads_now

TYPES: dict[str, torch.dtype] = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2, "f4e2m1": torch.uint8,
    "i4": torch.int8, "u4": torch.uint8,
    "f8e8m0": getattr(torch, "float8_e8m0fnu", torch.uint8),  # from 2.7 on
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
    "u64": torch.uint64, "u32": torch.uint32, "u16": torch.uint16, "u8": torch.uint8, "bool": torch.bool,
}  # fmt: skip
"""The type of a tensor for each type of a kernel."""

WIDE = ("f64", "f32", "f16", "bf16")
"""The types that the floating-point arguments of one operator may have."""

NAMES = {TYPES[name]: name for name in WIDE}


def type_names(dtypes: object) -> tuple[str, ...]:
    """The names of types that a caller lists by name or as PyTorch's."""
    if isinstance(dtypes, str) or not isinstance(dtypes, list | tuple | set | frozenset):
        raise dojoir.ArgumentError(f"dtypes is a tuple such as ('f32', 'bf16'), not {dtypes!r}", "bad-dtype")
    found = []
    for given in dtypes:
        name = NAMES.get(given) if isinstance(given, torch.dtype) else given
        if name not in WIDE:
            raise dojoir.ArgumentError(f"dtypes are some of {', '.join(WIDE)}, not {given!r}", "bad-dtype")
        found.append(name)
    return tuple(dict.fromkeys(found))


class Variants:
    """The callables of a kernel: by the type of its floating-point arguments (None for those that it declares),
    whether rows of its inputs may be apart, and the number of threads."""

    def __init__(self, make: Callable[[], Given], own: Given | None, threads: int | None) -> None:
        """`make` gives the kernel, trace or versions when it is first needed; `own` is what is asked for on a
        GPU. `threads` of what is made says how many threads a call has now."""
        self._make, self._own, self.threads = make, own, threads_now(threads)
        self._given: dict[str | None, Given] = {}
        self._compiled: dict[tuple[str | None, bool, int | None], dojoir.Compiled | None] = {}
        self._devices: dict[str | None, OnDevice] = {}

    @property
    def has_own(self) -> bool:
        """Whether another kernel is asked for on a GPU."""
        return self._own is not None

    def given(self, name: str | None = None) -> Given:
        found = self._given.get(name)
        if found is None:
            found = self._make() if name is None else with_dtype(self.given(), name)
            self._given[name] = found
        return found

    def compiled(self, name: str | None = None) -> dojoir.Compiled:
        found = self._for_now(name, False)
        assert found is not None
        return found

    def strided(self, name: str | None) -> dojoir.Compiled | None:
        """The form whose inputs may have rows apart; None where there is no such form."""
        return self._for_now(name, True)

    def _for_now(self, name: str | None, apart: bool) -> dojoir.Compiled | None:
        key = name, apart, self.threads()
        if key not in self._compiled:
            given = strided(self.given(name)) if apart else self.given(name)
            made = None if given is None else dojoir.compile(to_compile(given), threads=key[-1])
            self._compiled[key] = made
        return self._compiled[key]

    def on_device(self, name: str | None) -> OnDevice:
        found = self._devices.get(name)
        if found is None:
            own = self._own if name is None or self._own is None else with_dtype(self._own, name)
            found = self._devices[name] = OnDevice(self.given(name), own)
        return found


def with_dtype(given: Given, name: str) -> Given:
    """The input for arguments of another type: the same moves where they are legal there, else those that are
    chosen for it."""
    if isinstance(given, dojoir.Kernel):
        return given.with_dtype(name)
    return _replayed(given, given.start.with_dtype(name))


def _replayed(given: Given, start: dojoir.Kernel) -> Given:
    if isinstance(given, dojoir.Trace):
        trace = dojoir.Trace(start)
        try:
            for move in given.moves:
                trace.apply(str(move))
        except dojoir.DojoError:
            return dojoir.optimize(start)
        return trace
    return dojoir.optimize(start)


_MATRIX = re.compile(r"in +(\w+): \w+\[[^\]]*,[^\]]*\]")
_FIXED = re.compile(r"\b(strided|pad|flat|packed)\b")


def strided(given: Given) -> Given | None:
    """The input with strided rows; None where no input has rows."""
    start = given if isinstance(given, dojoir.Kernel) else given.start
    lines = dojoir.to_text(start).split("\n")

    def changed_line(line: str) -> str:
        found = _MATRIX.match(line)
        fixed = found is None or _FIXED.search(line) or start.buffer(found[1]).facts
        return line if fixed else f"{line} strided"

    changed = [*map(changed_line, lines)]
    if changed == lines:
        return None
    try:
        kernel = dojoir.parse("\n".join(changed))
        dojoir.prove(kernel)
        return kernel if isinstance(given, dojoir.Kernel) else _replayed(given, kernel)
    except dojoir.DojoError:
        return None


def hint_about_temporaries(given: Given) -> None:
    """Warns of a text that holds all it computes in bf16 or f16."""
    kernel = last(given)
    narrow = [b for b in kernel.buffers if b.role == "tmp" and b.dtype.name in ("bf16", "f16")]
    if narrow and not any(b.dtype.name in ("f32", "f64") for b in kernel.buffers):
        names = ", ".join(b.name for b in narrow)
        name = narrow[0].dtype.name
        warnings.warn(
            f"kernel {kernel.name} holds {names} in {name}, which is slower and less accurate than temporaries in "
            f"f32: give op a text in f32, and dtypes=('{name}',), or say kernel.with_dtype('{name}')",
            stacklevel=4,
        )
