"""The kernel of a gradient, put together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dojoir.gradient.activity import check_keys, useful, varied
from dojoir.gradient.backward import Backward
from dojoir.gradient.extremes import EXTREMES, assigned, search
from dojoir.gradient.forward import needed, recomputed
from dojoir.gradient.gradient_names import FreshNames, check_kept, check_names
from dojoir.gradient.nests import sums_in_own_nests
from dojoir.gradient.product_nests import distributed
from dojoir.gradient.shifts import cancels
from dojoir.gradient.starts import copies, started
from dojoir.gradient.temporaries import expanded, plain
from dojoir.grammar import parse
from dojoir.ir.expressions import Access
from dojoir.ir.nodes import Buffer, Kernel, Node, Statement, with_body
from dojoir.ir.rewriting.rewrite import map_accesses
from dojoir.ir.text import to_text
from dojoir.support.public import public


@public
def gradient(
    kernel: Kernel,
    of: Collection[str] | None = None,
    *,
    keep: Collection[str] = (),
    name: str | None = None,
    prefix: str = "d_",
) -> Kernel:
    """The adjoint of a kernel (its vector-Jacobian product), as a kernel: from the gradient of a scalar by the
    results it computes the gradient by some of the inputs.

    It takes `d_y` for each floating-point result `y` that depends on one of the inputs `of` (by default all that
    are floats), each of the shape and type of its result. It gives `d_x` for each `x` of `of`. For an `inout`
    argument `d_y` is `inout` as well: the gradient by its last value, and then by its first. It takes those
    inputs of the kernel that it needs, under their own names. What else it needs of the forward pass it computes
    again, but for the results and temporaries `keep`, which it takes as inputs with their last values. Sizes and
    facts are those of the kernel; one that no shape gives any more is given by name.

    `max=`, `min=`, `max(a, b)` and `min(a, b)` give their gradient to the first that reached the value; of a
    value and a number it is the number, so that the slope of `max(x, 0)` at 0 is 0. `abs` has the slope 0 there,
    `floor`, `ceil` and `round` everywhere. Casts between floats count as the identity; integers have no gradient.

    The result is called `name`, else `NAME_gradient`, and `prefix` stands for `d_`, as in the gradient of a
    gradient. Raises ArgumentError for names that the kernel does not have (`no-such-input`, `unknown-buffer`,
    `bad-keep`) or that are taken (`name-clash`), and KernelError (`no-derivative`), with the line, for an
    operation that has no derivative.

    >>> import dojoir
    >>> print(dojoir.gradient(dojoir.kernels.load("matmul"), of=("a",)))
    kernel matmul_gradient(N, M, K)
    in  b: f32[K, M]
    in  d_c: f32[N, M]
    out d_a: f32[N, K]
    <BLANKLINE>
    N
    | K
    | | d_a[{0}, {1}] = 0
    | | M
    | | | d_a[{0}, {1}] += d_c[{0}, {2}] * b[{1}, {2}]
    <BLANKLINE>
    """
    wanted = check_names(kernel, of, keep)
    given = expanded(plain(kernel))
    active = varied(given, wanted) & useful(given)
    check_keys(given, varied(given, wanted))
    given = assigned(given, active)
    active = varied(given, wanted) & useful(given, _cancelled(given, active))
    names = FreshNames(given, prefix)
    gradients = {b.name: names.gradient(b.name) for b in given.buffers if b.name in active or b.name in wanted}
    check_kept(kernel, given, keep)
    searches = {
        k: search(given, site, names.free(f"{site.statement.target.buffer}_at"))
        for k, site in enumerate(given.sites)
        if site.statement.op in EXTREMES and site.statement.target.buffer in active
    }
    back = Backward(given, {b: gradients[b] for b in active}, searches, names, keep)
    tree = [part for node in back.tree() for one in distributed(node) for part in sums_in_own_nests(one)]
    finds = [
        _as_it_was(back, k, found.nest, given.sites[k].statement.target.buffer) for k, found in searches.items()
    ]
    return _Result(given, wanted, tuple(keep), gradients, names).kernel(
        name or f"{kernel.name}_gradient", back, tree, finds, [s.buffer for s in searches.values()]
    )


def _cancelled(kernel: Kernel, active: Collection[str]) -> frozenset[str]:
    """The extremes whose gradient is 0, since the results are the same for other values of theirs."""
    extremes = {
        site.statement.target.buffer
        for site in kernel.sites
        if site.statement.op in EXTREMES and site.statement.target.buffer in active
    }
    return frozenset(one for one in extremes if kernel.buffer(one).role == "tmp" and cancels(kernel, one))


def _as_it_was(back: Backward, number: int, nest: Node, last: str) -> Node:
    if isinstance(nest, Statement):
        return back.as_it_was(number, nest, last)
    return with_body(nest, (_as_it_was(back, number, nest.body[0], last),))


def _used(nodes: Collection[Node]) -> set[str]:
    return set().union(*(node.buffers for node in nodes))


class _Result:
    """Puts the parts of a gradient together."""

    def __init__(
        self,
        given: Kernel,
        wanted: tuple[str, ...],
        keep: tuple[str, ...],
        gradients: dict[str, str],
        names: FreshNames,
    ) -> None:
        self._given, self._wanted, self._keep, self._gradients = given, wanted, keep, gradients
        self._names = names

    def kernel(
        self, name: str, back: Backward, tree: list[Node], finds: list[Node], numbers: list[Buffer]
    ) -> Kernel:
        given = self._given
        declared = {b.name for b in given.buffers}
        first = (_used([*tree, *finds]) | {access.buffer for _, access in back.kept}) & declared
        first |= {a.buffer for _, access in back.kept for a in access.accesses()}
        conditions = {b for k, _ in back.kept for b in given.sites[k].statement.buffers_read}
        first |= {b for k, _ in back.kept if given.sites[k].statement.condition is not None for b in conditions}
        forward = needed(given, first, self._keep)
        computed = {
            s.statement.target.buffer for s in given.sites if s.statement.target.buffer in forward - {*self._keep}
        }
        body: list[Node] = list(recomputed(given, computed, back.kept))
        buffers: list[Buffer] = []
        for buffer in given.buffers:
            if buffer.name not in forward:
                continue
            plain_one = replace(buffer, stream=0)
            if buffer.name in self._keep:
                buffers.append(replace(plain_one, role="in"))
            elif buffer.role in ("in", "tmp"):
                buffers.append(plain_one)
            elif buffer.role == "out":
                buffers.append(_temporary(buffer, buffer.name))
            elif buffer.name in computed:
                copy = _temporary(buffer, self._names.free(buffer.name))
                buffers += [replace(plain_one, role="in"), copy]
                body = [copies(copy, buffer), *(_with_name(node, buffer.name, copy.name) for node in body)]
                tree = [_with_name(node, buffer.name, copy.name) for node in tree]
                finds = [_with_name(node, buffer.name, copy.name) for node in finds]
            else:
                buffers.append(replace(plain_one, role="in"))
        body += finds
        made, fresh, before, tree, after = self._gradient_buffers(tree)
        whole = [*body, *before, *tree, *after]
        buffers += [*back.kept.values(), *back.scalars, *numbers, *made]
        result = Kernel(name, given.sizes, _in_order(buffers), tuple(whole), given.facts, given.fp)
        for number in numbers:
            result = started(result, number.name, 2 ** (number.dtype.bits - 1) - 1)
        for one in made:
            if one.name in fresh:
                result = started(result, one.name)
        used = _used(result.body)
        result = result.evolve(buffers=tuple(b for b in result.buffers if b.role != "tmp" or b.name in used))
        return parse(to_text(result), name=name)

    def _gradient_buffers(
        self, tree: list[Node]
    ) -> tuple[list[Buffer], set[str], list[Node], list[Node], list[Node]]:
        """The gradients as buffers, which of them begin at 0, what is done before and after, and the tree."""
        made: list[Buffer] = []
        fresh: set[str] = set()
        before: list[Node] = []
        after: list[Node] = []
        for of, name in self._gradients.items():
            buffer = self._given.buffer(of)
            uses = [s for node in tree for s in _statements(node) if name in s.buffers]
            writes = [s for s in uses if s.target.buffer == name]
            argument = Buffer("in", name, buffer.dtype, buffer.dims, flat=buffer.flat)
            wide = _temporary(replace(buffer, dtype=buffer.dtype.compute), name)
            if buffer.role == "tmp":
                made.append(wide)
                fresh.add(name)
            elif buffer.role == "in":
                if buffer.dtype.compute != buffer.dtype and len(writes) > 1:
                    sums = replace(wide, name=self._names.free(f"{name}_sum"))
                    tree[:] = [_with_name(node, name, sums.name) for node in tree]
                    made += [replace(argument, role="out"), sums]
                    fresh.add(sums.name)
                    after.append(copies(argument, sums))
                else:
                    made.append(replace(argument, role="out"))
                    fresh.add(name)
            elif buffer.role == "inout" and of in self._wanted:
                made.append(replace(argument, role="inout"))
            elif writes:
                own = replace(wide, name=self._names.free(f"{name}_sum"))
                tree[:] = [_with_name(node, name, own.name) for node in tree]
                made += [argument, own]
                before.append(copies(own, argument))
            else:
                made.append(argument)
        return made, fresh, before, tree, after


def _statements(node: Node) -> list[Statement]:
    return [node] if isinstance(node, Statement) else [site.statement for site in node.inner]


def _temporary(buffer: Buffer, name: str) -> Buffer:
    return Buffer("tmp", name, buffer.dtype, buffer.dims)


def _with_name(node: Node, old: str, new: str) -> Node:
    return map_accesses(node, lambda a: Access(new, a.indices, a.loc) if a.buffer == old else a)


def _in_order(buffers: list[Buffer]) -> tuple[Buffer, ...]:
    """Inputs first, then what is given and put out, then temporaries."""
    roles = ("in", "inout", "out", "tmp")
    return tuple(sorted(buffers, key=lambda b: roles.index(b.role)))
