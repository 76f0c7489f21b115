"""Modules of PyTorch as kernels: exported, read, and called as the module is."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

import dojoir
import dojoir.torch.operator  # by which operators of PyTorch are pickled
from dojoir.torch.attention import WHOLE
from dojoir.torch.compiler import CompileBackend, plain_attention
from dojoir.torch.cutting import CutGraph, cut
from dojoir.torch.importer.graph import lower
from dojoir.torch.importer.operator_table import decompositions
from dojoir.torch.importer.program_runner import ProgramRunner
from dojoir.torch.importer.recurrent import KEPT_WHOLE, shapes_alone, steps_written_out
from dojoir.torch.scheduling import Spending

_ALONE: dict[str, Any] = {
    name: True for name in ("isolate_recompiles",) if name in inspect.signature(torch.compile).parameters
}
"""The options by which PyTorch counts the versions of a module by itself: else it refuses to compile more than
eight that share a `forward`."""


@dataclass(frozen=True)
class ImportOptions:
    """The settings that a module was imported with."""

    optimize: bool
    threads: int | None
    spending: Spending
    whole: bool


_SHARED = ("training", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
"""The attributes that an imported module shares with the one that it was made of."""

_transforming: Any = torch._C._are_functorch_transforms_active


def _leaves(args: Any, kwargs: Any) -> list[Any]:
    return pytree.tree_leaves((args, kwargs))


class Imported(torch.nn.Module):
    """A module as kernels: see `dojoir.torch.from_module`. It takes what the module takes, at the sizes of the
    example but for those that are open, and has the module's own parameters, by their names. Without gradients the
    kernels run one after the other; with gradients, what `torch.compile` makes of the module by the backend
    `dojoir`, where nothing is left to PyTorch. Where PyTorch traces it or transforms it (`torch.func`), and where
    there are no elements, it is the module itself.

    Copies and pickles keep the kernels, with their moves, and compile them again."""

    module: torch.nn.Module

    def __init__(
        self,
        module: torch.nn.Module,
        exported: Any,
        made: CutGraph,
        sources: list[Any],
        is_open: bool,
        options: ImportOptions,
    ) -> None:
        super().__init__()
        vars(self).update({"module": module, **{name: vars(module)[name] for name in _SHARED}})
        self._call, self._runners, self._is_open, self._options = made.call, made.runners, is_open, options
        self.left = made.left
        self._in_spec, self._out_spec = exported.call_spec.in_spec, exported.call_spec.out_spec
        self._sources = [None if isinstance(source, _Held) else source for source in sources]
        self._held = [(n, one) for n, one in enumerate(sources) if isinstance(one, _Held)]
        self._with_gradients: Any = None
        signature, nodes = exported.graph_signature, [n for n in exported.graph.nodes if n.op == "placeholder"]
        self._places = [n for n, source in enumerate(sources) if source is None]
        self._given = len(self._places)
        self._expected = [
            (n, _Expected.of(nodes[n].name, nodes[n].meta["val"]))
            for n in self._places
            if isinstance(nodes[n].meta.get("val"), torch.Tensor)
        ]
        self._changed = tuple(_changed(signature).items())
        self._names = [node.name for node in nodes]
        written = dict(self._changed)
        self._results = [number for number in range(len(signature.output_specs)) if number not in written]
        _, of_example = pytree.tree_flatten((tuple(range(self._given)), {}))
        self._is_flat = of_example == self._in_spec
        self._is_single = pytree.tree_flatten(0)[1] == self._out_spec

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_with_gradients": None}

    def train(self, mode: bool = True) -> Imported:
        self.module.train(mode)
        return super().train(mode)

    @property
    def text(self) -> str:
        """The kernels as they were written, before they are scheduled."""
        return "\n".join(runner.text for runner in self._runners)

    @property
    def kernels(self) -> list[dojoir.Kernel]:
        """The kernels as they run on the CPU."""
        return self.kernels_for("llvm")

    def traces(self, target: str = "llvm") -> list[dojoir.Trace]:
        """Of each kernel the moves that make what runs on a target, `llvm`, `cuda` or `hip`, of what was imported.
        The traces are copies: what is done to one counts once it is put back by `replace`. Raises what
        `dojoir.optimize` raises."""
        return [trace.copy() for runner in self._runners for trace in runner.traces(target)]

    def replace(self, trace: dojoir.Trace, target: str = "llvm") -> None:
        """Runs the last kernel of a trace from now on, where the module runs its first kernel without gradients:

            trace = imported.traces()[0]
            trace.apply("unroll(@k)")
            imported.replace(trace)

        Raises ArgumentError for a trace that begins with none of the module's kernels, or that has moves which were
        not proved (`unsafe`), and then changes nothing."""
        for runner in [one for one in self._runners if one.has(trace)] or self._runners[:1]:
            runner.replace(trace, target)

    def kernels_for(self, target: str) -> list[dojoir.Kernel]:
        """The kernels as they run on a target: `llvm`, `cuda` or `hip`. Raises what `dojoir.optimize` raises."""
        return [kernel for runner in self._runners for kernel in runner.kernels(target)]

    @property
    def kernel(self) -> dojoir.Kernel:
        """The text as a kernel, where the module is one. Raises ArgumentError where it is several."""
        parts = [part for runner in self._runners for part in runner.parts]
        if len(parts) != 1:
            raise dojoir.ArgumentError(
                f"the module is {len(parts)} kernels, not one: ask for kernels", "several-kernels"
            )
        return parts[0].kernel

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's results on tensors. Raises ArgumentError where they do not fit the example."""
        if torch.compiler.is_compiling() or _transforming() or forward_ad._current_level >= 0:
            return self.module(*args, **kwargs)
        if self._is_open and any(isinstance(t, torch.Tensor) and 0 in t.shape for t in _leaves(args, kwargs)):
            return self.module(*args, **kwargs)
        if torch.is_grad_enabled() and self._wants_gradients(args, kwargs):
            return self._trained()(*args, **kwargs)
        return self._run(args, kwargs)

    def _wants_gradients(self, args: Any, kwargs: Any) -> bool:
        if any(held.now.requires_grad for _, held in self._held):
            return True
        return any(isinstance(t, torch.Tensor) and t.requires_grad for t in _leaves(args, kwargs))

    def _trained(self) -> Any:
        if self._with_gradients is None:
            backend = CompileBackend(
                whole=self._options.whole, threads=self._options.threads, optimize=self._options.optimize,
                budget=self._options.spending.rest,
            )  # fmt: skip
            compiled: Any = torch.compile(
                self.module, backend=backend, fullgraph=True, dynamic=self._is_open, **_ALONE
            )
            if any(isinstance(part, torch.nn.RNNBase) for part in self.module.modules()):
                compiled = steps_written_out()(compiled)
            vars(self)["_with_gradients"] = compiled  # no module of this one
        return self._with_gradients

    def _run(self, args: Any, kwargs: Any) -> Any:
        if self._is_flat and not kwargs and len(args) == self._given:
            flat: Sequence[Any] = args
        else:
            flat, spec = pytree.tree_flatten((args, kwargs))
            if spec != self._in_spec:
                raise dojoir.ArgumentError(
                    f"the arguments are not those of the example: {spec} is not {self._in_spec}",
                    "bad-arguments",
                )
        inputs: list[Any] = list(self._sources)
        for number, held in self._held:
            inputs[number] = held.now
        for number, value in zip(self._places, flat, strict=True):
            inputs[number] = value
        for number, expected in self._expected:
            expected.check(inputs[number])
        if self._changed:
            self._check_apart(inputs)
        found = self._call(inputs)
        for number, target in self._changed:
            if found[number].data_ptr() == inputs[target].data_ptr():  # written where it is
                torch.autograd.graph.increment_version(inputs[target])
            else:
                inputs[target].copy_(found[number])
        if self._is_single:
            return found[self._results[0]]
        results = [found[number] for number in self._results]
        return pytree.tree_unflatten(results, self._out_spec)

    def _check_apart(self, inputs: Sequence[Any]) -> None:
        """Raises ArgumentError, `overlap`, where what the module writes has an element of another input: what is
        read there depends on when."""
        for _, target in self._changed:
            for number, other in enumerate(inputs):
                if number != target and isinstance(other, torch.Tensor) and _share(inputs[target], other):
                    raise dojoir.ArgumentError(
                        f"{self._names[target]} and {self._names[number]} share memory, and the module writes "
                        f"{self._names[target]}: pass a copy of one of them",
                        "overlap",
                    )


