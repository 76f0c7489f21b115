"""Passes: named functions that pick moves, and the combinators that put them together; and structures for CPUs: the
places of a kernel that each fits, with what schedules it there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import wraps
from typing import Concatenate, get_type_hints

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError, DojoError, repr_of
from dojoir.ir.nodes import Kernel, Path, Site, Statement
from dojoir.passes.base.move import Move
from dojoir.passes.engine.catalogue import MOVES, parse_move
from dojoir.passes.engine.engine import is_legal
from dojoir.passes.engine.located import find as find_places
from dojoir.passes.engine.located import located
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.facts.strides import Sizes
from dojoir.query.conditions import Query
from dojoir.support.frozen import dataclass
from dojoir.support.public import public, public_class

Find = Callable[[Kernel], Iterable[Move]]
"""Which moves to try on a kernel, in order; they need not be legal."""


_NAMED = re.compile(r"([A-Za-z_]\w*)\s*=(?!=)\s*(.+)", re.DOTALL)
"""An argument that is given by its name."""


@public_class
@dataclass(frozen=True)
class Pass:
    """A named function that makes moves on a trace. All that it did stands in the trace as moves, each of them
    checked, so that it can be undone, saved and certified like moves made by hand.

    What the function takes besides the trace, integers and words, are the `arguments` of the pass.

    >>> import dojoir
    >>> from dojoir.passes import Pass, attempt
    >>> trace = Pass("cores", attempt("parallelize(0)")).on(dojoir.kernels.load("relu"))
    >>> [str(move) for move in trace.moves]
    ['parallelize(0)']
    """

    name: str
    run: Callable[Concatenate[Trace, ...], None]
    arguments: tuple[int | str, ...] = ()

    @public
    def __call__(self, trace: Trace) -> None:
        """Makes its moves on a trace. Raises IllegalMove if one of them is refused that is not an attempt, and
        ArgumentError where the function does not take a trace and the arguments."""
        try:
            inspect.signature(self.run, follow_wrapped=False).bind(trace, *self.arguments)
        except TypeError as error:
            message = f"the function of pass {self.name} does not take a trace and its arguments: {error}"
            raise ArgumentError(message, "bad-arguments") from None
        except ValueError:  # nothing is known of what it takes
            pass
        self.run(trace, *self.arguments)

    def _repr_html_(self) -> str:
        """The pass as it is typed, and what it is for."""
        from dojoir.ir.html import move_html

        shown = f"{self.name}({', '.join(map(str, self.arguments))})" if self.arguments else self.usage
        return move_html(shown, " ".join(self.documentation.partition("\n\n")[0].split()))

    @public
    def on(self, kernel: Kernel) -> Trace:
        """A new trace of the kernel with the moves of this pass. Raises as a call does."""
        trace = Trace(kernel)
        self(trace)
        return trace

    @public
    def given(self, *words: str) -> Pass:
        """The pass with arguments, each as a text. Raises ArgumentError for what its function does not take."""
        parameters = self._parameters
        words = self._in_order(words)
        several = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
        least = sum(p.default is inspect.Parameter.empty for p in parameters) - several
        if len(words) < least or (len(words) > len(parameters) and not several):
            counted = f"{len(words)} argument{'' if len(words) == 1 else 's'}"
            how = f"is written {self.usage}" if parameters else "takes no arguments"
            raise ArgumentError(f"the pass {self.name} {how}, not with {counted}", "bad-arguments")
        kinds = get_type_hints(self.run)
        values: list[int | str] = []
        for n, word in enumerate(words):
            wanted = kinds.get(parameters[min(n, len(parameters) - 1)].name, str)
            if wanted is int and not re.fullmatch(r"-?[0-9]{1,20}", word):
                raise ArgumentError(f"'{word}' is not an integer, in {self.usage}", "bad-arguments")
            values.append(int(word) if wanted is int else word)
        return replace(self, arguments=tuple(values))

    def _in_order(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The words in the order of the parameters, where some are given by name: `size=16`."""
        named = [match for word in words if (match := _NAMED.fullmatch(word)) is not None]
        if not named:
            return words
        plain = words[: len(words) - len(named)]
        parameters = {p.name: p.default for p in self._parameters[len(plain) :]}
        given = {match[1]: match[2].strip() for match in named}
        wrong = next((name for name in given if name not in parameters), None)
        if wrong is not None or len(given) < len(named):
            what = f"takes no '{wrong}' besides these" if wrong else "is given one name twice"
            raise ArgumentError(f"the pass {self.name} {what}: it is written {self.usage}", "bad-arguments")
        last = max(list(parameters).index(name) for name in given)
        values = [given.get(name, default) for name, default in list(parameters.items())[: last + 1]]
        if any(value is inspect.Parameter.empty for value in values):
            raise ArgumentError(f"the pass {self.name} is written {self.usage}", "bad-arguments")
        return (*plain, *map(str, values))

    @property
    def asks_for_machine(self) -> bool:
        """Whether what it does depends on a machine that its arguments do not name."""
        return len(self.arguments) <= self._machine_at

    @property
    def _machine_at(self) -> int:
        """The number of its argument for a machine; −1 where it takes none."""
        names = [parameter.name for parameter in self._parameters]
        return names.index("machine") if "machine" in names else -1

    @public
    def for_machine(self, machine: Machine) -> Pass:
        """The pass for a machine where it takes one and none is named, else itself."""
        place, run = self._machine_at, self.run
        if not self.asks_for_machine:
            return self

        @wraps(run)
        def bound(trace: Trace, *arguments: int | str, **named: Mapping[str, int]) -> None:
            here = {} if len(arguments) > place else {"machine": machine}
            run(trace, *arguments, **here, **named)

        return replace(self, run=bound)

    @property
    def _parameters(self) -> list[inspect.Parameter]:
        """The parameters of its function besides the trace, as words."""
        found = list(inspect.signature(self.run).parameters.values())[1:]
        return [parameter for parameter in found if parameter.kind is not inspect.Parameter.KEYWORD_ONLY]

    @public
    def for_sizes(self, sizes: Mapping[str, int]) -> Pass:
        """The pass for runtime sizes that a kernel will mostly run at, where it asks for any, else itself."""
        run = self.run
        if "sizes" not in inspect.signature(run).parameters:
            return self

        @wraps(run)
        def bound(trace: Trace, *arguments: int | str, **named: Machine) -> None:
            run(trace, *arguments, **named, sizes=sizes)

        return replace(self, run=bound)

    @property
    def usage(self) -> str:
        """How the pass is written, with the values that its arguments have if they are left out."""
        words = []
        for p in self._parameters:
            several = "..." if p.kind is inspect.Parameter.VAR_POSITIONAL else ""
            words.append(p.name + (several if p.default is inspect.Parameter.empty else f"={p.default}"))
        return f"{self.name}({', '.join(words)})" if words else self.name

    @property
    def documentation(self) -> str:
        """The documentation of the pass: the docstring of its function."""
        return inspect.getdoc(self.run) or ""

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})" if self.arguments else self.name


