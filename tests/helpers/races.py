"""Whether iterations of marked scopes are independent at given sizes, by running over every instance.

What the proof of `p` and `v` (`dojoir.proof.core.independence`) is held to: obvious, and free of sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import product
from typing import Any

from enumeration import Element, shape

from dojoir.ir.affine import Affine, Extremum, FloorDiv, Iter, Mod, SizeVar
from dojoir.ir.nodes import Access, Guard, Kernel, Node, Op, Path, Scope, Statement, expr_accesses
from dojoir.ir.packing import packed_dim

GRID = ("gx", "gy", "gz")
BLOCK = ("bx", "by", "bz", "lane")
MARKS = ("p", "v", *GRID, *BLOCK)

MOST = 2_000_000
"""How many iterations, and elements that gathers may read, a run may have together."""


class TooLong(Exception):
    """A run has more iterations than anyone waits for."""


Touch = tuple[int, tuple[int, ...], Element, tuple[Element, ...]]
"""A statement, its iteration, the storage that it writes and all that it may read."""


def race(
    kernel: Kernel, sizes: Mapping[str, int], data: Mapping[str, Any] | None = None, in_bytes: bool = False
) -> str | None:
    """A conflict between two iterations that a mark lets run side by side, in words, or None. An index from data is
    what `data` say of its array, or anything. `in_bytes`: the two elements in a byte of a packed buffer are one.
    Raises TooLong."""
    marked = [
        (path, mark)
        for path, node in kernel.walk()
        if isinstance(node, Scope)
        for mark in MARKS
        if mark in node.marks
    ]
    touches = run(kernel, sizes, data) if marked else []
    if in_bytes:
        halves = {buffer.name: packed_dim(buffer) for buffer in kernel.buffers if buffer.packed}
        touches = [
            (number, at, _byte(halves, target), tuple(_byte(halves, read) for read in reads))
            for number, at, target, reads in touches
        ]
    found = (_race_in(kernel, path, mark, touches) for path, mark in marked)
    return next((conflict for conflict in found if conflict is not None), None)


def _byte(halves: Mapping[str, int], element: Element) -> Element:
    """An element, or the byte that it shares with another: its number in the place of their index."""
    name, at = element
    half = halves.get(name)
    return element if half is None else (name, (*at[:half], at[half] // 2, *at[half + 1 :]))


def distinct_data(kernel: Kernel, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that the kernel knows to be distinct: of other data nothing is known."""
    return {name: array for name, array in given.items() if kernel.buffer(name).distinct}


# -- all that a run touches ----------------------------------------------------------------------------------
def run(kernel: Kernel, sizes: Mapping[str, int], data: Mapping[str, Any] | None = None) -> list[Touch]:
    """Every statement instance in the order of execution. Raises TooLong."""
    touches: list[Touch] = []
    values = {**sizes, **{size.name: size.value for size in kernel.sizes if size.value is not None}}
    every = {
        buffer.name: [
            range(1 if dim.collapsed else n)
            for dim, n in zip(buffer.dims, shape(kernel, buffer.name, values), strict=True)
        ]
        for buffer in kernel.buffers
    }
    _compiled(kernel, frozenset(data or ()))(
        touches.append, every, data, *(values[name] for name in kernel.runtime_sizes)
    )
    return touches


@lru_cache(maxsize=4)
def _compiled(kernel: Kernel, known: frozenset[str]) -> Callable[..., None]:
    """The loops of a kernel as a Python function that calls `touch` for each instance."""
    names: dict[str, object] = {"TooLong": TooLong, "product": product}
    parameters = ", ".join(["touch", "every", "data", *(f"n_{name}" for name in kernel.runtime_sizes)])
    lines = [f"def run({parameters}):", f" left = {MOST}"]
    numbers = iter(range(len(kernel.sites)))

    def spend(indent: str, amount: str) -> None:
        lines.append(f"{indent}left -= {amount}")
        lines.append(f"{indent}if left < 0: raise TooLong")

    def write(nodes: tuple[Node, ...], depth: int, level: int) -> None:
        indent = " " * level
        spend(indent, "1")
        for node in nodes:
            match node:
                case Scope(extent, body):
                    bounds = ", ".join(map(_python, extent.bounds))
                    lines.append(f"{indent}for i{depth} in range(min(({bounds},))):")
                    write(body, depth + 1, level + 1)
                case Guard(conditions, body):
                    held = (f"{_python(c.left)} {c.relation} {_python(c.right)}" for c in conditions)
                    lines.append(f"{indent}if {' and '.join(held)}:")
                    write(body, depth, level + 1)
                case Statement():
                    at = "".join(f"i{d}, " for d in range(depth))
                    reads = [_element(kernel, access, known) for access in expr_accesses(node.term)]
                    read = "".join(f"*{r}, " for r in reads)
                    target = _element(kernel, node.target, known)
                    for a in node.term_reads:
                        gathered = [d for d, index in enumerate(a.indices) if isinstance(index, Access)]
                        if gathered and not known:
                            spend(indent, " * ".join(f"len(every[{a.buffer!r}][{d}])" for d in gathered))
                    lines.append(f"{indent}touch(({next(numbers)}, ({at}), {target}[0], ({read})))")

    write(kernel.body, 0, 1)
    exec("\n".join(lines), names)
    made = names["run"]
    assert callable(made)
    return made


