"""Quick calls: what was checked once for a signature is compared, in machine code, the next time.

A kernel's `QuickEntry` remembers signatures: for every array its type, element type, shape, strides and the bytes
it spans. A call whose arguments fit one of them, whose arrays are aligned and do not overlap now, runs at once. All
others go through `arguments.Signature`, which says what is wrong.
"""

from __future__ import annotations

import ctypes
import math
import operator
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, SupportsIndex, cast

import numpy as np

from dojoir.ir.nodes import Kernel
from dojoir.runtime.call.bound import ArgumentFit
from dojoir.runtime.call.dlpack import CODES
from dojoir.runtime.call.entry_text import NUMPY, STATE, TENSOR, WORD, QuickCallKey, entry_text
from dojoir.runtime.call.overlap import rows_of
from dojoir.runtime.call.scalars import Number, takes_value
from dojoir.runtime.call.tensors import torch_now
from dojoir.runtime.call.views import DIRECT, View, address_of

Load = Callable[[str], tuple[int, object]]
"""From the text of an LLVM module to the address of its function `entry`, and what keeps it there."""

MOST = 16
"""How many signatures an entry remembers; then it begins anew."""

_FASTCALL = 0x80
"""METH_FASTCALL of CPython's Include/methodobject.h."""


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class QuickEntry:
    """The quick call of one kernel. `call(*arguments)` gives None where the kernel ran, its status where it
    failed, and False where the arguments fit no signature that is remembered: then nothing was done. Sizes by name
    follow the arguments, None for one that is not given, and `token` after them."""

    __slots__ = ("_arrays", "_form", "_known", "_method", "_retired", "call", "names", "token")

    def __init__(self, kernel: Kernel, function: int, load: Load) -> None:
        self.names = kernel.runtime_sizes
        self._form = QuickCallKey.of(kernel.arguments, len(self.names))
        self._arrays = tuple(buffer for buffer in kernel.arguments if not takes_value(buffer))
        self.token = np.zeros(len(STATE) + 3 * len(self._form.cells), np.int64)
        for name, word in _words_of_python().items():
            self.token[WORD[name]] = word
        self.token[WORD["function"]] = function
        self._known: list[tuple[np.ndarray, object]] = []
        self._retired: list[list[tuple[np.ndarray, object]]] = []
        address, owner = _loaded(self._form, load)
        definition = _Method(kernel.name.encode(), address, _FASTCALL, None)
        self._method = (definition, owner)
        self.call: Callable[..., object] = _new_method(ctypes.addressof(definition), self.token, None)

    def remember(
        self,
        values: Sequence[Number],
        arguments: Sequence[object],
        views: Sequence[View],
        given: object,
        fit: ArgumentFit,
    ) -> None:
        """Keeps the signature of arguments that were found to fit, unless one of them is of a kind that only the
        checks in Python know."""
        named = cast("Mapping[str, SupportsIndex]", given)
        words = [0]
        for name in self.names:
            words += (operator.index(named[name]) if name in named else -1, fit.sizes[name])
        owners: list[object] = []
        torch = torch_now()
        arrays = iter(zip(views, fit.spans, strict=True))
        for (by_value, dtype, *_), argument in zip(self._form.arguments, arguments, strict=True):
            if by_value:
                continue
            view, span = next(arrays)
            if isinstance(argument, np.ndarray):
                words += (NUMPY, id(type(argument)), id(argument.dtype), *view.shape, *view.strides, span)
                owners += (type(argument), argument.dtype)
            elif torch is not None and torch.from_tensor and type(argument) in torch.types:
                item = dtype.itemsize
                strides = (step // item for step in view.strides)
                words += (TENSOR, id(type(argument)), _dlpack_type(view.dtype), *view.shape, *strides, span)
                for name in ("from_tensor", "requires_grad", "is_grad_enabled", "is_neg"):
                    value = getattr(torch, name)
                    self.token[WORD[name]] = value if isinstance(value, int) else id(value)
                owners.append(torch)
            else:
                return
        words += fit.steps
        rows = [
            rows_of(view.shape, view.strides, buffer.dtype.itemsize, buffer.steps)
            for view, buffer in zip(views, self._arrays, strict=True)
        ]
        for a, b in filter(self._form.may_interleave, self._form.pairs):
            # with no pitch, a row longer than it: then they are never beside each other
            words += (rows[a].run, rows[b].run, math.gcd(rows[a].pitch, rows[b].pitch) or 1)
        for cell, i in enumerate(self._form.cells):
            self._remember_number(len(STATE) + 3 * cell, arguments[i], values[i])
        self._push(np.array(words, np.int64), owners)

    def _remember_number(self, cell: int, argument: object, bits: Number) -> None:
        """Keeps what a number is in a float narrower than f32."""
        if isinstance(argument, int | float | np.floating):
            self.token[cell : cell + 3] = (1, np.float64(argument).view(np.int64), bits)

    def _push(self, words: np.ndarray, owners: object) -> None:
        if any(np.array_equal(words[1:], known[1:]) for known, _ in self._known):
            return  # it was known: something else kept the call from being quick
        if len(self._known) == MOST:
            self._retired.append(self._known)
            self._known = []
            self.token[WORD["head"]] = 0
        if not self.token[WORD["busy"]]:
            self._retired.clear()
        words[0] = self.token[WORD["head"]]
        self._known.append((words, owners))
        self.token[WORD["head"]] = address_of(words)


def entry_for(kernel: Kernel, function: object, load: Load | None) -> QuickEntry | None:
    """The quick call of a kernel whose compiled function has an address, where this Python is one that it
    knows."""
    if load is None or not _known_python():
        return None
    address = ctypes.cast(cast("Any", function), ctypes.c_void_p).value
    return None if address is None else QuickEntry(kernel, address, load)


def _dlpack_type(dtype: str) -> int:
    """A DLDataType of one lane, as its four bytes are read."""
    code, bits = CODES[dtype]
    return code | bits << 8 | 1 << 16


@cache
def _loaded(form: QuickCallKey, load: Load) -> tuple[int, object]:
    """The machine code for every kernel of one form."""
    return load(entry_text(form))


@cache
def _known_python() -> bool:
    """Whether objects lie in memory as CPython's headers say: a count of references, then the type."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    probe = np.float64(1.5)
    return (
        object.__basicsize__ == 16
        and ctypes.c_void_p.from_address(id(probe) + 8).value == id(np.float64)
        and ctypes.c_double.from_address(id(probe) + 16).value == 1.5
        and ctypes.c_int32.from_address(id(np.int32(7)) + 16).value == 7
        and DIRECT
    )


_FUNCTIONS = (
    "Py_IncRef", "Py_DecRef", "PyErr_Clear", "PyLong_FromLong", "PyFloat_AsDouble", "PyLong_AsLongLongAndOverflow",
    "PyObject_GetAttr", "PyObject_CallOneArg", "PyObject_CallNoArgs", "PyEval_SaveThread", "PyEval_RestoreThread",
)  # fmt: skip


@cache
def _words_of_python() -> dict[str, int]:
    """The objects and functions of CPython that an entry uses."""
    objects: dict[str, object] = {
        "True": True, "False": False, "None": None, "float": float, "int": int,
        "np_float32": np.float32, "np_float64": np.float64, "np_int32": np.int32, "np_int64": np.int64,
    }  # fmt: skip
    words = {name: id(value) for name, value in objects.items()}
    for name in _FUNCTIONS:
        words[name] = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
    return words


_new_method = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