@public
def named_pass(run: Callable[Concatenate[Trace, ...], None]) -> Pass:
    """A pass of a function, by its name: a decorator. A file of such passes is for `dojoir-opt --load`.

    >>> import dojoir
    >>> @dojoir.passes.named_pass
    ... def blocks(trace: dojoir.Trace, size: int = 16) -> None:
    ...     "Runs blocks of a scope on the cores."
    ...     trace.apply(f"split(0, {size})")
    ...     trace.apply("parallelize(0)")
    >>> [str(move) for move in blocks.given("32").on(dojoir.kernels.load("relu")).moves]
    ['split(0, 32)', 'parallelize(0)']
    """
    name = getattr(run, "__name__", None) if inspect.isroutine(run) or inspect.isclass(run) else None
    if not isinstance(name, str):
        raise ArgumentError(
            f"a pass is made of a function, which has a name, not of {repr_of(run)}", "bad-arguments"
        )
    return Pass(name, run)


Step = Callable[[Trace], None] | Move | str
"""A pass or a function that makes moves on a trace, a move, or the text of a move."""


def make(trace: Trace, step: Step) -> None:
    """Makes one step on a trace. Raises IllegalMove if it is refused."""
    if isinstance(step, Move | str):
        trace.apply(step)
    else:
        step(trace)


def tried(trace: Trace, step: Step) -> bool:
    """Makes a step if it can be made; otherwise takes back what was done of it. Returns whether it was made."""
    before = len(trace.steps)
    try:
        if isinstance(step, Move | str) and not _is_legal(trace.kernel, step):
            return False  # why is not asked for
        make(trace, step)
    except DojoError:
        while len(trace.steps) > before:
            trace.undo()
        return False
    return True


def _is_legal(kernel: Kernel, step: Move | str) -> bool:
    return is_legal(kernel, located(parse_move(step) if isinstance(step, str) else step, kernel))


def each_once(trace: Trace, find: Callable[[Kernel], Iterable[Site]], step: Callable[[Trace, Site], None]) -> bool:
    """Tries a step on each statement that `find` gives, again after each, until none is left that it was not tried
    on. Returns whether one was made."""

    def at(site: Site) -> Callable[[Trace], None]:
        return lambda trace: step(trace, site)

    left: set[Statement] = set()
    before = len(trace.steps)
    while (site := next((s for s in find(trace.kernel) if s.statement not in left), None)) is not None:
        left.add(site.statement)
        tried(trace, at(site))
    return len(trace.steps) > before


