"""The condition under which a statement runs at all: a total kept in a variable is added to its element only there.

An element that no iteration touches is neither read nor written, not even with its own value. So whatever adds up
beside an element (in a variable, in lanes, by several threads) asks here when it is done. Extents and conditions
are affine: whether anything ran is a condition on the sizes and the iterators around, known before anything runs.
Mostly it always holds, which is seen from the text or proved by isl, and costs nothing. Else isl eliminates the
iterators inside, exactly; where that takes too many steps, the loops are run through without their statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

import islpy as isl

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import both, condition_value, extent_value, integer, least
from dojoir.codegen.lir.program import FLAG, INDEX, Const, Value, Var
from dojoir.codegen.lower.access.presburger import size_value, value_of
from dojoir.codegen.lower.access.state import Block, LoweringState, LoweringUnit
from dojoir.ir.nodes import Extent, Guard, Kernel, Node, Path, Scope, Statement
from dojoir.ir.paths import is_inside
from dojoir.ir.places import ancestors
from dojoir.sets.kernel_sets import KernelSets, isl_affine, sets_of
from dojoir.sets.limits import StepLimitReached, limited_in_part
from dojoir.sets.ranges import is_nonnegative
from dojoir.support.frozen import dataclass

STEP_LIMIT = 1_000_000
"""How many isl operations one question may take; past them, the loops are run through."""

MOST_WORDS = 40
"""How long a condition may be; in place of a longer one, the loops are run through."""


Nodes = tuple[Scope | Guard, ...]


@dataclass(frozen=True)
class Guess:
    """A condition that may be the answer: there are values of the iterators at the depths `inside` such that all
    `conditions` hold, in isl's notation; and the value that says so."""

    conditions: tuple[str, ...]
    inside: tuple[int, ...]
    value: Value


@dataclass(frozen=True)
class StatementRuns:
    """Whether a statement at one of `paths` runs, given the iterators at the depths `kept`: those around the node
    at `around`, which holds the statements, and some of those inside. It is asked at a place of `state` where that
    node is reached, and where `also` holds, conditions on those iterators in isl's notation."""

    kernel: Kernel
    paths: tuple[Path, ...]
    around: Path
    kept: tuple[int, ...]
    also: tuple[str, ...] = ()
    state: LoweringState = field(default_factory=LoweringState)

    @cached_property
    def reached(self) -> isl.Set:
        """Where it is asked: sizes and iterators, all as parameters."""
        return self._set([self._sets.constraints(ancestors(self.kernel, self.around)), *self.also], ())

    @cached_property
    def touched(self) -> isl.Set:
        """Where a statement runs."""
        found = self._set(["false"], ())
        for path in self.paths:
            nodes = _as_known(self.kernel, path, self.state)
            depths = range(sum(isinstance(node, Scope) for node in nodes))
            inside = tuple(depth for depth in depths if depth not in self.kept)
            found = found.union(self._set([self._sets.constraints(nodes)], inside))
        return found.intersect(self.reached)

    @property
    def always(self) -> bool:
        """Whether one runs wherever it is asked."""
        return bool(self.reached.is_subset(self.touched))

    def is_just_where(self, guess: Guess) -> bool:
        """Whether one runs where what is guessed holds, and only there."""
        return bool(self.touched.is_equal(self.reached.intersect(self._set(guess.conditions, guess.inside))))

    def condition(self, iterators: Mapping[int, Value]) -> Value | None:
        """Whether one runs, by the values of the iterators at `kept`; None where that takes too many words."""
        simple = self.touched.compute_divs().coalesce().gist(self.reached)
        build = isl.AstBuild.from_context(self.reached)
        names = {f"i{depth}": value for depth, value in iterators.items()}
        names |= {f"n_{name}": size_value(name) for name in self.kernel.runtime_sizes}
        return value_of(build.expr_from_set(simple), names, MOST_WORDS)

    @property
    def _sets(self) -> KernelSets:
        return sets_of(self.kernel)

    def _set(self, conditions: Sequence[str], inside: Sequence[int]) -> isl.Set:
        """The sizes and iterators where there are values of the iterators `inside` such that conditions hold."""
        names = [f"n_{name}" for name in self.kernel.runtime_sizes] + [f"i{depth}" for depth in self.kept]
        text = " and ".join(conditions) or "true"
        exists = f"exists {', '.join(f'i{depth}' for depth in inside)} : " if inside else ""
        found = self._sets.workspace.set(f"[{', '.join(names)}] -> {{ : {exists}{text} }}")
        return found.intersect_params(self._sets.parameters)


def where_touched(
    unit: LoweringUnit,
    paths: Sequence[Path],
    scope: Path,
    state: LoweringState,
    block: Block,
    runs: bool = False,
    at: Mapping[int, int] | None = None,
) -> Value | None:
    """Whether a statement at one of `paths` runs in the scope at `scope`; None where one always does. `state` is
    that around the scope, which is known to run at least once if `runs`. `at` gives the iterators of unrolled
    scopes inside by depth. `block` gets what has to be run to know."""
    if runs and any(is_sure(unit.kernel, path, scope, state, runs) for path in paths):
        return None
    at = dict(at or {})
    node = unit.kernel.at(scope)
    assert isinstance(node, Scope)
    also = [f"i{d} = {value}" for d, value in at.items()]
    also += [f"{isl_affine(bound)} >= 1" for bound in node.extent.bounds] if runs else []
    kept = (*range(len(state.iterators)), *at)
    touch = StatementRuns(unit.kernel, tuple(paths), scope, kept, tuple(also), state)
    values = dict(enumerate(state.iterators)) | {d: integer(value) for d, value in at.items()}
    return asked(unit, touch, values, block)