HARDEST = 100_000
"""How many cases the exact answer may look at: past that two tensors are taken to share."""


@dataclass(frozen=True)
class _Elements:
    """Where a tensor's elements lie, as NumPy reads it of any object."""

    __array_interface__: dict[str, Any]

    @classmethod
    def of(cls, x: torch.Tensor) -> np.ndarray:
        item = x.element_size()
        steps = tuple(step * item for step in x.stride())
        found = {"data": (x.data_ptr(), True), "shape": tuple(x.shape), "strides": steps, "typestr": f"|V{item}"}
        return np.asarray(cls({**found, "version": 3}))


def _share(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have an element in common."""
    if one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr() or not (
        one.numel() and other.numel()
    ):
        return False
    shares_memory: Any = np.shares_memory  # its stub knows two limits only
    try:
        return bool(shares_memory(_Elements.of(one), _Elements.of(other), max_work=HARDEST))
    except np.exceptions.TooHardError:
        return True


@dataclass(frozen=True)
class _Expected:
    """The requirements on an argument: its type, and its sizes; None for one that is open."""

    name: str
    dtype: torch.dtype
    shape: tuple[int | None, ...]

    @classmethod
    def of(cls, name: str, fake: torch.Tensor) -> _Expected:
        shape: Any = fake.shape
        return cls(name, fake.dtype, tuple(s if isinstance(s, int) else None for s in shape))

    def check(self, tensor: Any) -> None:
        """Raises ArgumentError, `bad-dtype` or `bad-shape`."""
        if isinstance(tensor, torch.Tensor) and tensor.shape == self.shape and tensor.dtype is self.dtype:
            return
        if not isinstance(tensor, torch.Tensor) or tensor.dtype != self.dtype or tensor.dim() != len(self.shape):
            raise dojoir.ArgumentError(
                f"argument {self.name} is {_kind(tensor)}, and was a {len(self.shape)}-dimensional tensor of "
                f"{self.dtype} in the example",
                "bad-dtype",
            )
        if tensor.shape == self.shape:
            return
        for d, (own, known) in enumerate(zip(tensor.shape, self.shape, strict=True)):
            if known is not None and own != known:
                raise dojoir.ArgumentError(
                    f"dimension {d} of argument {self.name} is {own}, and was {known} in the example: give "
                    f"dynamic= for sizes that stay open",
                    "bad-shape",
                )


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a {value.dim()}-dimensional tensor of {value.dtype}"
    return type(value).__name__


@dataclass(frozen=True)
class _Held:
    """A parameter or buffer where the module keeps it: the tensor there is another one when the module has been
    moved."""

    owner: dict[str, Any]
    kind: str
    name: str

    @classmethod
    def of(cls, module: torch.nn.Module, target: str) -> _Held | None:
        """None where the module has no such tensor."""
        path, _, name = target.rpartition(".")
        try:
            owner = vars(module.get_submodule(path))
        except AttributeError:
            return None
        kinds = (kind for kind in ("_parameters", "_buffers") if owner[kind].get(name) is not None)
        return next((cls(owner, kind, name) for kind in kinds), None)

    @property
    def now(self) -> torch.Tensor:
        made: torch.Tensor = self.owner[self.kind][self.name]
        return made


def import_module(
    module: torch.nn.Module,
    example_inputs: Sequence[Any],
    example_kwargs: Mapping[str, Any] | None,
    dynamic: Any,
    optimize: bool,
    threads: int | None,
    budget: float | None,
    whole: bool,
) -> Imported:
    """See `dojoir.torch.from_module`."""
    if isinstance(module, torch.export.ExportedProgram):
        module = module.module()
    if not isinstance(module, torch.nn.Module):
        raise dojoir.ArgumentError(
            f"from_module takes a torch.nn.Module, not {type(module).__name__}", "not-a-module"
        )
    if not isinstance(example_inputs, tuple | list):
        raise dojoir.ArgumentError(
            f"example_inputs is a tuple of arguments, not {type(example_inputs).__name__}", "bad-arguments"
        )
    try:
        with plain_attention(), shapes_alone(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's own, of what it is about to change
            exported = torch.export.export(
                module, tuple(example_inputs), dict(example_kwargs or {}), dynamic_shapes=dynamic, strict=False
            )
            exported = _decomposed(exported)
    except dojoir.DojoError:
        raise
    except Exception as error:  # whatever the module or PyTorch raises
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise dojoir.ArgumentError(f"PyTorch cannot export the module: {reason}", "no-export") from error
    names = {
        spec.arg.name: re.sub(r"\W", "_", spec.target.removeprefix("_lifted_tensor_constant"))
        for spec in exported.graph_signature.input_specs
        if spec.target
    }
    name = re.sub(r"\W", "_", type(module).__name__).lower() or "module"
    symbols, changed = _size_names(module, exported, dynamic), _changed(exported.graph_signature)
    options = ImportOptions(optimize, threads, Spending.of(budget), whole)
    opened: list[str] = []

    def runner(graph: Any, number: int) -> ProgramRunner:
        is_whole = graph is exported.graph
        lowered = lower(graph, names, symbols, changed if is_whole else {})
        opened.extend(lowered.sizes)
        return ProgramRunner(
            lowered, name if is_whole else f"{name}_{number}", facts=_facts(exported, lowered.size_names),
            optimize=optimize, threads=threads, spending=options.spending,
        )  # fmt: skip

    made = cut(exported.graph_module, runner, whole)
    made.told(name)
    return Imported(module, exported, made, _sources(module, exported), bool(opened), options)


def _changed(signature: Any) -> dict[int, int]:
    """The results that are new values of inputs, which the module writes: the number of each result, and that of
    the input."""
    names = [spec.arg.name for spec in signature.input_specs]
    targets = {spec.target: n for n, spec in enumerate(signature.input_specs) if spec.target}
    found: dict[int, int] = {}
    for number, spec in enumerate(signature.output_specs):
        match spec.kind.name:
            case "BUFFER_MUTATION":
                found[number] = targets[spec.target]
            case "USER_INPUT_MUTATION":
                found[number] = names.index(spec.target)
            case _:
                pass
    return found


def _decomposed(exported: Any) -> Any:
    """The program by simpler operators, with recurrent layers as they are. PyTorch's public way changes all
    operators that are made of others, to leave some as they are; to change those of KEPT_WHOLE alone takes a third
    of the time."""
    try:
        from torch.export.exported_program import _decompose_exported_program

        kept: dict[Any, Any] = {operator: lambda *_, **__: NotImplemented for operator in KEPT_WHOLE}
        return _decompose_exported_program(
            exported, cia_to_decomp=kept | WHOLE, python_decomp_table=decompositions(), joint_loss_index=None,
            decompose_custom_triton_ops=False,
        )  # fmt: skip
    except (ImportError, TypeError):  # another version of PyTorch
        return exported.run_decompositions(decompositions())


def _sources(module: torch.nn.Module, exported: Any) -> list[Any]:
    """For each input of the graph what the module holds, and where; None for what a call gives."""
    made: list[Any] = []
    for spec in exported.graph_signature.input_specs:
        match spec.kind.name:
            case "USER_INPUT":
                made.append(None)
            case "PARAMETER" | "BUFFER" | "CONSTANT_TENSOR":
                tensor = exported.constants.get(spec.target, exported.state_dict.get(spec.target))
                made.append(_Held.of(module, spec.target) or tensor)
            case kind:
                raise dojoir.ArgumentError(
                    f"the module takes {spec.arg.name} as {kind}, which no kernel does", "no-export"
                )
    return made


def _size_names(module: torch.nn.Module, exported: Any, dynamic: Any) -> dict[str, str]:
    """The user's names of dimensions, by the symbols that PyTorch has for them; none where they are not found."""
    if not dynamic:
        return {}
    given: Any = dynamic
    if isinstance(given, Mapping):
        order = inspect.signature(module.forward).parameters
        given = [given[name] for name in order if name in given]
    specs = [leaf for one in given for leaf in pytree.tree_leaves(one, is_leaf=_is_of_dims)]
    nodes = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    values = [nodes[name].meta.get("val") for name in exported.graph_signature.user_inputs if name in nodes]
    if len(specs) != len(values):
        return {}
    found: dict[str, str] = {}
    for spec, value in zip(specs, values, strict=True):
        if not isinstance(value, torch.Tensor) or spec is None:
            continue
        shape: Any = value.shape
        for d, dim in spec.items() if isinstance(spec, Mapping) else enumerate(spec):
            name, extent = getattr(dim, "__name__", None), shape[d]
            if isinstance(name, str) and isinstance(extent, torch.SymInt) and extent.node.expr.is_Symbol:
                found.setdefault(str(extent.node.expr), name)
    return found


def _is_of_dims(spec: Any) -> bool:
    """Whether it says the dimensions of one tensor."""
    if isinstance(spec, Mapping):
        return all(isinstance(d, int) for d in spec)
    if isinstance(spec, tuple | list):
        return not any(isinstance(one, tuple | list | Mapping) for one in spec)
    return True


def _facts(exported: Any, names: Mapping[str, str]) -> dict[str, tuple[int, int | None]]:
    """The least and the largest value of each open size."""
    made: dict[str, tuple[int, int | None]] = {}
    for symbol, limits in exported.range_constraints.items():
        low, high = limits.lower, limits.upper
        top = int(high) if getattr(high, "is_Integer", False) and int(high) < 2**31 else None
        made[names.get(str(symbol), str(symbol))] = (int(low) if getattr(low, "is_Integer", False) else 1, top)
    return made
