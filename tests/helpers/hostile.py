"""Hostile values: what a caller may pass by mistake or on purpose, for every public name and method.

`surfaces()` is every callable that a user reaches through `import dojoir`; `call(surface, random)` calls one with
right arguments of which one or two were replaced. Only the `DojoError` family may come out, with a known code.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import itertools
import tempfile
import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from hostile_values import JUNK, PAIR
from listed import public_values

import dojoir
from dojoir.backends.backend import Backend
from dojoir.codes import CODES
from dojoir.errors import Diagnostic
from dojoir.runtime import Measurement, PythonCode

SLOW = frozenset(
    {"verify", "measure", "measure_together", "write_library", "ceilings", "doctor", "optimize", "tune"}
)
"""What starts processes or takes long where nothing is wrong with what it is given."""


@cache
def codes() -> frozenset[str]:
    return frozenset(CODES)


@cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="dojoir-attack-"))


@cache
def compiled() -> dojoir.Compiled:
    return dojoir.compile(dojoir.parse(PAIR), threads=1)


@cache
def measurement() -> Measurement:
    return dojoir.measure(dojoir.parse(PAIR), N=64, budget=0.01, with_ceilings=False, threads=1)


def trace() -> dojoir.Trace:
    return dojoir.Trace(dojoir.parse(PAIR)).then("split(@i, 4)")


def saved() -> str:
    path = folder() / "saved.json"
    if not path.exists():
        trace().save(path)
    return str(path)


def text_file(name: str, text: str) -> str:
    path = folder() / name
    path.write_text(text)
    return str(path)


RIGHT: dict[str, Callable[[], Any]] = {
    "function": lambda: len,
    "commented_text.source": lambda: dojoir.parse(PAIR).source,
    "kernel": lambda: dojoir.parse(PAIR),
    "check_with.way": lambda: "core",
    "made_for": lambda: "a test",
    "make": lambda: lambda: dojoir.Trace(dojoir.parse(PAIR)),
    "before": lambda: dojoir.parse(PAIR),
    "against": lambda: dojoir.parse(PAIR),
    "move": lambda: "split(@i, 4)",
    "trace": trace,
    "text": lambda: PAIR,
    "path": lambda: "0",
    "place": lambda: "0",
    "depth_of.path": lambda: (0, 0),
    "target": lambda: "llvm",
    "load.path": lambda: text_file("pair.dojo", PAIR),
    "Trace.load.path": saved,
    "Trace.save.path": lambda: str(folder() / "out.json"),
    "Trace.from_json.data": lambda: trace().to_json(),
    "load_passes.path": lambda: text_file("passes.py", "def halve(trace):\n    trace.apply('split(0, 2)')\n"),
    "write_file.path": lambda: str(folder() / "file"),
    "content": lambda: "text",
    "folder": lambda: str(folder() / "library"),
    "key": lambda: dojoir.build.argmax_key(1, 2),
    "parse_move.text": lambda: "split(0, 4)",
    "parse_pipeline.text": lambda: "split(0, 4)",
    "inputs": lambda: {"x": np.ones(8, np.float32)},
    "seconds": lambda: 0.1,
    "name": lambda: "x",
    "mode": lambda: 0o644,
    "fp.mode": lambda: "strict",
    "with_fp.mode": lambda: "strict",
    "slow": measurement,
    "fast": measurement,
    "run": lambda: lambda trace: None,
    "kernels": lambda: [dojoir.parse(PAIR)],
    "contestants": lambda: [dojoir.parse(PAIR)],
    "verdict": lambda: dojoir.check(dojoir.parse(PAIR), "split(@i, 4)"),
    "machine": lambda: dojoir.machine_for("c"),
    "buffer": lambda: dojoir.parse(PAIR).buffer("t"),
    "sizes": lambda: {"N": 8},
    "largest": lambda: {"N": 8},
    "write_library.sizes": lambda: {"pair": {"N": 8}},
    "threads": lambda: 1,
    "budget": lambda: 0.01,
    "time_limit": lambda: 20.0,
    "with_ceilings": lambda: False,
    "doctor.measure": lambda: False,
    "check": lambda: False,
    "seeds": lambda: 1,
    "at.threads": lambda: 1,
    "distributions": lambda: ("uniform",),
    "numbers": lambda: (2, 4),
    "diagnostic": lambda: "wrong",
    "dtype": lambda: "f32",
    "op": lambda: "+=",
    "extent": lambda: 4,
    "arguments": lambda: {"x": np.ones(8, np.float32)},
    "target_of": lambda: None,
    "code": lambda: "bad-arguments",
    "again": lambda: False,
    "node": lambda: dojoir.parse(PAIR).at("0"),
    "backward": lambda: None,
    "module": lambda: importlib.import_module("torch").nn.ReLU(),
    "example_inputs": lambda: (importlib.import_module("torch").ones(3),),
    "pattern": lambda: PAIR,
    "value": lambda: 1,
    "x": lambda: 1,
    "a": lambda: 1,
    "b": lambda: 2,
    "c": lambda: 3,
    "condition": lambda: dojoir.build.ne(1, 2),
    "Compiled.source": lambda: "",
    "Compiled.address": lambda: lambda *numbers: 0,
    "Compiled.code": lambda: None,
    "Backend.target": lambda: "",
    "op.schedule": lambda: None,
    "rng": lambda: Random(0),
    "draw.count": lambda: 2,
    "draw.weights": lambda: {"split": 1.0},
    "reference": lambda: dojoir.parse(PAIR),
    "tune.budget": lambda: dojoir.Budget(states=2),
    "tune.strategy": lambda: "random",
    "tune.timer": lambda: "static",
    "tune.store": lambda: None,
    "tune.options": dict,
    "bottleneck.measurement": measurement,
    "profile.measurement": measurement,
    "profile.ncu": lambda: None,
}
"""A right value for each parameter, by its name or by the name of what has it and its own."""


@dataclass(frozen=True)
class Surface:
    """Something to call: its name for a person, how to get it, and its signature."""

    name: str
    get: Callable[[], Callable[..., Any]]
    signature: inspect.Signature
    is_class: bool = False

    def right(self, parameter: str) -> Any:
        names = self.name.split(".")
        for key in (f"{self.name}.{parameter}", f"{names[-1]}.{parameter}", parameter):
            if key in RIGHT:
                return RIGHT[key]()
        if self.is_class and self.name in SAMPLES:
            return getattr(SAMPLES[self.name](), parameter, KeyError)
        return KeyError


VALUES: dict[str, Callable[[], Any]] = {
    "Kernel": lambda: dojoir.parse(PAIR),
    "Trace": trace,
    "Compiled": compiled,
    "Verdict": lambda: dojoir.check(dojoir.parse(PAIR), "split(@none, 4)"),
    "Move": lambda: dojoir.parse_move("split(@i, 4)"),
    "Pass": lambda: dojoir.PASSES["simplify"],
    "Match": lambda: dojoir.one(dojoir.parse(PAIR), "@i"),
    "Measurement": measurement,
    "Machine": lambda: dojoir.machine_for("llvm"),
    "Diagnostic": lambda: Diagnostic("x", "y"),
    "Query": lambda: None,
    "Ceilings": lambda: None,
    "Doctor": lambda: dojoir.doctor(measure=False),
    "PythonCode": lambda: PythonCode("x + 1"),
    "Library": lambda: None,
    "Builder": lambda: dojoir.build.kernel("k", "N"),
    "Cost": lambda: dojoir.cost(dojoir.parse(PAIR)),
    "DojoError": lambda: dojoir.DojoError("wrong"),
    "IllegalMove": lambda: None,
    "MoveType": lambda: type(dojoir.parse_move("split(@i, 4)")),
}
"""A value of each public type; None for those whose making takes long and whose methods another type has."""

SAMPLES: dict[str, Callable[[], Any]] = VALUES | {
    "Backend": lambda: Backend("mine", "a target", "module:emit"),
    "IllegalMove": lambda: dojoir.IllegalMove(dojoir.check(dojoir.parse(PAIR), "split(@none, 4)")),
}
"""What a constructor gets where only one of its arguments is wrong: what a value of the class has."""

INNER = frozenset(
    {"with_traceback", "add_note", "KIND", "rewritten", "back", "listed", "numbered", "more"}
)  # fmt: skip
"""Methods that no user calls: those of every exception, and what a family of moves says to its engine, which asks
whether its kernel is one."""


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


@cache
def surfaces() -> tuple[Surface, ...]:
    """Every public callable: functions, constructors, methods of a value of each type, functions of the modules."""
    found: dict[str, Surface] = {}

    def add(name: str, get: Callable[[], Any], is_class: bool = False) -> None:
        signature = _signature(get())
        if signature is not None:
            found[name] = Surface(name, get, signature, is_class)

    for name, value in public_values().items():
        if name == "torch" and importlib.util.find_spec("torch") is None:
            continue  # its arguments are modules and tensors
        if isinstance(value, types.ModuleType):
            public = getattr(value, "__all__", [n for n, f in vars(value).items() if inspect.isfunction(f)])
            for inner in public:
                function = getattr(value, inner)
                if (
                    not inner.startswith("_")
                    and inspect.isfunction(function)
                    and function.__module__.startswith("dojoir")
                ):
                    add(f"{name}.{inner}", lambda f=function: f)
        elif inspect.isclass(value):
            add(name, lambda f=value: f, True)
        elif callable(value) and not isinstance(value, types.UnionType):
            add(name, lambda f=value: f)
    for name, make in VALUES.items():
        sample = make()
        if sample is None:
            continue
        for inner in dir(type(sample)) if not isinstance(sample, type) else ("candidates", "space", "with_numbers"):
            if (inner.startswith("_") and inner not in {"__call__"}) or inner in INNER:
                continue
            if callable(getattr(sample, inner, None)) and not isinstance(
                getattr(type(sample), inner, None), property
            ):
                add(f"{name}.{inner}", lambda m=make, i=inner: getattr(m(), i))
    return tuple(found.values())


CALLS = {"Trace.kept": "make"}
"""Parameters that are called, whose own errors are their caller's: their docstrings say so."""


