"""A compiled kernel: callable on arrays, in place, with every argument checked first."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dojoir.codegen.lir.outcome import FIRST_CHECK, OK, OUT_OF_MEMORY, Check
from dojoir.errors import ArgumentError, Diagnostic, Note, RunError, did_you_mean, repr_of
from dojoir.ir.nodes import Buffer, DataFact, Kernel
from dojoir.ir.where import place
from dojoir.meaning.data_facts import check_data
from dojoir.meaning.flat import flattened, has_flat
from dojoir.meaning.sizes import given_inputs, solve
from dojoir.runtime.call.arguments import Signature, check_type
from dojoir.runtime.call.bound import ArgumentFit, BoundArguments
from dojoir.runtime.call.layout import allocate
from dojoir.runtime.call.results import Results, results_of
from dojoir.runtime.call.scalars import Number, takes_value
from dojoir.runtime.call.tensors import as_tensor, of_torch
from dojoir.runtime.call.views import View, as_numpy, split_views, view_of
from dojoir.support.public import public

if TYPE_CHECKING:
    from dojoir.runtime.call.entry import Load, QuickEntry

    CType = type[ctypes._SimpleCData[int]] | type[ctypes._SimpleCData[float]] | type[ctypes.c_void_p]

MOST = 16
"""How many forms of arguments are remembered."""

QUICK_AFTER = 2
"""How many calls with arguments like earlier ones are made before machine code is made for them."""

_C_TYPES: dict[str, CType] = {
    "float64": ctypes.c_double,
    "float32": ctypes.c_float,
    "float16": ctypes.c_uint16,
    "int64": ctypes.c_int64,
    "int32": ctypes.c_int32,
    "int16": ctypes.c_int16,
    "int8": ctypes.c_int8,
    "uint64": ctypes.c_uint64,
    "uint32": ctypes.c_uint32,
    "uint16": ctypes.c_uint16,
    "uint8": ctypes.c_uint8,
    "bool": ctypes.c_uint8,
}


class Compiled:
    """A kernel as machine code in this process.

    `compiled(x, y)` takes every in, out and inout argument in declared order and writes in place;
    `compiled.run({"x": x})` allocates what the kernel returns. Arrays are NumPy's or anything with `__dlpack__`,
    on the CPU, in the layout that the kernel declares (C-contiguous by default; `strided` takes rows that are
    apart, such as `x[:, :8]`), and are never copied. Scalars are Python or NumPy numbers. Sizes come from the
    shapes; one that no shape gives is passed by name.

    Both raise ArgumentError before anything runs where an argument does not fit, and where its data break what is
    declared of them, `distinct`, `lengths(M)` or `offsets(M)` (a sort, or a pass over them; `compile(…,
    checked=False)` leaves it out, and `unproved` says so). Both raise RunError
    where the kernel had no memory for its temporaries or an index read from data was out of range."""

    __slots__ = (
        "_before", "_calls", "_checks", "_code", "_data_facts", "_entry", "_function", "_known", "_load", "_quick",
        "_signature", "kernel", "source", "target", "threads", "unproved",
    )  # fmt: skip

    @public
    def __init__(
        self,
        kernel: Kernel,
        target: str,
        threads: int,
        source: str,
        address: int | Callable[..., int],
        code: object,
        checks: tuple[Check, ...] = (),
        before: Callable[[], object] | None = None,
        load: Load | None = None,
    ) -> None:
        """`address` is that of the function, or what stands for it: it takes pointers as numbers. `code` is what
        must live as long as it is called. `before` runs before every call. `load` makes machine code of the quick
        call that later calls take."""
        if isinstance(address, int) and not 0 < address < 1 << 64:
            message = f"the address of a function is from 1 to 2**64 - 1, not {repr_of(address)}"
            raise ArgumentError(message, "bad-arguments")
        self.kernel = kernel
        self.target = target
        self.threads = threads
        self.source = source
        self._checks = checks
        self._code = code
        self._before = before
        self._signature = Signature(kernel)
        self._data_facts = kernel.data_facts
        self.unproved: tuple[str, ...] = ()
        self._known: dict[object, ArgumentFit] = {}
        self._load = load if isinstance(address, int) and not has_flat(kernel) else None
        self._calls = 0
        self._entry: QuickEntry | None = None
        self._quick: Callable[..., object] | None = None
        parameters = [_C_TYPES[b.dtype.stored] if takes_value(b) else ctypes.c_void_p for b in kernel.arguments]
        steps = sum(len(b.steps) for b in kernel.arguments)
        sizes = [ctypes.c_int64] * (len(kernel.runtime_sizes) + steps)
        prototype = ctypes.CFUNCTYPE(ctypes.c_int32, *parameters, *sizes)
        self._function = prototype(address) if isinstance(address, int) else address

    def __call__(self, /, *arguments: object, **sizes: object) -> None:
        """Runs the kernel on all its arguments, in declared order or by name, in place."""
        if self._quick is not None:
            if self._before is not None:
                self._before()
            outcome = self._quick(*arguments) if not sizes else self._with_sizes(arguments, sizes)
            if outcome is None:
                return
            if outcome is not False:
                assert isinstance(outcome, int)
                raise self._failure(outcome)
        bound = self._bound(arguments, sizes)
        self._check_data(bound)
        self._call(bound.values)

    def bind(self, /, *arguments: object, **sizes: object) -> Callable[[], None]:
        """The same call with its arguments checked once, to be made any number of times. Data of which
        something is declared are looked at each time."""
        return _BoundCall(self, self._bound(arguments, sizes))

    def run(self, inputs: Mapping[str, object], /, **sizes: object) -> dict[str, Any]:
        """Runs the kernel on its `in` and `inout` arguments, given by name, and returns every `out` and `inout`
        in a new array each: a tensor of PyTorch where one was given, else one of NumPy. An `inout` may have any
        strides, since it is copied."""
        given_inputs(inputs)
        given = self._named(inputs)
        views: dict[str, View] = {}
        for buffer in self._signature.arrays:
            if buffer.role != "out":
                views[buffer.name] = view_of(buffer.name, given[buffer.name])
        views = split_views(self.kernel, views, sizes)
        for name, view in views.items():
            check_type(self.kernel.buffer(name), view)
        solved = solve(self.kernel, {name: view.shape for name, view in views.items()}, sizes)
        results: dict[str, np.ndarray] = {}
        for buffer in self._signature.arrays:
            if buffer.role != "in":
                results[buffer.name] = allocate(buffer, solved)
                if buffer.role == "inout":
                    results[buffer.name][...] = as_numpy(views[buffer.name], buffer.dtype.stored)
        self(*(results.get(buffer.name, given.get(buffer.name)) for buffer in self._signature.arguments), **sizes)
        results = {name: flattened(self.kernel.buffer(name), array) for name, array in results.items()}
        if any(of_torch(view.owner) for view in views.values()):
            return {n: as_tensor(array, self.kernel.buffer(n).dtype.accepted) for n, array in results.items()}
        return results

    @property
    def open_sizes(self) -> tuple[str, ...]:
        """The sizes that the shapes of `in` and `inout` arguments do not give: they are passed by name."""
        return results_of(self.kernel)[1]

    @property
    def results(self) -> Results:
        """A function from the shapes of all `in` and `inout` arrays, in declared order, and the open sizes by
        name, to the shape and the strides, in elements, of each `out` and `inout`. Whether the shapes fit, the
        call finds out. Numbers may be anything that has the arithmetic of integers, such as the symbolic sizes of
        PyTorch."""
        return results_of(self.kernel)[0]

    @public
    def empty(self, name: str, /, **sizes: object) -> np.ndarray:
        """A new array for the argument `name`, in its declared layout, its contents arbitrary."""
        buffer = self.kernel.buffer(name)
        if buffer.role == "tmp" or takes_value(buffer):
            what = "a temporary" if buffer.role == "tmp" else "a scalar"
            raise ArgumentError(f"{name} is {what} of kernel {self.kernel.name}: it takes no array", "no-array")
        return flattened(buffer, allocate(buffer, solve(self.kernel, {}, sizes)))

    def __repr__(self) -> str:
        unproved = f", unproved: {', '.join(self.unproved)}" if self.unproved else ""
        return f"<compiled kernel {self.kernel.name} for {self.target}, {self.threads} thread(s){unproved}>"

    def _bound(self, arguments: tuple[object, ...], sizes: Mapping[str, object]) -> BoundArguments:
        """The call that these arguments make, which are remembered when they are like earlier ones."""
        if not self._signature.names.isdisjoint(sizes):
            arguments, sizes = self._signature.by_name(arguments, sizes)
        bound = self._signature.bind(arguments, sizes, self._known)
        if not bound.is_known:
            if len(self._known) == MOST:
                self._known.clear()
            self._known[bound.fit.layouts] = bound.fit
        elif self._load is not None and not self._data_facts:
            if self._entry is None and self._calls == QUICK_AFTER:
                from dojoir.runtime.call.entry import entry_for

                self._entry = entry_for(self.kernel, self._function, self._load)
                self._load = self._load if self._entry is not None else None
                self._quick = None if self._entry is None else self._entry.call
            self._calls += 1
            if self._entry is not None:
                self._entry.remember(bound.values, arguments, bound.views, sizes, bound.fit)
        return bound

    def _with_sizes(self, arguments: tuple[object, ...], sizes: Mapping[str, object]) -> object:
        """The outcome of a quick call with sizes by name."""
        entry = self._entry
        assert entry is not None
        if not sizes.keys() <= self._signature.size_names:
            return False
        return entry.call(*arguments, *map(sizes.get, entry.names), entry.token)

    def trust(self) -> None:
        """Leaves out the checks of data that facts of the arguments ask for, from now on. `unproved` says
        which."""
        self.unproved = tuple(f"{buffer.name} {fact}" for buffer, fact in self.kernel.data_facts)
        self._data_facts = ()

    def _check_data(self, bound: BoundArguments) -> None:
        """Raises ArgumentError where the contents of an argument are not as is declared."""
        if self._data_facts:
            self._check_facts(self._data_facts, bound)

    def _check_facts(self, facts: Iterable[tuple[Buffer, DataFact]], bound: BoundArguments) -> None:
        views = {b.name: view for b, view in zip(self._signature.arrays, bound.views, strict=True)}
        numbers = dict(zip((b.name for b in self._signature.arguments), bound.values, strict=False))
        check_data(
            facts,
            lambda name: self._contents(name, views[name]) if name in views else np.asarray(numbers[name]),
            bound.fit.sizes,
        )

    def _contents(self, name: str, view: View) -> np.ndarray:
        """The content of an argument."""
        return as_numpy(view, self.kernel.buffer(name).dtype.stored)

    def _call(self, values: tuple[Number, ...]) -> None:
        if self._before is not None:
            self._before()
        status: int = self._function(*values)
        if status != OK:
            raise self._failure(status)

    def _failure(self, status: int) -> RunError:
        if status == OUT_OF_MEMORY:
            return RunError(
                f"kernel {self.kernel.name} had no memory for its temporaries: run it on smaller arrays, or give "
                f"them fewer dimensions (reuse_dims)",
                "out-of-memory",
            )
        check = self._checks[status - FIRST_CHECK]
        source, span = place(self.kernel, check.path)
        match check.fault:
            case "shift":
                code, message = "shift-out-of-range", "a shift is by too much, or by less than 0"
            case "divisor":
                code, message = "division-by-zero", "a divisor is 0"
            case "index":
                code, message = "index-out-of-range", "an index read from data is out of range"
        return RunError(
            Diagnostic(
                code,
                f"{message}: {check.text}",
                span,
                source,
                (Note("what the kernel wrote is not to be used"),),
            )
        )

    def _named(self, inputs: Mapping[str, object]) -> Mapping[str, object]:
        """The inputs, once every one is an argument that `run` takes and none is missing."""
        takes = [buffer.name for buffer in self.kernel.arguments if buffer.role != "out"]
        for name in inputs:
            if name not in takes:
                if any(buffer.name == name for buffer in self.kernel.arguments):
                    raise ArgumentError(f"{name} is an output: run returns it, do not pass it", "unknown-argument")
                raise ArgumentError(
                    f"kernel {self.kernel.name} has no argument '{name}'{did_you_mean(name, takes)}; "
                    f"run takes {', '.join(takes) or 'nothing'}",
                    "unknown-argument",
                )
        for buffer in self.kernel.arguments:
            if buffer.role != "out" and buffer.name not in inputs:
                raise ArgumentError(
                    f"argument {buffer.name} is missing: kernel {self.kernel.name} declares it {buffer.role}",
                    "missing-argument",
                )
        return inputs


class _BoundCall:
    """A call whose arguments fit. Keeps them alive."""

    __slots__ = ("_bound", "_compiled")

    def __init__(self, compiled: Compiled, bound: BoundArguments) -> None:
        self._compiled = compiled
        self._bound = bound

    def __call__(self) -> None:
        self._compiled._check_data(self._bound)
        self._compiled._call(self._bound.values)
