"""The state of the lowering: the kernel as analysed, the block being filled, and what holds at one place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Literal

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import both, constant_value
from dojoir.codegen.lir.fresh_names import free
from dojoir.codegen.lir.outcome import FIRST_CHECK, Check
from dojoir.codegen.lir.program import INDEX, Value, Var
from dojoir.codegen.lower.gpu.launches import Launched, ThreadPhase
from dojoir.codegen.lower.plans.layout import Layout
from dojoir.codegen.lower.plans.placement import BufferMention, Home
from dojoir.codegen.lower.plans.plan import Accumulator, LanePlan
from dojoir.codegen.lower.texts.beside import TextBeside
from dojoir.codegen.target import Target
from dojoir.ir.format import format_access
from dojoir.ir.nodes import Access, Buffer, Kernel, Path, Scope
from dojoir.support.frozen import dataclass
from dojoir.types.typed import Typed, TypedStatement


@dataclass(frozen=True)
class Variable:
    """A buffer of one element that is a variable: a vector where each lane has its own."""

    var: Var


@dataclass(frozen=True)
class Memory:
    """A buffer in memory. Where each of `copies` lanes has its own, element by element, lanes are innermost."""

    array: str
    layout: Layout
    copies: int = 1


@dataclass(frozen=True)
class BufferWindow:
    """A buffer that a scope writes contiguously, through a local array: the array holds the elements from that
    of iteration `first` of the scope at `depth` on, and is copied to memory later."""

    array: str
    depth: int
    first: Value


Place = Variable | Memory | BufferWindow


@dataclass(frozen=True)
class Lanes:
    """The scope at `depth` runs `count` iterations at once, from the value of its iterator on. Lanes whose
    `mask` is false do nothing; None: all take part."""

    depth: int
    count: int
    mask: Value | None = None


@dataclass(frozen=True)
class KeptReduction:
    """The variables that a reduction goes into: one for each value of the iterators at `depths`. `touched` is a
    flag that is set where something goes there, if only the data say whether something does."""

    depths: tuple[int, ...]
    variables: Mapping[tuple[int, ...], Var]
    touched: Var | None = None

    def at(self, iterators: Sequence[Value]) -> Var:
        """The one of an iteration."""
        values = (constant_value(iterators[depth]) for depth in self.depths)
        return self.variables[tuple(value for value in values if value is not None)]


@dataclass(frozen=True)
class LaunchPlace:
    """Where in a launch: in the code of a block, of a warp (a group of lanes), or of one thread."""

    level: str
    launched: Launched
    phase: ThreadPhase | None = None


@dataclass(frozen=True)
class LoweringState:
    """The facts at one place of the kernel: the iterators by depth (scalars; that of a scope in lanes is that of
    the first lane), the lanes, and the place of each buffer. Also the variables that reductions go into, the
    unrolled scopes whose iterations have some of their own. Also the scopes that are known to run as often as
    their constant bound says, or less often (`lower.full_tiles`), the guards that are known to hold, those of
    which it was asked, and how many versions there are with other answers. Also the conditions on data that are
    known to hold, the element whose vectors are aligned to be streamed, the buffers that are not streamed after
    all, and, on a GPU, where in a launch."""

    iterators: tuple[Value, ...] = ()
    lanes: Lanes | None = None
    places: Mapping[str, Place] = field(default_factory=dict)
    accumulators: Mapping[Path, KeptReduction] = field(default_factory=dict)
    spelled: frozenset[Path] = frozenset()
    in_parallel: bool = False
    full: frozenset[Path] = frozenset()
    cut: frozenset[Path] = frozenset()
    holding: frozenset[Path] = frozenset()
    asked: frozenset[Path] = frozenset()
    versions: int = 1
    settled: frozenset[Typed] = frozenset()
    aligned: Access | None = None
    cached: frozenset[str] = frozenset()
    device: LaunchPlace | None = None

    @property
    def lane_count(self) -> int:
        return self.lanes.count if self.lanes else 1

    @property
    def mask(self) -> Value | None:
        return self.lanes.mask if self.lanes else None


@dataclass
class Block:
    """Statements in the order in which they run. `pending` are variables that their first assignment declares."""

    statements: list[lir.Stmt] = field(default_factory=list)
    pending: set[str] = field(default_factory=set)

    def emit(self, statement: lir.Stmt) -> None:
        self.statements.append(statement)

    @property
    def body(self) -> tuple[lir.Stmt, ...]:
        return tuple(self.statements)


def at_work(names: LoweredNames, state: LoweringState, holds: Value, block: Block) -> tuple[Value, LoweringState]:
    """Where a condition holds: whether it does (in some lane that is at work), and the state there, in which only
    lanes where it holds are at work. `block` gets their mask."""
    if holds.type.lanes == 1:
        return holds, state
    assert state.lanes is not None
    mask = both(state.lanes.mask, holds)
    assert mask is not None
    active = Var(mask.type, names.fresh("active"))
    block.emit(lir.Let(active, mask))
    return lir.Reduce("or", active), replace(state, lanes=replace(state.lanes, mask=active))


@dataclass
class LoweredNames:
    """Names for what the lowering adds. Loops side by side share a name; all else is unique."""

    used: set[str]
    loops: set[str] = field(default_factory=set)

    def fresh(self, base: str) -> str:
        """A name that nothing else has."""
        name = free(base, lambda name: name in self.used or name in self.loops, "_" * base[-1].isdigit())
        self.used.add(name)
        return name

    def loop(self, base: str, around: Sequence[Value]) -> str:
        """A name for the variable of a loop inside the loops `around`."""
        outer = {value.name for value in around if isinstance(value, Var)}
        name = free(base, lambda name: name in self.used or name in outer, "_" * base[-1].isdigit())
        self.loops.add(name)
        return name


@dataclass
class LoweringUnit:
    """A kernel as analysed for a target, and what its lowering collects: functions, checks, names, arrays. On a
    GPU, the statements that write what other threads write at the same time (`met`)."""

    kernel: Kernel
    target: Target
    buffers: Mapping[str, Buffer]
    uses: Mapping[str, Sequence[BufferMention]]
    homes: Mapping[str, Home]
    typed: Mapping[Path, TypedStatement]
    plans: Mapping[Path, LanePlan]
    lines: Mapping[Path, str]
    names: LoweredNames
    beside: TextBeside
    carried: Mapping[Path, tuple[Accumulator, ...]] = field(default_factory=dict)
    met: Collection[Path] = ()
    functions: dict[str, lir.Function] = field(default_factory=dict)
    checks: dict[tuple[Path, Access | str], Check] = field(default_factory=dict)
    arrays: dict[str, lir.ProgramArray] = field(default_factory=dict)

    def loop_var(self, scope: Scope, iterators: Sequence[Value]) -> Var:
        """A variable named like the scope inside of some loops."""
        return Var(INDEX, self.names.loop(scope.label or f"i{len(iterators)}", iterators))

    @property
    def fast(self) -> bool:
        return self.kernel.fp == "fast"

    @cached_property
    def held(self) -> Mapping[Path, Sequence[LanePlan]]:
        """The scopes around those in lanes until which these keep what they add up, each with them."""
        found: dict[Path, list[LanePlan]] = {}
        for path, plan in self.plans.items():
            for until in {accumulator.until for accumulator in plan.accumulators} - {path}:
                found.setdefault(until, []).append(plan)
        return found

    def index_status(self, path: Path, access: Access) -> int:
        """The status of the runtime check of a gathered access."""
        origin, named = self.beside.place(path), self.beside.named(access)
        return self._status((origin, named), Check(format_access(named), origin))

    def shift_status(self, path: Path) -> int:
        """The status of the runtime check of the shifts in a statement."""
        return self._of_line(path, "shift")

    def divisor_status(self, path: Path) -> int:
        """The status of the runtime check of the divisors in a statement."""
        return self._of_line(path, "divisor")

    def _of_line(self, path: Path, fault: Literal["shift", "divisor"]) -> int:
        origin = self.beside.place(path)
        return self._status((origin, fault), Check(self.lines[path], origin, fault))

    def _status(self, key: tuple[Path, Access | str], check: Check) -> int:
        self.checks.setdefault(key, check)
        return FIRST_CHECK + list(self.checks).index(key)