def unknown_parameters() -> list[str]:
    """The parameters without a default for which there is no right value here."""
    return [
        f"{surface.name}({p.name})"
        for surface in surfaces()
        for p in surface.signature.parameters.values()
        if not surface.is_class and p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        if surface.right(p.name) is KeyError
    ]


@dataclass(frozen=True)
class Call:
    """One call: of what, and which junk stands for which parameter."""

    surface: Surface
    junk: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.surface.name}({', '.join(f'{name}={value}' for name, value in self.junk)})"

    def run(self) -> str | None:
        """What is wrong with what came of it, or None."""
        args, named = self._arguments()
        function = self.surface.get()
        try:
            self.surface.signature.bind(*args, **named)
        except TypeError:
            return None
        try:
            result = function(*args, **named)
            if isinstance(result, types.GeneratorType):
                list(itertools.islice(result, 50))
            if not self.surface.is_class:
                repr(result)
        except dojoir.DojoError as error:
            return clear(error)
        except Exception as error:
            if self.surface.name in CALLS and CALLS[self.surface.name] in dict(self.junk):
                return None
            return f"{type(error).__name__}: {str(error)[:200]}"
        return None

    def _arguments(self) -> tuple[list[Any], dict[str, Any]]:
        junk = {name: JUNK[value]() for name, value in self.junk}
        args: list[Any] = []
        named: dict[str, Any] = {}
        for before, p in enumerate(self.surface.signature.parameters.values()):
            value = junk[p.name] if p.name in junk else self.surface.right(p.name)
            if p.kind is p.VAR_POSITIONAL:
                args += [value] if p.name in junk else self._several()
            elif p.kind is p.VAR_KEYWORD:
                named |= (
                    {("align" if self.surface.name.startswith("Builder.") else "N"): value}
                    if p.name in junk
                    else {}
                )
            elif p.name not in junk and (value is KeyError or p.default is not p.empty) and value is KeyError:
                continue
            elif p.kind is p.KEYWORD_ONLY or (len(args) < before and p.kind is not p.POSITIONAL_ONLY):
                named[p.name] = value  # one before it was left out
            elif len(args) < sum(q.kind is not q.KEYWORD_ONLY for q in self.surface.signature.parameters.values()):
                args.append(value)
        return args, named

    def _several(self) -> list[Any]:
        match self.surface.name:
            case "chain":
                return [dojoir.parse(PAIR)]
            case "Compiled.__call__" | "Compiled.bind":
                return [np.ones(8, np.float32), np.ones(8, np.float32)]
        return []


