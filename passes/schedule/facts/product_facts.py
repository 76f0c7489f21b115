"""Products of matrices: nests in which two arrays are multiplied and summed, found by their accesses.

Convolutions: sums of products over windows, found by their accesses.
"""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Cast, Condition, Expr, Guard, Kernel, Op, Path, Scope, Site, Statement
from dojoir.passes.schedule.facts.strides import NEAR, depends, kept_by, step_of
from dojoir.support.frozen import dataclass

HALVES, BYTES, FP8 = ("bf16", "f16"), ("i8", "u8"), ("f8e4m3", "f8e5m2")
"""The narrow types that matrix units multiply: a half by its own type, and either of two of eight bits."""


@dataclass(frozen=True)
class MatrixProduct:
    """A nest `i > j > (…, k > c[i, j] += a[i, k] * b[k, j], …)`: the path of its scope over rows, and the array
    that does not depend on the row (`b`), with the dimension of it that goes with the columns. It may sum over
    several scopes inside each other, as over the heads of an attention and what each has. And it may add up several
    products at once: `more` are the arrays like `b` that come after the first."""

    rows: Path
    site: Site
    panel: str
    column_dim: int
    sums: int
    more: tuple[tuple[str, int], ...] = ()
    guards: int = 0
    """Conditions inside of the sums, on neither row nor column."""

    @property
    def panels(self) -> tuple[tuple[str, int], ...]:
        """All arrays that do not depend on the row."""
        return ((self.panel, self.column_dim), *self.more)

    @property
    def columns(self) -> Path:
        """The path of its scope over columns."""
        return (*self.rows, 0)

    @property
    def column_scope(self) -> Scope:
        return self.site.scopes[-1 - self.sums]


MOST_SUMS = 3
"""Over how many scopes a product sums at most, to have a register tile."""


def products(
    kernel: Kernel, most_sums: int = 1, weighted: bool = False, guarded: bool = False
) -> Iterator[MatrixProduct]:
    """The nests that multiply matrices and sum over so many scopes at most, in the order of the text. With those
    that are `weighted`, by a factor that goes along the sum alone, and those that are `guarded`, where conditions
    leave terms out, if they are asked for."""
    for site in kernel.sites:
        found = _product(kernel, site, weighted)
        if found is not None and found.sums <= most_sums and (guarded or not found.guards):
            yield found


def is_of_two(value: Expr) -> bool:
    """Whether a value is a product of two elements, of some type each."""
    match value:
        case Op("mul", (Access() | Cast(arg=Access()), Access() | Cast(arg=Access()))):
            return True
    return False


def product_at(kernel: Kernel, rows: Path) -> MatrixProduct | None:
    """The product whose rows are at a path, if there is one."""
    return next((product for product in products(kernel) if product.rows == rows), None)


def _product(kernel: Kernel, site: Site, weighted: bool) -> MatrixProduct | None:
    target, *reads = site.statement.accesses
    kept = kept_by(site)
    sums = len(site.scopes) - kept[-1] - 1 if kept else 0
    if site.statement.accumulation != "+=" or sums < 1 or len(kept) < 2 or kept[-2] != kept[-1] - 1:
        return None
    row, column = kept[-2:]
    inner = range(column + 1, len(site.scopes))
    i, j, *summed = site.scopes[row:]
    nest = site.ancestors[len(site.scope_paths[row]) - 1 :]
    guards = [node for node in nest if isinstance(node, Guard)]
    apart = nest[2:] == (*summed, *guards) and not any(_asks(guard, {row, column}) for guard in guards)
    bodies = [scope.body for scope in (i, *summed)] + [guard.body for guard in guards]
    plain = nest[:2] == (i, j) and apart and all(len(body) == 1 for body in bodies)
    single = sum(isinstance(node, Scope) for node in j.body) == 1
    bounds = (bound for scope in (i, j, *summed) for bound in scope.extent.bounds)
    square = not any(d >= row for bound in bounds for d in bound.iterators)
    unmarked = not any(scope.marks for scope in site.scopes)
    if not (plain and single and square and unmarked and all(isinstance(n, Scope | Statement) for n in j.body)):
        return None
    if not goes_along(kernel, target, column):
        return None
    factors = list(dict.fromkeys(a for a in reads if any(depends(a, d) for d in inner)))
    if weighted:
        factors = [a for a in factors if depends(a, column) or depends(a, row)]
    panels = [a for a in factors if depends(a, column) and not depends(a, row)]
    others = [a for a in factors if depends(a, row) and not depends(a, column)]
    if not panels or not others or len(panels) + len(others) < len(factors):
        return None
    found: dict[str, int] = {}
    for panel in panels:
        dims = [d for d, index in enumerate(panel.indices)
                if isinstance(index, Access) or column in index.iterators]  # fmt: skip
        if len(dims) != 1 or (sums > 1 and panel.indices[dims[0]] != Affine.iterator(column)):
            return None
        if found.setdefault(panel.buffer, dims[0]) != dims[0]:
            return None
    (first, dim), *more = found.items()
    return MatrixProduct(site.scope_paths[row], site, first, dim, sums, tuple(more), len(guards))