def sequence(*steps: Step) -> Callable[[Trace], None]:
    """One step after the other.

    >>> import dojoir
    >>> from dojoir.passes import Pass, sequence
    >>> blocks = Pass("blocks", sequence("split(0, 16)", "parallelize(0)"))
    >>> [str(move) for move in blocks.on(dojoir.kernels.load("relu")).moves]
    ['split(0, 16)', 'parallelize(0)']
    """

    def run(trace: Trace) -> None:
        for step in steps:
            make(trace, step)

    return run


def attempt(step: Step) -> Callable[[Trace], None]:
    """The step whole or not at all: if a move of it is refused, what was done of it is taken back, and that is no
    error.

    >>> import dojoir
    >>> from dojoir.passes import Pass, attempt, sequence
    >>> bold = Pass("bold", attempt(sequence("parallelize(0)", "parallelize(0.0)")))
    >>> bold.on(dojoir.kernels.load("relu")).moves
    ()
    """

    def run(trace: Trace) -> None:
        tried(trace, step)

    return run


ROUNDS = 32
"""How often `repeat` makes its step at most, and once more for each node and buffer that the kernel had: what
takes something away comes to an end before that."""


def repeat(step: Step) -> Callable[[Trace], None]:
    """The step again and again, until it leaves the kernel as it is or comes back to one that was there before.
    Raises ArgumentError, with all of it taken back, where that is not so within `ROUNDS`."""

    def run(trace: Trace) -> None:
        made, start = len(trace.steps), trace.kernel
        rounds = ROUNDS + sum(1 for _ in start.walk()) + len(start.buffers)
        seen = {start}
        for _ in range(rounds):
            make(trace, step)
            if trace.kernel in seen:
                return
            seen.add(trace.kernel)
        while len(trace.steps) > made:
            trace.undo()
        named = f"repeat({step})" if isinstance(step, Move | str | Pass) else "a repeated step"
        raise ArgumentError(
            f"{named} did not come to an end in {rounds} rounds: each made another kernel; a repeated step should "
            "take something away",
            "endless-pass",
        )

    return run


def first(find: Find) -> Callable[[Trace], None]:
    """The first legal one of the moves that `find` gives for the kernel, or none.

    >>> import dojoir
    >>> from dojoir.passes import Pass, first, moves_named, repeat
    >>> fuse = Pass("fuse", repeat(first(moves_named("join_scopes"))))
    >>> [str(move) for move in fuse.on(dojoir.kernels.load("softmax")).moves]
    ['join_scopes(0, 1)']
    """

    def run(trace: Trace) -> None:
        for move in find(trace.kernel):
            if tried(trace, move):
                return

    return run


def each(query: Query | str, step: Callable[[str], Step]) -> Callable[[Trace], None]:
    """A step for each place that a query matches: `step` gives it for the path of the place. The last place in the
    text comes first, so that what is done at one leaves the paths of the others as they are. Raises QueryError
    where nothing matches.

    >>> import dojoir
    >>> from dojoir.passes import Pass, each
    >>> lanes = Pass("lanes", each("innermost extent M", lambda place: f"vectorize({place})"))
    >>> [str(move) for move in lanes.on(dojoir.kernels.load("softmax")).moves]
    ['vectorize(1.2)', 'vectorize(1.1)', 'vectorize(0.1)']
    """

    def run(trace: Trace) -> None:
        for match in reversed(find_places(trace.kernel, query)):
            make(trace, step(match.place))

    return run


def every(find: Find) -> Callable[[Trace], None]:
    """Each of the moves that `find` gives for the kernel, in order, where it is legal by then.

    >>> import dojoir
    >>> from dojoir.passes import Pass, every, moves_named
    >>> lanes = Pass("lanes", every(moves_named("vectorize")))
    >>> [str(move) for move in lanes.on(dojoir.kernels.load("gemv")).moves]
    ['vectorize(0)']
    """

    def run(trace: Trace) -> None:
        for move in list(find(trace.kernel)):
            tried(trace, move)

    return run


def moves_named(*names: str) -> Find:
    """All candidates of the moves of these names. The order is that of the names, then that of the text."""
    kinds = {kind.name: kind for kind in MOVES}

    def find(kernel: Kernel) -> Iterator[Move]:
        for name in names:
            yield from kinds[name].candidates(kernel)

    return find


@dataclass(frozen=True)
class Fit:
    """A place that a structure fits by its facts: the path of the node there, empty where it is about the kernel as
    a whole, and what schedules it. That raises DojoError where a move is refused; what goes through a nest by
    itself, as lanes do, makes what is legal there instead."""

    path: Path
    step: Step


Structure = Callable[[Kernel, Machine, Sizes], Iterator[Fit]]
"""The places of a kernel that a structure fits on a machine, at sizes that are known, in the order of the text."""
