"""Two iterations that touch one element, as the threads or blocks of a GPU, and what would part them."""

from __future__ import annotations

from dataclasses import replace

from dojoir.errors import Diagnostic, Note, Party
from dojoir.ir.format import format_access
from dojoir.ir.nodes import Access, Buffer, Kernel, Node, Path, Scope, Statement, format_path
from dojoir.ir.paths import is_inside
from dojoir.ir.places import ancestors
from dojoir.proof.explain.example import spelling

GRID = frozenset({"gx", "gy", "gz"})
THREADS = frozenset({"bx", "by", "bz", "lane"})


def with_threads(found: Diagnostic, kernel: Kernel, shown: Kernel | None = None) -> Diagnostic:
    """The diagnostic of two iterations of a scope that touch one element; where the scope is marked for a GPU, with
    a note that names the two threads or blocks, the element and the cure. `shown` is the kernel whose text the
    diagnostic quotes if it is the same tree but for marks."""
    if found.code != "shared-element":
        return found
    points = [party for party in found.parties if party.iteration]
    around = next((party for party in found.parties if not party.iteration), None)
    if around is None or len(points) != 2 or not all(_is_there(kernel, party) for party in points):
        return found
    quoted = shown if shown is not None and _shape(shown) == _shape(kernel) else kernel
    scope, access = _node_at(kernel, _path(around)), _access(quoted, points[0])
    if not isinstance(scope, Scope) or access is None:
        return found
    of_grid, of_block = (not marks.isdisjoint(scope.marks) for marks in (GRID, THREADS))
    if not of_grid and not of_block:
        return found
    buffer = kernel.buffer(access.buffer)
    what, marks = ("blocks", GRID) if of_grid else ("threads", THREADS)
    who = " and ".join(
        _iterators_of(kernel, party, marks) for party in sorted(points, key=lambda party: party.iteration)
    )
    block = _iterators_of(kernel, points[0], GRID)
    where = f" of block {block}" if of_block and block else ""
    element = _element_text(access, buffer, points[0], dict(found.sizes))
    words = f"{what} {who}{where} both touch `{element}`: {_cure(kernel, buffer, _path(around), of_grid)}"
    return replace(found, notes=(*found.notes, Note(words)))


def _shape(kernel: Kernel) -> tuple[object, ...]:
    """The common part of two kernels that differ only in marks and storage."""
    return [(path, type(node)) for path, node in kernel.walk()], [(b.name, len(b.dims)) for b in kernel.buffers]


def _path(party: Party) -> Path:
    return tuple(map(int, party.path.split(".")))


def _node_at(kernel: Kernel, path: Path) -> Node | None:
    """The node at a path, where there is one."""
    node: Node | Kernel = kernel
    for child in path:
        if isinstance(node, Statement) or child >= len(node.body):
            return None
        node = node.body[child]
    return node if not isinstance(node, Kernel) else None


def _is_there(kernel: Kernel, party: Party) -> bool:
    """Whether a statement of as many scopes stands where the diagnostic says: that may be of another tree."""
    path = _path(party)
    if not isinstance(_node_at(kernel, path), Statement):
        return False
    return sum(isinstance(node, Scope) for node in ancestors(kernel, path)) == len(party.iteration)


def _access(kernel: Kernel, party: Party) -> Access | None:
    """The access of a party, which it has as text."""
    path = _path(party)
    statement = _node_at(kernel, path)
    if not isinstance(statement, Statement):
        return None
    scopes = [node for node in ancestors(kernel, path) if isinstance(node, Scope)]
    name = spelling(kernel, scopes)
    return next((a for a in statement.accesses if format_access(a, name) == party.access), None)


def _iterators_of(kernel: Kernel, party: Party, marks: frozenset[str]) -> str:
    """`{1}=3, {2}=0`: the iterators of the scopes around a statement that have one of `marks`."""
    scopes = [node for node in ancestors(kernel, _path(party)) if isinstance(node, Scope)]
    name = spelling(kernel, scopes)
    values = zip(scopes, party.iteration, strict=True)
    found = [f"{{{name(d)}}}={v}" for d, (s, v) in enumerate(values) if not marks.isdisjoint(s.marks)]
    return f"({', '.join(found)})" if found else ""


def _element_text(access: Access, buffer: Buffer, party: Party, sizes: dict[str, int]) -> str:
    """`t[3, 0]`; `~` for an index of which all values share one element."""
    found = [
        "~" if dim.collapsed else "?" if isinstance(index, Access) else str(index.evaluate(sizes, party.iteration))
        for index, dim in zip(access.indices, buffer.dims, strict=True)
    ]
    return f"{buffer.name}[{', '.join(found)}]" if found else buffer.name


def _cure(kernel: Kernel, buffer: Buffer, path: Path, of_grid: bool) -> str:
    """The cure that gives each thread, or block, storage of its own."""
    name = buffer.name
    users = [site.path for site in kernel.sites if name in site.statement.buffers]
    cures = [f"materialize_dims({name}, {d})" for d, dim in enumerate(buffer.dims) if dim.collapsed]
    if buffer.role == "tmp" and all(is_inside(user, path) for user in users):
        opens = [d for d, dim in enumerate(buffer.dims) if not dim.collapsed and not dim.extent.is_constant]
        closed = "".join(f"reuse_dims({name}, {d}), then " for d in opens)
        where, whose = ("shared", "a block") if of_grid and not _in_threads(kernel, users) else ("reg", "a thread")
        cures.insert(0, f"{closed}place({name}, {where}), which is {whose}'s own")
    return ", or ".join(cures or [f"each must have an element of its own, or unmark({format_path(path)})"])


def _in_threads(kernel: Kernel, users: list[Path]) -> bool:
    """Whether one scope of threads is around all these statements."""
    marked = [p for p, n in kernel.walk() if isinstance(n, Scope) and not THREADS.isdisjoint(n.marks)]
    return any(all(is_inside(user, path) for user in users) for path in marked)