def goes_along(kernel: Kernel, target: Access, depth: int) -> bool:
    """Whether results lie side by side along a scope, or are each the same part of a group, as a complex number's
    real part."""
    if step_of(kernel, target, depth) == 1:
        return True
    along = [d for d, index in enumerate(target.indices) if index == Affine.iterator(depth)]
    behind = target.indices[along[0] + 1 :] if len(along) == 1 else ()
    parts = all(isinstance(index, Affine) and index.is_constant for index in behind)
    return len(behind) > 0 and parts and kernel.buffer(target.buffer).order is None


def _asks(guard: Guard, depths: set[int]) -> bool:
    """Whether a condition is on one of some iterators, or on data."""
    return not all(
        isinstance(c, Condition) and not depths & (c.left.iterators | c.right.iterators) for c in guard.conditions
    )


@dataclass(frozen=True)
class Convolution:
    """A nest `o > … > w > (…, nest of y[o, w] += x[w] * f[o], …)`: the paths of the scopes over channels and over
    columns, the array `filters` that does not depend on the column, and the dimension of it that goes with the
    channels. It is `strided` where neighbouring columns do not read neighbours of the image."""

    channels: Path
    columns: Path
    site: Site
    filters: str
    channel_dim: int
    strided: bool = False


def convolutions(kernel: Kernel) -> Iterator[Convolution]:
    """The sums of products in which one factor does not depend on the columns and the other not on the channels, in
    the order of the text."""
    for site in kernel.sites:
        found = _convolution(kernel, site)
        if found is not None:
            yield found


def _convolution(kernel: Kernel, site: Site) -> Convolution | None:
    target, *reads = site.statement.accesses
    if site.statement.accumulation != "+=" or any(scope.marks for scope in site.scopes):
        return None
    kept = kept_by(site)
    if len(kept) < 2 or len(kept) == len(site.scopes):
        return None
    column = kept[-1]
    inner = range(column + 1, len(site.scopes))
    alone = len(inner) > 1 or (inner and len(site.scopes[-1].body) == 1)
    if (step_of(kernel, target, column, NEAR) or 0) < 1 or not alone:
        return None
    for channel in reversed(kept[:-1]):
        filters = [a for a in reads if depends(a, channel) and not depends(a, column)]
        images = [a for a in reads if depends(a, column) and not depends(a, channel) and a.buffer != target.buffer]
        if len(filters) == 1 and images:
            strided = any(step_of(kernel, a, column) != 1 for a in images)
            dims = [d for d, i in enumerate(filters[0].indices) if isinstance(i, Access) or channel in i.iterators]
            paths = [site.scope_paths[depth] for depth in (channel, column)]
            plain = len(dims) == 1 and filters[0].indices[dims[0]] == Affine.iterator(channel)
            if plain and is_box(site, channel) and _is_perfect(kernel, *paths):
                return Convolution(paths[0], paths[1], site, filters[0].buffer, dims[0], strided)
    return None


def is_box(site: Site, depth: int) -> bool:
    """Whether no extent around a statement depends on the iterator of `depth` or on one inside it."""
    return not any(d >= depth for s in site.scopes for bound in s.extent.bounds for d in bound.iterators)


def _is_perfect(kernel: Kernel, outer: Path, inner: Path) -> bool:
    """Whether each scope from one to the other is the only child of the one before."""
    nodes = [kernel.at(inner[:length]) for length in range(len(outer), len(inner))]
    return all(isinstance(node, Scope) and len(node.body) == 1 for node in nodes)