def _element(kernel: Kernel, access: Access, known: frozenset[str]) -> str:
    """The elements of storage that an access may touch, as the text of a Python sequence. An index that is read
    from data may be any of its dimension, if the data are not `known`."""
    dims = kernel.buffer(access.buffer).dims
    indices, single = [], True
    for d, (dim, index) in enumerate(zip(dims, access.indices, strict=True)):
        if not isinstance(index, Access):
            indices.append(f"({'0' if dim.collapsed else _python(index)},)")
        elif index.buffer in known and not any(isinstance(inner, Access) for inner in index.indices):
            at = ", ".join(_python(inner) for inner in index.indices if isinstance(inner, Affine))
            indices.append(f"(int(data[{index.buffer!r}][{at or '()'}]),)")
        else:
            indices.append(f"every[{access.buffer!r}][{d}]")
            single = False
    if single:
        return f"(({access.buffer!r}, ({''.join(index[1:-1] + ' ' for index in indices)})),)"
    return f"[({access.buffer!r}, e) for e in product({', '.join(indices)})]"


def _python(affine: Affine) -> str:
    """An affine expression in Python."""
    terms = [str(affine.offset)]
    for atom, factor in affine.terms:
        match atom:
            case SizeVar(name):
                text = f"n_{name}"
            case Iter(depth):
                text = f"i{depth}"
            case FloorDiv(numerator, divisor):
                text = f"(({_python(numerator)}) // {divisor})"
            case Mod(numerator, divisor):
                text = f"(({_python(numerator)}) % {divisor})"
            case Extremum(word, parts):
                text = f"{word}({', '.join(map(_python, parts))})"
        terms.append(f"{factor}*{text}")
    return " + ".join(terms)


# -- conflicts -----------------------------------------------------------------------------------------------
def private_buffers(kernel: Kernel, path: Path, mark: str) -> set[str]:
    """The temporaries that are used nowhere but inside the scope at `path`, and of which its iterations have each
    their own: on a GPU registers and stack are a thread's, shared memory is a block's, the heap is nobody's."""
    where = {"stack", "reg"} if mark in BLOCK else {"stack", "reg", "shared"}
    own = where if mark in GRID or mark in BLOCK else {"heap", *where, "shared"}
    users: dict[str, list[Path]] = {}
    for site in kernel.sites:
        for access in site.statement.accesses:
            users.setdefault(access.buffer, []).append(site.path)
    return {
        name
        for name, paths in users.items()
        if kernel.buffer(name).role == "tmp"
        and kernel.buffer(name).storage in own
        and all(p[: len(path)] == path for p in paths)
    }


def _free(kernel: Kernel, statement: Statement) -> bool:
    """Whether the order of accumulations by the operator of a statement is free, where no other comes between."""
    inexact = kernel.buffer(statement.target.buffer).dtype.is_float and statement.accumulation in {"+=", "*="}
    return statement.accumulation is not None and not (inexact and kernel.fp == "strict")


def _shares(kernel: Kernel, statement: Statement, mark: str) -> bool:
    """Whether iterations under a mark may accumulate into one element: lanes and the threads of a block put
    partial results together, blocks do it by atomics."""
    return mark != "p" and _free(kernel, statement)


def _race_in(kernel: Kernel, path: Path, mark: str, touches: list[Touch]) -> str | None:
    """The same of one scope. Which iteration stores at an index from data under a condition on data, as the last
    writer does, no enumeration knows: test_last_writer runs such kernels, and here they store nothing."""
    depth = kernel.depth_of(path)
    private = private_buffers(kernel, path, mark)
    inside = [site.path[: len(path)] == path for site in kernel.sites]
    statements = [site.statement for site in kernel.sites]
    kept = [bool(s.scatters) and isinstance(s.value, Op) and s.value.name == "when" for s in statements]
    writes = [s.accumulation or "write" if _shares(kernel, s, mark) else "write" for s in statements]
    touched: dict[tuple[tuple[int, ...], Element], set[tuple[int, str]]] = {}
    values: dict[Element, set[tuple[int, ...]]] = {}
    for number, at, target, reads in touches:
        if not inside[number]:
            continue
        me, run = at[: depth + 1], at[:depth]
        for element in reads:
            if element[0] not in private:
                touched.setdefault((run, element), set()).add((at[depth], "read"))
            elif values.get(element, {me}) != {me}:
                return f"scope {path} {mark}: {element} carried to {at} from {values[element]}"
        if kept[number]:
            continue
        if target[0] in private:
            values[target] = {me} | (values.get(target, set()) if statements[number].accumulation else set())
        else:
            touched.setdefault((run, target), set()).add((at[depth], writes[number]))
    for (run, element), users in touched.items():
        hows = {how for _, how in users}
        if len(users) == 1 or hows == {"read"} or (len(hows) == 1 and "write" not in hows):
            continue
        for turn, how in users:
            if how != "read" and any(t != turn and (h != how or h == "write") for t, h in users):
                return f"scope {path} {mark}: {element} at {run} by {sorted(users)}"
    return None
