"""How this thread rounds: the control bits of its floating-point unit, which code may change and leave so.

A kernel that is run in another mode gives other results, and so does all that runs after a kernel which leaves
one."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from dojoir.support.frozen import dataclass

ROOM = 256
"""Bytes that hold the environment of any C library."""

MXCSR, CONTROL = 28, 0xFFC0
"""Where glibc keeps MXCSR on x86-64, and its bits that are no flags of what has happened."""


class Mode(NamedTuple):
    """A mode: `bits` tell two apart, `environment` sets it again."""

    bits: tuple[int, ...]
    environment: bytes


@dataclass(frozen=True)
class _Library:
    """Functions of the C library."""

    rounding: Callable[[], int]
    get: Callable[[object], int]
    set: Callable[[object], int]


def float_mode() -> Mode | None:
    """The mode of this thread; None where the system does not tell."""
    library = _library()
    if library is None:
        return None
    environment = ctypes.create_string_buffer(ROOM)
    library.get(environment)
    raw = environment.raw
    bits = [library.rounding()]
    if sys.platform == "linux" and platform.machine() == "x86_64":
        bits.append(int.from_bytes(raw[MXCSR : MXCSR + 4], "little") & CONTROL)
        bits.append(int.from_bytes(raw[:2], "little"))
    elif sys.platform == "linux" and platform.machine() == "aarch64":
        bits.append(int.from_bytes(raw[:4], "little"))
    return Mode(tuple(bits), raw)


def was_changed(before: Mode | None) -> bool:
    """Whether the mode is another than it was; it is set to that again."""
    now = float_mode()
    if before is None or now is None or now.bits == before.bits:
        return False
    library = _library()
    assert library is not None
    library.set(ctypes.create_string_buffer(before.environment))
    return True


@cache
def _library() -> _Library | None:
    for name in (None, "libm.so.6"):
        try:
            found = ctypes.CDLL(name)
            return _Library(found.fegetround, found.fegetenv, found.fesetenv)
        except (AttributeError, OSError, TypeError):
            continue
    return None
