"""Rows of open length on a GPU: in the registers of a block where they are not too long, chosen at the call.

A row of up to 16384 elements is read once, by threads that have a few accesses of 16 bytes each; a longer one, or
one whose length 4 does not divide, stays in memory.
"""

from __future__ import annotations

from collections.abc import Callable

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Kernel, Path, Scope, Statement, accesses_in, format_path
from dojoir.ir.text import format_condition
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import make
from dojoir.passes.schedule.strides import depends, step_of
from dojoir.passes.schedule.versions import AtMost, Multiple, split_versions

FORMS = ((16384, 1024), (4096, 256))
"""The lengths up to which a row stays in registers, in units of a quarter of an access' elements, and the threads
of a block for it: at most four accesses each."""


def rows_by_length(trace: Trace, path: Path, rest: Callable[[Trace, Path], None]) -> None:
    """Gives each row, an iteration of the scope at `path`, to a block: a version for each range of lengths, and the
    schedule of `rest` for all other rows. Raises ArgumentError where it is not rows of one open length of which
    several steps read the same elements."""
    length = _length(trace.kernel, path)
    if not _read_again(trace.kernel, path):
        raise ArgumentError("no step reads again what another has read", "bad-arguments")
    width = _width(trace.kernel, path)
    longest = FORMS[0][0] * width // 4
    others, here = split_versions(trace, path, Multiple(str(length), width), AtMost(str(length), longest))
    forms, places = list(FORMS), []
    while forms:
        elements, threads = forms.pop(0)
        longer = here
        if forms:
            longer, here = split_versions(trace, here, AtMost(str(length), forms[0][0] * width // 4))
        row_in_registers(trace, longer, threads, elements // (4 * threads), width)
        places.append(longer)
    for at in places:  # last, as each move after them is held against what they promise
        make(trace, f"bind({format_path(at)}, gx)")
    rest(trace, others)


def row_in_registers(trace: Trace, path: Path, threads: int, times: int, width: int) -> None:
    """Shares each iteration of the scope at `path` out over `threads` of a block, which have `times` groups of
    `width` neighbours each of the scopes right inside. Raises DojoError where the length may be more."""
    length, again = _length(trace.kernel, path), _read_again(trace.kernel, path)
    for n, node in enumerate(_scope(trace, path).body):
        if isinstance(node, Scope):
            shared_out(trace, (*path, n), length, threads, times, width)
    for name in again:
        kept = fresh_name(trace.kernel, f"{name}_row")
        make(trace, f"stage({format_path(path)}, {name}, {kept}, in)")
        shared_out(trace, (*path, 0), length, threads, times, width)
        make(trace, f"join_scopes({format_path(path)}, {format_path((*path[:-1], path[-1] + 1))})")
        buffer = trace.kernel.buffer(kept)
        last = len(buffer.dims) - 1
        for d in range(last):
            make(trace, f"reuse_dims({kept}, {d})")
        make(trace, f"split_dim({kept}, {last}, {width * threads})")
        make(trace, f"split_dim({kept}, {last + 1}, {width})")
        make(trace, f"place({kept}, reg)")
    for n, node in enumerate(_scope(trace, path).body):
        if isinstance(node, Scope):
            place = format_path((*path, n))
            make(trace, f"bind({place}, bx)")
            make(trace, f"unroll({place}.0)")
            used = {access.buffer for access in accesses_in((node,))}
            in_memory = any(trace.kernel.buffer(name).storage != "reg" for name in used)
            make(trace, f"{'vectorize' if in_memory else 'unroll'}({place}.0.0.0)")


def shared_out(trace: Trace, path: Path, length: Affine, threads: int, times: int, width: int) -> None:
    """The scope at `path`, of up to `length` iterations, as `threads` times `times` times `width` ones, those past
    the end under a guard: threads outermost."""
    place, depth = format_path(path), trace.kernel.depth_of(path)
    count = len(_scope(trace, path).body)
    block = width * threads
    make(trace, f"split({place}, {block})")
    if width == 1:
        _one_each(trace, path, length, threads, times)
        return
    make(trace, f"split({place}.0, {width})")
    first = Affine.iterator(depth) * block + Affine.iterator(depth + 1) * width
    within = format_condition(Condition(first, "<", length))
    make(trace, f'add_guard({place}.0.0.0, {count}, "{within}")')
    make(trace, f"set_extent({place}.0.0, {width})")
    make(trace, f"set_extent({place}.0, {threads})")
    make(trace, f"set_extent({place}, {times})")
    make(trace, f'add_guard({place}.0.0, 1, "{within}")')
    make(trace, f"remove_guard({place}.0.0.0.0)")
    make(trace, f"swap_scopes({place})")


def _one_each(trace: Trace, path: Path, length: Affine, threads: int, times: int) -> None:
    """What `shared_out` does, of single elements and after the first split."""
    place, depth = format_path(path), trace.kernel.depth_of(path)
    number = Affine.iterator(depth) * threads + Affine.iterator(depth + 1)
    count = len(_scope(trace, (*path, 0)).body)
    make(trace, f'add_guard({place}.0.0, {count}, "{format_condition(Condition(number, "<", length))}")')
    make(trace, f"set_extent({place}.0, {threads})")
    if _scope(trace, path).extent.constant != times:
        make(trace, f"set_extent({place}, {times})")
    make(trace, f"swap_scopes({place})")


def _scope(trace: Trace, path: Path) -> Scope:
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope)
    return scope


def _length(kernel: Kernel, path: Path) -> Affine:
    """The one open extent of the scopes right inside of the one at `path`, which have statements alone."""
    scope = kernel.at(path)
    assert isinstance(scope, Scope)
    inside = [node for node in scope.body if isinstance(node, Scope)]
    extents = {node.extent for node in inside}
    plain = all(isinstance(child, Statement) for node in inside for child in node.body)
    if not (extents and len(extents) == 1 and plain and all(isinstance(n, Scope | Statement) for n in scope.body)):
        raise ArgumentError("the scopes inside have other scopes, or different extents", "bad-arguments")
    bounds = extents.pop().bounds
    if len(bounds) > 1 or bounds[0].is_constant or bounds[0].iterators:
        raise ArgumentError(f"the extent {bounds[0]} is no open size", "bad-arguments")
    return bounds[0]


def _read_again(kernel: Kernel, path: Path) -> list[str]:
    """The arguments of which several scopes right inside the one at `path` read the row, as it lies."""
    depth = kernel.depth_of(path)
    seen: dict[str, set[int]] = {}
    for site in kernel.sites:
        if site.path[: len(path)] == path and len(site.path) > len(path) + 1:
            for access in site.statement.reads:
                row = depends(access, depth) and step_of(kernel, access, depth + 1) == 1
                if row and kernel.buffer(access.buffer).role == "in":
                    seen.setdefault(access.buffer, set()).add(site.path[len(path)])
    return [name for name, places in seen.items() if len(places) > 1]


def _width(kernel: Kernel, path: Path) -> int:
    """How many neighbours one access moves."""
    sizes = [kernel.buffer(a.buffer).dtype.itemsize for a in accesses_in((kernel.at(path),))]
    return ACCESS_BYTES // max(sizes)
