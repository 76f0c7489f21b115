"""Software pipelining of a block's copies to shared memory: what the next iteration copies is read now.

A loop over tiles of a product copies a tile to shared memory, waits, and computes with it. Here each thread reads
what it copies in the next iteration into its registers before it computes, so that memory answers meanwhile; the
next iteration begins with the stores alone.

That changes no result. A copy is rewritten only if nothing in the launch writes an array that it reads. All
variables in it are its own, the loop's, or ones that the loop does not assign. Then its addresses,
conditions and values are the same one iteration earlier. It reads nothing that the loop would not read, since it
reads ahead only for iterations that follow.

Source: V. Volkov and J. Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008), section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field, replace

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import add, compare, integer, mul, substituted
from dojoir.codegen.lir.program import (
    Allocate,
    Const,
    For,
    If,
    Let,
    Load,
    Phase,
    ProgramArray,
    Stmt,
    Store,
    Value,
    Var,
)
from dojoir.codegen.lir.walk import (
    changed_by,
    changed_values,
    mapped,
    operands,
    parts_of,
    replaced,
    statements,
    values,
    variables,
    with_blocks,
    with_loops,
)
from dojoir.support.frozen import dataclass

MOST_WORDS = 32
"""How many registers of 4 bytes a thread has for what it reads ahead, at most."""

Body = tuple[Stmt, ...]
Names = Callable[[str], str]


def copies_ahead(body: Body, shared: Collection[str], read_only: Collection[str], fresh: Names) -> Body:
    """The code of a launch with the copies of its loops one iteration ahead. `shared` are the arrays of a block;
    `read_only` those in memory that nothing in the launch writes; `fresh` gives names that are not in use."""
    return with_loops(body, lambda loop: _pipelined(loop, shared, read_only, fresh))


def _pipelined(loop: For, shared: Collection[str], read_only: Collection[str], fresh: Names) -> Body:
    """A loop and what is before it; nothing where it is none that copies and then computes."""
    copies, begin = _copies(loop, shared, read_only)
    if loop.kind != "seq" or loop.step != 1 or not begin or loop.stop == add(loop.start, integer(1)):
        return ()
    halves = _Halves(fresh)
    fetched: list[Stmt] = []
    stored: list[Stmt] = []
    for stmt in loop.body[:begin]:
        if stmt in copies:
            assert isinstance(stmt, Phase)
            fetch, store = halves.of(stmt.body, integer(0), 1)
            fetched.append(replace(stmt, body=_without_dead(fetch), comment=""))
            stored.append(replace(stmt, body=_without_dead(store)))
        else:
            stored.append(stmt)
    if sum(halves.words) > MOST_WORDS:
        return ()
    first, following = _with(tuple(fetched), loop.var, loop.start), add(loop.var, integer(1))
    if not (isinstance(loop.start, Const) and isinstance(loop.stop, Const)):
        first = (If(compare("lt", loop.start, loop.stop), first),)
    ahead = If(compare("lt", following, loop.stop), _with(tuple(fetched), loop.var, following))
    return (*halves.begun, *first, replace(loop, body=(*stored, ahead, *loop.body[begin:])))


def _copies(loop: For, shared: Collection[str], read_only: Collection[str]) -> tuple[list[Stmt], int]:
    """The copies that a loop makes, and how many statements it has up to where all of these can be read; 0 where
    nothing is computed after that."""
    body, changed = loop.body, changed_by(loop.body)
    copies: list[Stmt] = [
        stmt
        for stmt in body
        if isinstance(stmt, Phase) and _is_copy(stmt, shared, read_only) and changed.isdisjoint(_free(stmt.body))
    ]
    last = max((n for n, stmt in enumerate(body) if stmt in copies), default=len(body))
    begin = next((n + 1 for n in range(last, len(body)) if isinstance(body[n], lir.Barrier)), len(body))
    return copies, begin if any(isinstance(stmt, Phase) for stmt in body[begin:]) else 0


def _free(body: Body) -> set[str]:
    """The free variables of some code. A name stands for one variable, so code beside it declares none of them."""
    own = {stmt.var.name for stmt in statements(body) if isinstance(stmt, Let | For)}
    return variables(*body) - own


def _is_copy(phase: Phase, shared: Collection[str], read_only: Collection[str]) -> bool:
    """Whether a thread does nothing but read arrays that nothing writes, and write to those of its block."""
    found = False
    for stmt in statements(phase.body):
        loads = [part for part in parts_of(stmt) if isinstance(part, Load)]
        match stmt:
            case Store(buffer=buffer) if buffer not in shared:
                return False
            case If(otherwise=otherwise) if loads or otherwise:
                return False
            case For(kind="seq" | "unroll", start=Const(value=0), stop=Const(), step=1):
                pass
            case Store() | If() | Let() | lir.Comment():
                pass
            case _:
                return False
        if any(load.buffer not in read_only or load.mask or load.stride for load in loads):
            return False
        found = found or bool(loads)
    return found


@dataclass(frozen=True)
class _Halves:
    """Copies in two halves: what reads into registers, and what writes these to the arrays of the block. `begun`
    are the registers, `words` how many of 4 bytes each takes."""

    fresh: Names
    begun: list[Stmt] = field(default_factory=list)
    words: list[int] = field(default_factory=list)

    def of(self, body: Body, index: Value, trips: int) -> tuple[Body, Body]:
        """Both halves of some code; `index` is which of `trips` iterations of the loops around it runs."""
        fetch: list[Stmt] = []
        store: list[Stmt] = []
        for stmt in body:
            match stmt:
                case For(var=var, stop=Const(value=count)):
                    inner = self.of(stmt.body, add(mul(index, integer(int(count))), var), trips * int(count))
                    fetch.append(replace(stmt, body=inner[0]))
                    store.append(replace(stmt, body=inner[1]))
                case If():
                    inner = self.of(stmt.then, index, trips)
                    fetch.append(replace(stmt, then=inner[0]))
                    store.append(replace(stmt, then=inner[1]))
                case Let() | Store():
                    there: dict[Load, Value] = {}
                    kept: dict[Load, Value] = {}
                    for load in (load for value in values(stmt) for load in _loads(value)):
                        code, there[load], kept[load] = self._read(load, index, trips)
                        fetch += code
                    if isinstance(stmt, Let):
                        fetch.append(_with_loads(stmt, there))
                    store.append(_with_loads(stmt, kept))
                case _:
                    store.append(stmt)
        return tuple(fetch), tuple(store)

    def _read(self, load: Load, index: Value, trips: int) -> tuple[Body, Value, Value]:
        """The code that reads what a load does into registers, its value there, and its value later."""
        lanes, dtype = load.type.lanes, load.type.dtype
        name, size = self.fresh(f"{load.buffer}_ahead"), lanes * dtype.itemsize
        self.words.append(trips * max(1, size // 4))
        if lanes * trips == 1:
            single = Var(load.type, name)
            self.begun.append(lir.Declare(single, Const(load.type, 0)))
            return (lir.Assign(single, load),), single, single
        self.begun.append(Allocate(ProgramArray(name, dtype, integer(lanes * trips), "reg", size)))
        place = mul(index, integer(lanes))
        later = Load(load.type, name, place)
        return (Store(name, place, load),), later, later


def _loads(value: Value) -> Iterator[Load]:
    """The loads in a value that are in no other."""
    if isinstance(value, Load):
        yield value
        return
    for operand in operands(value):
        yield from _loads(operand)


def _with_loads(stmt: Stmt, by: Mapping[Load, Value]) -> Stmt:
    """A statement with other values for its loads."""
    return mapped(stmt, lambda value: replaced(value, lambda part: by[part] if isinstance(part, Load) else None))


def _with(body: Body, var: Var, value: Value) -> Body:
    """Some code with a value for a variable."""
    return changed_values(body, lambda part: substituted(part, {var.name: value}))


def _without_dead(body: Body) -> Body:
    """Some code without the lets that nothing in it uses."""
    used = variables(*body)

    def alive(inner: Body) -> Body:
        living = (stmt for stmt in inner if not isinstance(stmt, Let) or stmt.var.name in used)
        return tuple(with_blocks(stmt, alive) for stmt in living)

    found = alive(body)
    return found if found == body else _without_dead(found)
