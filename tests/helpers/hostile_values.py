"""Values that no call expects: objects that raise, texts with NUL, huge numbers, arrays of every awkward kind."""

from __future__ import annotations

import enum
import itertools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import dojoir

PAIR = """\
kernel pair(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N]

N @i
| t[{0}] = x[{0}] * 2
N @j
| y[{0}] = t[{0}] + 1
"""


class Raises:
    """Raises whatever is asked of it, but for its type."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")

    def _raise(self, *_: Any) -> Any:
        raise RuntimeError("this object does not want to")

    __index__ = __int__ = __float__ = __bool__ = __len__ = __iter__ = __fspath__ = __hash__ = __eq__ = _raise
    __str__ = __repr__ = __array__ = __dlpack__ = __getitem__ = __contains__ = __lt__ = __call__ = _raise
    __format__ = __dlpack_device__ = __buffer__ = _raise


class Indexes:
    """An integer that raises where one asks for it."""

    def __index__(self) -> int:
        raise ZeroDivisionError("index")


class Lies(list[Any]):
    """A list whose length is wrong and which does not end."""

    def __len__(self) -> int:
        return -1

    def __iter__(self) -> Any:
        raise MemoryError("endless")


class Text(str):
    """A text with methods of its own."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    __hash__ = str.__hash__


class Keys(Mapping[Any, Any]):
    """A mapping that says it has keys, and does not give them."""

    def __getitem__(self, key: object) -> Any:
        raise ValueError(key)

    def __iter__(self) -> Any:
        return iter(["N", "x"])

    def __len__(self) -> int:
        return 2


class Color(enum.IntEnum):
    RED = 3


def overlapping() -> np.ndarray:
    return np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (8,), (0,))


def read_only() -> np.ndarray:
    array = np.ones(8, np.float32)
    array.flags.writeable = False
    return array


JUNK: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "zero": lambda: 0,
    "minus": lambda: -1,
    "one": lambda: 1,
    "2**31": lambda: 2**31,
    "2**62": lambda: 2**62,
    "2**63": lambda: 2**63,
    "2**64": lambda: 2**64,
    "10**5000": lambda: 10**5000,
    "-2**63": lambda: -(2**63),
    "half": lambda: 0.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-inf": lambda: float("-inf"),
    "complex": lambda: 1j,
    "empty": lambda: "",
    "word": lambda: "softmax",
    "NUL": lambda: "a\0b",
    "surrogate": lambda: "\ud800",
    "long": lambda: "x" * 9000,
    "newline": lambda: "a\nb",
    "bytes": lambda: b"x",
    "bytearray": lambda: bytearray(b"\0"),
    "list": list,
    "tuple": tuple,
    "dict": dict,
    "set": set,
    "[None]": lambda: [None],
    "[[]]": lambda: [[]],
    "[Raises]": lambda: [Raises()],
    "[word]": lambda: ["softmax"],
    "[-1]": lambda: [-1],
    "[nan]": lambda: [float("nan")],
    "{N: Raises}": lambda: {"N": Raises()},
    "{N: Indexes}": lambda: {"N": Indexes()},
    "{N: 2**63}": lambda: {"N": 2**63},
    "{1: 2}": lambda: {1: 2},
    "{x: None}": lambda: {"x": None},
    "{N: nan}": lambda: {"N": float("nan")},
    "{N: -1}": lambda: {"N": -1},
    "{a NUL}": lambda: {"a\0b": 1},
    "Raises": Raises,
    "Indexes": Indexes,
    "Lies": Lies,
    "Keys": Keys,
    "Text": lambda: Text("softmax"),
    "object": object,
    "class": lambda: object,
    "function": lambda: lambda *a, **k: 1 / 0,
    "count": itertools.count,
    "generator": lambda: (n for n in (1, "x")),
    "range": lambda: range(3),
    "long range": lambda: range(2**62),
    "enum": lambda: Color.RED,
    "module": lambda: os,
    "exception": lambda: ValueError("x"),
    "numpy int": lambda: np.int64(3),
    "numpy nan": lambda: np.float32("nan"),
    "ones": lambda: np.ones(8, np.float32),
    "read-only": read_only,
    "overlapping": overlapping,
    "strided": lambda: np.ones(16, np.float32)[::2],
    "reversed": lambda: np.ones(8, np.float32)[::-1],
    "big-endian": lambda: np.ones(8, ">f4"),
    "objects": lambda: np.array([None] * 8),
    "0-d": lambda: np.float32(1),
    "no elements": lambda: np.ones(0, np.float32),
    "records": lambda: np.zeros(8, [("a", "f4")]),
    "shifted": lambda: np.frombuffer(bytes(33), np.float32, 8, offset=1),
    "matrix": lambda: np.ones((8, 8), np.float32),
    "wide": lambda: np.broadcast_to(np.float32(1), (2**40,)),
    "f64": lambda: np.ones(8),
    "texts": lambda: np.array(["a"] * 8),
    "dates": lambda: np.zeros(8, "M8[s]"),
    "masked": lambda: np.ma.ones(8),
    "memoryview": lambda: memoryview(bytes(32)),
    "kernel": lambda: dojoir.parse(PAIR),
    "trace": lambda: dojoir.Trace(dojoir.parse(PAIR)),
    "move": lambda: dojoir.parse_move("split(0, 4)"),
    "far move": lambda: dojoir.parse_move("split(9.9.9, 4)"),
    "pass": lambda: dojoir.PASSES["simplify"],
    "path": lambda: Path("/nonexistent/x"),
    "folder": lambda: Path("/"),
    "device": lambda: "/dev/full",
    "bytes path": lambda: os.fsencode("/tmp"),
    "partial": lambda: NotImplemented,
    "ellipsis": lambda: ...,
    "slice": lambda: slice(None),
    "type": lambda: int,
}