def clear(error: dojoir.DojoError) -> str | None:
    """What is unclear about an error, or None: it says something, in few words, and has a code of the table."""
    text, code = str(error), error.diagnostic.code
    if not error.diagnostic.message.strip():
        return "an error without a message"
    if code not in codes():
        return f"an error whose code {code!r} is not in the table: {text[:200]}"
    if len(error.diagnostic.message) > 1500:
        return f"a message of {len(error.diagnostic.message)} characters: {text[:200]}"
    if "object at 0x" in text:
        return f"an error with an address in it: {text[:200]}"
    return None


def draw(random: Random, slow: float = 0.02) -> Call:
    """A call with one or two arguments that are wrong."""
    while True:
        surface = random.choice(surfaces())
        if surface.name in SLOW and random.random() > slow:
            continue
        names = list(surface.signature.parameters)
        if names:
            break
    chosen = random.sample(names, min(len(names), random.choice((1, 1, 1, 2))))
    return Call(surface, tuple((name, random.choice([*JUNK])) for name in chosen))


def every(slow: bool) -> list[Call]:
    """Each parameter of each public callable with each value."""
    return [
        Call(surface, ((name, value),))
        for surface in surfaces()
        if slow == (surface.name in SLOW)
        for name in surface.signature.parameters
        for value in JUNK
    ]


def smaller(call: Call) -> Call:
    """The call with fewer wrong arguments that goes wrong too."""
    for one in call.junk:
        less = replace(call, junk=(one,))
        if less.run() is not None:
            return less
    return call
