"""The subject of a child process: a kernel for a target, or Python code on the same arrays. Plain data."""

from __future__ import annotations

import importlib
import pickle
from base64 import b64decode, b64encode
from builtins import compile as compile_python
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

import numpy as np

from dojoir.backends.host import chosen_cpu, split_target
from dojoir.errors import ArgumentError, repr_of
from dojoir.ir.nodes import Kernel
from dojoir.runtime.build.compiler import compile, load_llvm
from dojoir.runtime.build.pool import thread_count
from dojoir.runtime.call.compiled import Compiled
from dojoir.support.frozen import dataclass
from dojoir.support.public import public, public_class

Call = Callable[[], object]


@dataclass(frozen=True)
class KernelSubject:
    """A kernel for a target. With `llvm` that LLVM module stands for what the compiler would make of it."""

    kernel: Kernel
    target: str = "llvm"
    threads: int | None = None
    llvm: str | None = None
    emulated: bool = False

    def load(self) -> Compiled:
        """The kernel as a callable. Raises as `compile` does."""
        if self.llvm is not None:
            return load_llvm(self.kernel, self.llvm, thread_count(self.threads), (), self._cpu)
        return compile(self.kernel, self.target, threads=self.threads, emulated=self.emulated)

    @property
    def _cpu(self) -> str | None:
        """The processor that the module is for, if one is named."""
        return chosen_cpu(split_target(self.target)[1])

    def to_json(self) -> dict[str, object]:
        kernel = b64encode(pickle.dumps(self.kernel)).decode()
        return {
            "kernel": kernel,
            "target": self.target,
            "threads": self.threads,
            "llvm": self.llvm,
            "emulated": self.emulated,
        }


@public_class
@dataclass(frozen=True)
class PythonCode:
    """Python that does the work of a kernel, to compare with. `statement` is Python code that uses the arguments
    by their names (`y[:] = np.exp(x)`; `np` is NumPy), or `module:function`, a function that is called with them
    in declared order. Outputs are written in place. `setup` runs once before, with the same names."""

    statement: str
    setup: str = ""
    name: str = ""

    @public
    def bind(self, arguments: Mapping[str, object]) -> Call:
        """The code as a call without arguments: of arrays of any library, and numbers. Raises ArgumentError where
        there is no such function, and for what is not Python."""
        names: dict[str, object] = {"np": np, **arguments}
        if self.setup:
            try:
                exec(_python(self.setup), names)
            except ArgumentError:
                raise
            except Exception as error:
                message = f"{repr_of(self.setup)} does not run: {type(error).__name__}: {error}"
                raise ArgumentError(message, "bad-code") from None
        values = [names[name] for name in arguments]
        module, colon, function = self.statement.partition(":")
        if colon and all(part.isidentifier() for part in (*module.split("."), *function.split("."))):
            found = _find(module, function)
            return lambda: found(*values)
        code = _python(self.statement)
        return lambda: exec(code, names)

    def to_json(self) -> dict[str, object]:
        return {"statement": self.statement, "setup": self.setup, "name": self.name}


def _python(text: str) -> CodeType:
    try:
        return compile_python(text, "<baseline>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ArgumentError(f"{repr_of(text)} is not Python: {what}", "bad-code") from None


def _find(module: str, function: str) -> Callable[..., object]:
    found: object
    try:
        found = importlib.import_module(module)
        for part in function.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ArgumentError(f"there is no {module}:{function}: {error}", "unknown-function") from None
    if not callable(found):
        raise ArgumentError(f"{module}:{function} is not a function", "unknown-function")
    return found


def subject_from_json(data: Mapping[str, Any]) -> KernelSubject | PythonCode:
    """Reads the output of `to_json` of a subject, from a process that is trusted: it holds pickles."""
    if "statement" in data:
        return PythonCode(**data)
    kernel = pickle.loads(b64decode(data["kernel"]))
    assert isinstance(kernel, Kernel)
    return KernelSubject(kernel, data["target"], data["threads"], data["llvm"], data["emulated"])


def callable_name(function: Callable[..., object]) -> str:
    """How another process finds a function: `module:name`. Raises ArgumentError for one that it cannot find."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<unnamed>")
    if not isinstance(module, str) or module == "__main__" or "<" in name:
        raise ArgumentError(
            f"{name} cannot be found from another process: define it at the top of a module, "
            f"or give the code as a PythonCode",
            "unknown-function",
        )
    return f"{module}:{name}"
