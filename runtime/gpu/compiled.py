"""A kernel compiled for a GPU: callable on arrays there, as part of a stream."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dojoir.codegen.lir.outcome import OK, Check
from dojoir.errors import ArgumentError, ToolchainError
from dojoir.ir.nodes import Buffer, Kernel
from dojoir.meaning.sizes import solve
from dojoir.runtime.call.arguments import Signature, check_type
from dojoir.runtime.call.bound import BoundArguments
from dojoir.runtime.call.compiled import Compiled
from dojoir.runtime.call.layout import array_shape, strides_of
from dojoir.runtime.call.scalars import Number, takes_value
from dojoir.runtime.call.tensors import TORCH, as_tensor, of_torch
from dojoir.runtime.call.views import View, as_numpy, split_views, view_of
from dojoir.runtime.gpu.array import DeviceArray, array_for
from dojoir.runtime.gpu.calls import Loaded, Ready, lane_of, needs_memory
from dojoir.runtime.gpu.data_facts import DataFacts
from dojoir.runtime.gpu.driver import Driver, Resources
from dojoir.runtime.gpu.plan import HostCode
from dojoir.runtime.gpu.prepared import Prepared, Start, starter
from dojoir.runtime.gpu.streams import StreamNow, current_stream, handle_of
from dojoir.runtime.gpu.views import Viewer

if TYPE_CHECKING:
    from dojoir.runtime.call.entry import Load

MOST_CALLS = 64
"""How many calls are remembered, each with its launches."""


class BuildVersion(NamedTuple):
    """How a kernel is built. `narrow`: without wide accesses, for arrays that do not begin where these need it;
    `short`: counting in 32 bits, for sizes at which no number needs more."""

    narrow: bool
    short: bool


Variant = Callable[[int, BuildVersion], tuple[HostCode, tuple[int, ...]]]
"""A version of the kernel on a device: its host code and the handles of its kernels."""


class DeviceCompiled(Compiled):
    """A kernel as code of a GPU, called as `Compiled` says, on arrays that are there: tensors of PyTorch, arrays
    of CuPy, what has `__dlpack__` or `__cuda_array_interface__`. A call returns once its launches are in the
    current stream of PyTorch or CuPy, where an array is theirs, or in the one that `stream=` names; a later one
    waits for it. An index read from data is checked too, for which such a kernel waits; while a graph is captured
    it cannot. What is declared of data is checked at each call, unless it is compiled with `checked=False`: on the
    GPU, or on a copy where that tells nothing (`dojoir.runtime.gpu.data_facts`).

    `run` takes arrays of the CPU too, and then returns such.
    """

    __slots__ = (
        "_asked", "_driver", "_first", "_grown", "_host", "_loaded", "_loader", "_made", "_starter", "_stream",
        "_variant",
    )  # fmt: skip

    def __init__(
        self,
        kernel: Kernel,
        target: str,
        source: str,
        driver: Driver,
        host: HostCode,
        variant: Variant,
        asked: DataFacts | None = None,
    ) -> None:
        super().__init__(kernel, target, 1, source, self._no_function, None, host.program.program.checks)
        self._signature = Signature(kernel, Viewer(target))
        self._driver, self._asked = driver, asked
        self._variant = variant
        self._host = host
        self._loaded: dict[tuple[int, BuildVersion], Loaded] = {}
        self._made: dict[tuple[tuple[Number, ...], tuple[object, int]], tuple[Loaded, Ready]] = {}
        self._grown, self._stream = 0, 0
        self._loader: Load | None = None
        self._starter: tuple[Start, object] | None = None
        first = BuildVersion(narrow=False, short=host.shortened is not host)  # what most calls are for
        self._first = first
        self._load_on(driver.in_use(), first)  # so that what is wrong with it is found now

    @staticmethod
    def _no_function(*values: Number) -> int:
        raise AssertionError("a kernel of a GPU is started by launches")

    def __call__(self, /, *arguments: object, **sizes: object) -> None:
        """Starts the kernel on all its arguments, in declared order or by name, in place."""
        stream, sizes = self._stream_of(sizes)
        bound = self._bound(arguments, sizes)
        device = self._use(bound)
        handle = self._handle(stream, bound, device)
        self._check_data(bound, handle)
        self._start(*self._prepared(bound, device, handle), handle)

    def bind(self, /, *arguments: object, **sizes: object) -> Callable[[], None]:
        """The same call with its arguments checked once, to be made any number of times, each in the stream that
        is current then."""
        stream, sizes = self._stream_of(sizes)
        bound = self._bound(arguments, sizes)
        device = self._use(bound)
        now: StreamNow = (
            current_stream((view.owner for view in bound.views), device)
            if stream is None
            else functools.partial(handle_of, stream)
        )
        return _BoundLaunches(self, bound, device, now)

    def graph(self, /, *arguments: object, **sizes: object) -> Callable[[], None]:
        """The launches of a call as one graph, which costs as much to start as one launch. What it returns starts
        it."""
        stream, sizes = self._stream_of(sizes)
        bound = self._bound(arguments, sizes)
        device = self._use(bound)
        if self._data_facts:
            raise self._not_checked()
        own = self._driver.new_stream()
        loaded, launches = self._prepare(bound, device, own, own=True)
        self._driver.capture(own)
        try:
            loaded.run(launches, own)
        finally:
            graph = self._driver.captured(own)
        now = current_stream((view.owner for view in bound.views), device)
        at = now if stream is None else functools.partial(handle_of, stream)
        return _Graph(self._driver, graph, at, (bound, loaded, launches))

    def load_with(self, load: Load) -> None:
        """Has `prepared` start its launches by machine code, which `load` makes."""
        self._loader = load

    def prepared(self, values: Mapping[str, Number], device: int = 0) -> Prepared | None:
        """The calls on a device with these sizes and scalars, by name, of which only addresses change. None where
        each call has more to check: facts on data."""
        if self._data_facts or any(buffer.strided for buffer in self.kernel.arguments):
            return None
        if self._starter is None and self._loader is not None:
            try:
                self._starter = starter(self._loader)
            except ToolchainError:  # no LLVM here
                self._loader = None
        self._driver.use(device)
        sizes = {name: int(values[name]) for name in self.kernel.runtime_sizes}
        loaded = self._load_on(device, BuildVersion(narrow=False, short=self._host.is_short(sizes)))
        names = [buffer.name for buffer in self._signature.arrays]
        given = {name: value for name, value in values.items() if name not in sizes}
        plan = loaded.plan({**given, **sizes})
        return Prepared(
            self._driver, device, loaded.host, loaded.functions, plan, names, self._failure, self._starter
        )  # fmt: skip

    def prepared_like(self, /, *arguments: object, **sizes: object) -> Prepared | None:
        """The calls like this one, of which only addresses change."""
        bound = self._bound(arguments, sizes)
        names = [buffer.name for buffer in self._signature.arguments]
        arrays = {buffer.name for buffer in self._signature.arrays}
        given = {name: value for name, value in zip(names, bound.values, strict=False) if name not in arrays}
        given |= zip(self.kernel.runtime_sizes, bound.values[len(names) :], strict=False)
        return self.prepared(given, self._use(bound))

    def run(self, inputs: Mapping[str, object], /, **sizes: object) -> dict[str, Any]:
        """Runs the kernel on its `in` and `inout` arguments, given by name, and returns every `out` and `inout` in
        a new array each, where the inputs are. In the memory of the CPU, of a tensor's device as tensors, else on
        the GPU as arrays that other libraries take."""
        given = self._named(inputs)
        stream, sizes = self._stream_of(sizes)
        arrays = [buffer for buffer in self._signature.arrays if buffer.role != "out"]
        on_host = all(_on_host(given[buffer.name]) for buffer in arrays)
        viewer = view_of if on_host else self._signature.view
        views = {buffer.name: viewer(buffer.name, given[buffer.name]) for buffer in arrays}
        views = split_views(self.kernel, views, sizes)
        for buffer in arrays:
            check_type(buffer, views[buffer.name])
        solved = solve(self.kernel, {name: view.shape for name, view in views.items()}, sizes)
        if on_host:
            return self._run_from_host(given, views, solved, sizes, stream)
        device = self._same_device(views.values())
        self._driver.use(device)
        owners = [view.owner for view in views.values()]
        now = current_stream(owners, device) if stream is None else functools.partial(handle_of, stream)
        made: dict[str, Any] = {}
        for buffer in self._signature.arrays:
            if buffer.role != "in":
                made[buffer.name] = self._result(buffer, solved, owners)
                if buffer.role == "inout":
                    self._copy(buffer, made[buffer.name], views[buffer.name], now())
        self(
            *(made.get(buffer.name, given.get(buffer.name)) for buffer in self._signature.arguments),
            **sizes,
            **({} if stream is None else {"stream": stream}),
        )
        for array in made.values():
            if isinstance(array, DeviceArray):
                array.stream = now()
        return made

    def empty(self, name: str, /, **sizes: object) -> Any:
        """A new array on the GPU for the argument `name`, in its declared layout, its contents arbitrary."""
        buffer = self.kernel.buffer(name)
        if buffer.role == "tmp" or takes_value(buffer):
            what = "a temporary" if buffer.role == "tmp" else "a scalar"
            raise ArgumentError(f"{name} is {what} of kernel {self.kernel.name}: it takes no array", "no-array")
        return self._new(buffer, solve(self.kernel, {}, sizes))

    def __repr__(self) -> str:
        return f"<compiled kernel {self.kernel.name} for {self.target}>"

    @property
    def driver(self) -> Driver:
        """Of the GPU that it is compiled for."""
        return self._driver

    @property
    def checks(self) -> tuple[Check, ...]:
        """The meaning of a status above 1."""
        return self._checks

    def run_at(self, arrays: Mapping[str, int], values: Mapping[str, Number]) -> int:
        """Runs the kernel on arrays at addresses of the device in use, by name, in the default stream; gives its
        status."""
        sizes = {name: int(values[name]) for name in self.kernel.runtime_sizes}
        loaded = self._fitting(arrays, sizes, self._driver.in_use(), 0)
        return loaded.run(loaded.prepare(arrays, values, 0), 0)

    # -- run: where results are ---------------------------------------------------------------------------------
    def _run_from_host(
        self,
        given: Mapping[str, object],
        views: Mapping[str, View],
        solved: Mapping[str, int],
        sizes: Mapping[str, object],
        stream: object | None,
    ) -> dict[str, Any]:
        handle = 0 if stream is None else handle_of(stream)
        arguments: dict[str, object] = dict(given)
        for buffer in self._signature.arrays:
            new = self._new(buffer, solved)
            if buffer.role != "out":
                new.put(as_numpy(views[buffer.name], buffer.dtype.stored), handle)
            arguments[buffer.name] = new
        self(*(arguments[buffer.name] for buffer in self._signature.arguments), stream=handle, **sizes)
        results: dict[str, Any] = {}
        for buffer in self._signature.arrays:
            if buffer.role != "in":
                array = arguments[buffer.name]
                assert isinstance(array, DeviceArray)
                array.stream = handle
                results[buffer.name] = array.numpy()
        if any(of_torch(view.owner) for view in views.values()):
            return {n: as_tensor(array, self.kernel.buffer(n).dtype.accepted) for n, array in results.items()}
        return results

    def _new(self, buffer: Buffer, sizes: Mapping[str, int]) -> DeviceArray:
        return array_for(self._driver, buffer, sizes)

    def _result(self, buffer: Buffer, sizes: Mapping[str, int], owners: Sequence[Any]) -> Any:
        """A new array for a result: a tensor where one was given."""
        tensor: Any = next(filter(of_torch, owners), None)
        if tensor is None:
            return self._new(buffer, sizes)
        torch: Any = sys.modules["torch"]
        kind = next(name for name in reversed(buffer.dtype.accepted) if name in TORCH)
        shape, strides = array_shape(buffer, sizes), strides_of(buffer, sizes)
        device = (tensor[0] if isinstance(tensor, tuple) else tensor).device
        return torch.empty_strided(shape, strides, dtype=getattr(torch, kind), device=device)

    def _copy(self, buffer: Buffer, to: Any, view: View, stream: int) -> None:
        """The values that an `inout` has at first."""
        if not isinstance(to, DeviceArray):
            to.copy_(view.owner[0] if isinstance(view.owner, tuple) else view.owner)
        elif view.strides != to.strides:
            raise ArgumentError(
                f"argument {buffer.name} has strides {list(view.strides)} in bytes, and must have "
                f"{list(to.strides)}",
                "bad-stride",
            )
        else:
            to.copy_from(view.address, stream)

    def resources(self) -> tuple[Resources, ...]:
        """The resources of each kernel of the device, as it is loaded for most calls on the device in use."""
        loaded = self._load_on(self._driver.in_use(), self._first)
        return tuple(
            self._driver.resources(function, entry.name, entry.threads, entry.shared_bytes)
            for function, entry in zip(loaded.functions, loaded.host.entries, strict=True)
        )

    def _check_data(self, bound: BoundArguments, stream: int = 0) -> None:
        if not self._data_facts:
            return
        if self._driver.recording(stream):
            raise self._not_checked()
        self._stream = stream
        asked, device = self._asked, self._driver.in_use()
        assert asked is not None
        views = dict(zip((b.name for b in self._signature.arrays), bound.views, strict=True))
        places = max((n for view in bound.views for n in view.shape), default=0)
        unknown = [
            (buffer, fact)
            for buffer, fact in self._data_facts
            if buffer.name not in views
            or not asked.knows(buffer, fact, views[buffer.name], bound.fit.sizes, places, device, stream)
        ]
        self._check_facts(unknown, bound)

    def _contents(self, name: str, view: View) -> np.ndarray:
        """A copy on the CPU of what is in an argument when all before it in the stream has run."""
        item = self.kernel.buffer(name).dtype.itemsize
        size = item + sum((n - 1) * step for n, step in zip(view.shape, view.strides, strict=True))
        memory = np.empty(size, np.uint8)
        self._driver.to_host(memory.ctypes.data, view.address, size, self._stream)
        self._driver.wait(self._stream)
        return np.ndarray(view.shape, self.kernel.buffer(name).dtype.stored, memory.data, strides=view.strides)

    def _not_checked(self) -> ArgumentError:
        declared = ", ".join(f"{buffer.name} {fact}" for buffer, fact in self._data_facts)
        return ArgumentError(
            f"{self.kernel.name} checks at each call that data are as declared ({declared}), which a graph that "
            f"was recorded does not: compile it with checked=False, if that is known",
            "checks-recorded",
        )

    # -- starting it --------------------------------------------------------------------------------------------
    def _stream_of(self, sizes: Mapping[str, object]) -> tuple[object | None, dict[str, object]]:
        """The stream that a call names, and the sizes; a size or argument may be called stream too."""
        rest = dict(sizes)
        if "stream" in rest and "stream" not in {*self._signature.size_names, *self._signature.names}:
            return rest.pop("stream"), rest
        return None, rest

    def _use(self, bound: BoundArguments) -> int:
        """The device of the arrays, which is in use from now on."""
        device = self._same_device(bound.views)
        if device != self._driver.in_use():
            self._driver.use(device)
        return device

    def _same_device(self, views: Any) -> int:
        if self._driver.devices == 1:
            return 0
        found = {self._driver.device_of(view.address) for view in views if view.address}
        if len(found) > 1:
            message = f"the arguments of {self.kernel.name} are on several GPUs ({sorted(found)}): move them to one"
            raise ArgumentError(message, "other-device")
        return found.pop() if found else self._driver.in_use()

    def _handle(self, stream: object | None, bound: BoundArguments, device: int) -> int:
        if stream is not None:
            return handle_of(stream)
        return current_stream((view.owner for view in bound.views), device)()

    def _prepared(self, bound: BoundArguments, device: int, stream: int) -> tuple[Loaded, Ready]:
        """The launches of a call in a stream."""
        key = bound.values, self._place_of(stream)
        made = self._made.get(key)
        if made is None:
            made = self._prepare(bound, device, stream)
            grown = sum(loaded.grown for loaded in self._loaded.values())
            if grown != self._grown or len(self._made) >= MOST_CALLS:
                self._grown = grown
                self._made.clear()  # they keep memory that calls have no use for now
            self._made[key] = made
        return made

    def _place_of(self, stream: int) -> tuple[object, int]:
        """The key of the memory that two calls of a kernel share: the stream, and the recording that its work goes
        into."""
        program = self._host.program
        return lane_of(stream), self._driver.recording(stream) if needs_memory(program) else 0

    def _prepare(self, bound: BoundArguments, device: int, stream: int, own: bool = False) -> tuple[Loaded, Ready]:
        arguments = self._signature.arguments
        given = dict(zip((buffer.name for buffer in arguments), bound.values, strict=False))
        arrays = {buffer.name: int(given[buffer.name]) for buffer in self._signature.arrays}
        scalars = {name: value for name, value in given.items() if name not in arrays}
        sizes = dict(zip(self.kernel.runtime_sizes, bound.values[len(arguments) :], strict=True))
        loaded = self._fitting(arrays, {name: int(size) for name, size in sizes.items()}, device, stream)
        return loaded, loaded.prepare(arrays, {**scalars, **sizes}, stream, own=own)

    def _fitting(self, arrays: Mapping[str, int], sizes: Mapping[str, int], device: int, stream: int) -> Loaded:
        """The kernel with wide accesses where the arrays begin as these need it, counting in 32 bits where the
        sizes let it. Raises ArgumentError where it would have to be loaded while the stream is recorded, and that
        cannot be."""
        wide = self._host.program.wide
        narrow = any(arrays.get(name, 0) % alignment for name, alignment in wide.items())
        version = BuildVersion(narrow, self._host.is_short(sizes))
        if self._driver.loads_while_recording or not self._driver.recording(stream):
            return self._load_on(device, version)
        name = self.kernel.name
        if needs_memory(self._host.program):
            message = (
                f"{name} takes memory on the device for its temporaries, which {self.target} refuses while a "
                f"stream is recorded: take compiled.graph, which records a call on memory of its own"
            )
            raise ArgumentError(message, "memory-recorded")
        if (device, version) not in self._loaded:
            message = (
                f"the first call of {name} with such arguments loads its code, which {self.target} refuses while a "
                f"stream is recorded: call it once before, or take compiled.graph"
            )
            raise ArgumentError(message, "first-call-recorded")
        return self._load_on(device, version)

    def loaded_on(self, device: int) -> Loaded:
        """The kernel on a device, for arrays that begin anywhere."""
        return self._load_on(device, BuildVersion(narrow=True, short=False))

    def _load_on(self, device: int, version: BuildVersion) -> Loaded:
        key = device, version
        if key not in self._loaded:
            host, functions = self._variant(device, version)
            self._loaded[key] = Loaded(self.kernel, host, self._driver, functions)
        return self._loaded[key]

    def _start(self, loaded: Loaded, ready: Ready, stream: int) -> None:
        status = loaded.run(ready, stream)
        if status != OK:
            raise self._failure(status)


class _BoundLaunches:
    """A call whose arguments fit. Keeps them alive."""

    __slots__ = ("_bound", "_compiled", "_device", "_made", "_now")

    def __init__(self, compiled: DeviceCompiled, bound: BoundArguments, device: int, now: StreamNow) -> None:
        self._compiled, self._bound, self._device, self._now = compiled, bound, device, now
        self._made = self._made_for(now())

    def _made_for(self, stream: int) -> tuple[tuple[object, int], Loaded, Ready]:
        loaded, launches = self._compiled._prepare(self._bound, self._device, stream)
        return self._compiled._place_of(stream), loaded, launches

    def __call__(self) -> None:
        stream = self._now()
        self._compiled._check_data(self._bound, stream)
        place, loaded, launches = self._made
        if self._compiled._place_of(stream) != place:
            self._made = place, loaded, launches = self._made_for(stream)
        self._compiled._start(loaded, launches, stream)


class _Graph:
    """A graph that is ready to run. `kept` is what it works on."""

    __slots__ = ("_driver", "_graph", "_kept", "_now")

    def __init__(self, driver: Driver, graph: int, now: StreamNow, kept: object) -> None:
        self._driver, self._graph, self._now, self._kept = driver, graph, now, kept

    def __call__(self) -> None:
        self._driver.replay(self._graph, self._now())


def _on_host(value: object) -> bool:
    """Whether an array is in the memory of the CPU."""
    if isinstance(value, np.ndarray):
        return True
    device = getattr(value, "__dlpack_device__", None)
    return device is not None and int(device()[0]) in (1, 3, 11)