def _as_known(kernel: Kernel, path: Path, state: LoweringState) -> Nodes:
    """The nodes around the one at `path`, but for guards that are known to hold; scopes that are known to be full
    run as often as their constant bound says."""
    found: list[Scope | Guard] = []
    for length, node in enumerate(ancestors(kernel, path), 1):
        match node:
            case Guard() if path[:length] in state.holding:
                pass
            case Scope(extent) if path[:length] in state.full:
                constants = tuple(bound for bound in extent.bounds if bound.is_constant)
                found.append(replace(node, extent=Extent(constants)))
            case _:
                found.append(node)
    return tuple(found)


def is_sure(kernel: Kernel, path: Path, scope: Path, state: LoweringState, runs: bool = False) -> bool:
    """Whether the text shows that the statement at `path` runs in the scope at `scope`, which does if `runs`."""
    nodes = _as_known(kernel, path, state)
    return all(
        isinstance(node := nodes[n], Scope) and _runs(node.extent, nodes[:n], state)
        for n in range(len(_as_known(kernel, scope, state)) + runs, len(nodes))
    )


def runs_at_all(kernel: Kernel, path: Path, extent: Extent, state: LoweringState) -> bool:
    """Whether it is seen that the scope at `path`, of `extent`, runs at least once wherever its parent does."""
    return _runs(extent, _as_known(kernel, path, state), state)


def _runs(extent: Extent, around: Nodes, state: LoweringState) -> bool:
    """The same of a scope inside of the nodes `around`. Lanes that are off and threads of a GPU that only take part
    have iterators beyond the extents of these: there only what holds of all iterators is used."""
    if state.device is not None or state.lanes is not None:
        return all((least(bound) or 0) >= 1 for bound in extent.bounds)
    scopes = [node for node in around if isinstance(node, Scope)]
    return all(is_nonnegative(bound - 1, scopes) for bound in extent.bounds)


def asked(
    unit: LoweringUnit, touch: StatementRuns, values: Mapping[int, Value], block: Block, guess: Guess | None = None
) -> Value | None:
    """Whether a statement runs, by the values of the iterators that are kept; None where one always does. `block`
    gets what has to be run to know."""
    if any(is_sure(unit.kernel, path, touch.around, touch.state) for path in touch.paths):
        return None
    try:
        with limited_in_part(STEP_LIMIT):
            if touch.always:
                return None
            if guess is not None and touch.is_just_where(guess):
                return guess.value
            found = touch.condition(values)
    except (StepLimitReached, isl.Error):
        found = None
    return _run_through(unit, touch, values, block) if found is None else found


def _run_through(unit: LoweringUnit, touch: StatementRuns, values: Mapping[int, Value], block: Block) -> Value:
    """Whether a statement runs: the loops around them without anything else in them."""
    found = Var(FLAG, unit.names.fresh("touched"))
    block.emit(lir.Declare(found, Const(FLAG, False)))
    inner = _Through(unit, touch, values, found).node(touch.around, ())
    block.statements.extend(inner)
    return found


@dataclass(frozen=True)
class _Through:
    """The loops of one question: `found` is to be true where a statement is reached."""

    unit: LoweringUnit
    touch: StatementRuns
    values: Mapping[int, Value]
    found: Var

    def node(self, path: Path, inside: tuple[Value, ...]) -> tuple[lir.Stmt, ...]:
        """The node at `path`; `inside` are the iterators of the scopes from `around` on."""
        if not any(is_inside(own, path) for own in self.touch.paths):
            return ()
        node = self.unit.kernel.at(path)
        match node:
            case Statement():
                return (lir.Assign(self.found, Const(FLAG, True)),)
            case Guard(conditions):
                holds: Value | None = None
                for condition in conditions:
                    holds = both(holds, condition_value(condition, self._iterators(inside)))
                assert holds is not None
                return (lir.If(holds, self._body(path, node, inside)),)
            case Scope():
                return self._scope(path, node, inside)

    def _scope(self, path: Path, scope: Scope, inside: tuple[Value, ...]) -> tuple[lir.Stmt, ...]:
        first = extent_value(scope.extent, self._iterators(inside))
        given = self.values.get(self._outer + len(inside))
        if given is not None:
            return (lir.If(lir.Compare("lt", given, first), self._body(path, scope, (*inside, given))),)
        name = self.unit.names.loop("at", (*self.values.values(), *inside))
        var = Var(INDEX, name)
        return (lir.For(var, integer(0), first, 1, self._body(path, scope, (*inside, var))),)

    def _body(self, path: Path, node: Scope | Guard, inside: tuple[Value, ...]) -> tuple[lir.Stmt, ...]:
        children: Sequence[Node] = node.body
        return tuple(stmt for n in range(len(children)) for stmt in self.node((*path, n), inside))

    @cached_property
    def _outer(self) -> int:
        around = ancestors(self.unit.kernel, self.touch.around)
        return sum(isinstance(node, Scope) for node in around)

    def _iterators(self, inside: tuple[Value, ...]) -> tuple[Value, ...]:
        return (*(self.values[depth] for depth in range(self._outer)), *inside)
