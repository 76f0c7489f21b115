"""Where each temporary lives: in a variable or an array, from which scope on, and for whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from dojoir.codegen.lir.arith import along
from dojoir.codegen.lower.plans.layout import Layout
from dojoir.errors import Diagnostic, KernelError
from dojoir.ir import where as locate
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Buffer, Kernel, Node, Path, Scope, Site, Statement
from dojoir.proof.core.independence import carries
from dojoir.proof.core.written import gives_itself
from dojoir.sets.data_writes import without_data_writes
from dojoir.sets.limits import StepLimitReached, limited_in_part
from dojoir.support.frozen import dataclass

STACK_BYTES = 256 * 1024
"""The largest temporary on the stack (or in reg), and the sum over a kernel, in bytes: more go to the heap."""

STEP_LIMIT = 300_000
"""How many isl operations may be taken to ask whether an iteration reads what another left: past them, it does."""


@dataclass(frozen=True)
class BufferMention:
    """One mention of a buffer."""

    site: Site
    access: Access
    writes: bool


@dataclass(frozen=True)
class Home:
    """The place of a temporary. `owner` is the path of the innermost scope that encloses all uses (empty: the
    kernel), for a variable that keeps its value over iterations of that one further out; `around` that scope and
    those around it, by depth."""

    layout: Layout
    uses: tuple[BufferMention, ...]
    owner: Path
    around: tuple[Scope, ...]
    on_stack: bool = False

    @property
    def buffer(self) -> Buffer:
        return self.layout.buffer

    @cached_property
    def is_variable(self) -> bool:
        """Whether it is one element that no other thread writes: then no memory is needed."""
        return self.layout.is_single and not any(
            "p" in scope.marks for use in self.uses if use.writes for scope in use.site.scopes[len(self.around) :]
        )

    @cached_property
    def is_shared(self) -> bool:
        """Whether several threads of the cores may use one instance of it."""
        return any("p" in scope.marks for use in self.uses for scope in use.site.scopes[len(self.around) :])

    @property
    def lives(self) -> str:
        """heap or stack, for an array."""
        return "stack" if self.on_stack or self.layout.is_single else "heap"

    def is_private(self, depth: int) -> bool:
        """Whether each iteration of the scope at `depth` around all uses needs an instance of its own: not,
        where different iterations touch different elements in any case."""
        return depth < len(self.around) and not self._is_spread(depth)

    def _is_spread(self, depth: int) -> bool:
        """Whether some index is the same in all uses and tells the iterations at `depth` apart."""
        for d, dim in enumerate(self.buffer.dims):
            first, *others = (use.access.indices[d] for use in self.uses)
            if (
                not dim.collapsed
                and isinstance(first, Affine)
                and is_linear(first, depth)
                and all(other == first for other in others)
                and max(first.iterators) == depth
            ):
                return True
        return False


def is_linear(index: Affine, depth: int) -> bool:
    """Whether different values of the iterator at `depth`, all else equal, give different indices."""
    step, linear = along(index, depth)
    return linear and step != 0


def uses_of(kernel: Kernel) -> dict[str, list[BufferMention]]:
    """Every use of every buffer, in the order of the text."""
    uses: dict[str, list[BufferMention]] = {buffer.name: [] for buffer in kernel.buffers}
    for site in kernel.sites:
        for access, writes in _accesses(site):
            uses[access.buffer].append(BufferMention(site, access, writes))
    return uses


def _accesses(site: Site) -> Iterator[tuple[Access, bool]]:
    for access in site.statement.term_reads:
        yield access, False
    for access in site.statement.target.accesses():
        yield access, access is site.statement.target


def homes_of(kernel: Kernel, uses: Mapping[str, list[BufferMention]]) -> dict[str, Home]:
    """The home of each temporary that is used.

    Raises KernelError for one in stack or reg that has no constant size, or too large a one.
    """
    homes: dict[str, Home] = {}
    total = 0
    for buffer in kernel.buffers:
        if buffer.role == "tmp" and uses[buffer.name]:
            home = _home(Layout(buffer), tuple(uses[buffer.name]))
            if buffer.storage in ("stack", "reg") and not home.is_variable:
                size = _stack_bytes(kernel, home)
                home = replace(home, on_stack=total + size <= STACK_BYTES)
                total += size if home.on_stack else 0
            homes[buffer.name] = _lasting(kernel, home)
    return homes


def _home(layout: Layout, uses: tuple[BufferMention, ...]) -> Home:
    first = uses[0].site
    common = min(_agreement(first.path, use.site.path) for use in uses)
    enclosing = [n for n in range(common) if isinstance(first.ancestors[n], Scope)]
    around = tuple(scope for n in enclosing if isinstance(scope := first.ancestors[n], Scope))
    return Home(layout, uses, first.path[: enclosing[-1] + 1] if enclosing else (), around)


def _lasting(kernel: Kernel, home: Home) -> Home:
    """The home further out, where an iteration may read what the one before it left there: outside of all scopes
    around that run in order. A variable and an array on the stack end with the iteration that declares them; an
    array on the heap is there for the whole call, or for all iterations that a core runs."""
    if not home.around or (home.lives == "heap" and not home.is_variable) or _begins_anew(kernel, home):
        return home
    orderly = 0
    while orderly < len(home.around) and set(home.around[-1 - orderly].marks) <= {"u"}:
        orderly += 1
    around = home.around[: len(home.around) - orderly]
    scopes = [n for n in range(1, len(home.owner) + 1) if isinstance(kernel.at(home.owner[:n]), Scope)]
    return replace(home, owner=home.owner[: scopes[len(around) - 1]] if around else (), around=around)


def _begins_anew(kernel: Kernel, home: Home) -> bool:
    """Whether no iteration of the scope around reads what another left in a temporary."""
    if home.is_variable:
        return begins_with_assignment(home.buffer.name, home.around[-1].body)
    return gives_itself(kernel, home.buffer, home.owner) or not may_carry(kernel, home.owner, home.buffer.name)


def may_carry(kernel: Kernel, path: Path, name: str) -> bool:
    """Whether an iteration of the scope at a path may get from another what it has in a temporary."""
    try:
        with limited_in_part(STEP_LIMIT):
            return carries(without_data_writes(kernel), path, name)
    except StepLimitReached:
        return True


def _agreement(left: Path, right: Path) -> int:
    """How many ancestors the statements at two paths share."""
    shared = 0
    for a, b in zip(left[:-1], right[:-1], strict=False):
        if a != b:
            break
        shared += 1
    return shared


def _stack_bytes(kernel: Kernel, home: Home) -> int:
    elements = home.layout.elements
    if elements.factors:
        raise _refusal(kernel, home.buffer, f"has {elements.text} elements, which is not constant")
    size = elements.constant * home.buffer.dtype.itemsize
    if size > STACK_BYTES:
        raise _refusal(kernel, home.buffer, f"takes {size} bytes, more than {STACK_BYTES}")
    return size


def _refusal(kernel: Kernel, buffer: Buffer, why: str) -> KernelError:
    message = (
        f"buffer '{buffer.name}' is in {buffer.storage}, and {why}: collapse a dimension with "
        f"reuse_dims({buffer.name}, …), fix the sizes, or place({buffer.name}, heap)"
    )
    source, span = locate.place(kernel, (), buffer)
    return KernelError(Diagnostic("stack-size", message, span, source))


def begins_with_assignment(name: str, nodes: tuple[Node, ...]) -> bool:
    """Whether the first use of a buffer among `nodes` is to assign it, whatever happens."""
    for node in nodes:
        if _mentions(name, node):
            return (
                isinstance(node, Statement)
                and node.accumulation is None
                and node.target.buffer == name
                and not any(access.buffer == name for access in node.reads)
            )
    return False


def _mentions(name: str, node: Node) -> bool:
    if isinstance(node, Statement):
        return node.target.buffer == name or any(a.buffer == name for a in node.reads)
    return any(_mentions(name, child) for child in node.body)
