"""Kernels joined into one, which runs them one after the other: where fusion of kernels begins."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import count, product

from dojoir.errors import ArgumentError, Diagnostic, Note, did_you_mean
from dojoir.ir.format import format_buffer
from dojoir.ir.nodes import FP_MODES, Buffer, Condition, Kernel, Scope, Size
from dojoir.ir.rewriting.rename import renamed
from dojoir.ir.where import place
from dojoir.ir.words import name_error
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.public import public


@public
def chain(
    *kernels: Kernel,
    keep: Collection[str] = (),
    rename: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Kernel:
    """One kernel that does what the kernels do, one after the other, joined by the names of their arguments.

    An `out` of one that is an `in` of a later one becomes a `tmp`, unless it is among `keep`; what a later one has
    as `inout` stays an argument. Arguments of one name are one argument: they must have the same type and, by the
    facts or to the letter, the same extents. Sizes of one name are one size; where one kernel fixes it, it is
    fixed. The facts of all hold, and the strictest of their fp modes.

    `rename` gives sizes and buffers of all kernels but the first other names, before they are joined. Temporaries
    never meet: one whose name is taken gets the first free of NAME2, NAME3, …; so do labels. The kernel is called
    `name`, else as its parts, with `_` between.

    Raises ArgumentError where two declarations do not fit together, naming both.

    >>> import dojoir
    >>> scale = dojoir.parse('''kernel scale(N, M)
    ... in  x: f32[N, M]
    ... out y: f32[N, M]
    ... N
    ... | M
    ... | | y[{0}, {1}] = 2 * x[{0}, {1}]
    ... ''')
    >>> print(dojoir.chain(scale, dojoir.kernels.load("reduce_max"), rename={"x": "y", "y": "z"}))
    kernel scale_reduce_max(N, M)
    in  x: f32[N, M]
    tmp y: f32[N, M]
    out z: f32[N]
    <BLANKLINE>
    N
    | M
    | | y[{0}, {1}] = 2 * x[{0}, {1}]
    N @i
    | z[{i}] = -inf
    | M @j
    | | z[{i}] max= y[{i}, {j}]
    <BLANKLINE>
    """
    if not kernels:
        raise ArgumentError("chain needs at least one kernel", "nothing-to-chain")
    given = _with_names(kernels, dict(rename or {}))
    given = _with_fixed_sizes(given)
    given = _with_own_temporaries(given)
    joined = _Arguments(sizes=_united_sizes(given), facts=_united_facts(given))
    for kernel in given:
        joined.add(kernel)
    return Kernel(
        name or "_".join(kernel.name for kernel in kernels),
        joined.sizes,
        joined.buffers(keep),
        tuple(node for kernel in given for node in kernel.body),
        joined.facts,
        min((kernel.fp for kernel in given), key=FP_MODES.index),
    )


# -- names and sizes -----------------------------------------------------------------------------------------
def _names(kernel: Kernel) -> list[str]:
    return [*(size.name for size in kernel.sizes), *(buffer.name for buffer in kernel.buffers)]


def _with_names(kernels: tuple[Kernel, ...], names: dict[str, str]) -> list[Kernel]:
    """The kernels after the first under other names. Raises ArgumentError for names that none has or can have."""
    known = {name for kernel in kernels[1:] for name in _names(kernel)}
    for old, new in names.items():
        if old not in known:
            raise ArgumentError(
                f"no kernel after the first has a size or buffer '{old}' to rename{did_you_mean(old, known)}",
                "unknown-name",
            )
        wrong = name_error(new)
        if wrong is not None:
            raise ArgumentError(wrong, "bad-name")
    for kernel in kernels[1:]:
        came_from: dict[str, str] = {}
        for old in _names(kernel):
            new = names.get(old, old)
            if came_from.setdefault(new, old) != old:
                raise ArgumentError(
                    f"'{came_from[new]}' and '{old}' of kernel {kernel.name} would both be called '{new}'",
                    "name-clash",
                )
    return [kernels[0], *(renamed(kernel, names) for kernel in kernels[1:])]


def _with_fixed_sizes(kernels: list[Kernel]) -> list[Kernel]:
    """The kernels with every size fixed that one of them fixes. Raises ArgumentError where two fix one
    differently."""
    fixed: dict[str, tuple[int, Kernel]] = {}
    for kernel in kernels:
        for size in kernel.sizes:
            if size.value is None:
                continue
            value, other = fixed.setdefault(size.name, (size.value, kernel))
            if value != size.value:
                raise ArgumentError(
                    f"{other.name} fixes {size.name} = {value} and {kernel.name} fixes {size.name} = {size.value}: "
                    f"rename={{'{size.name}': …}} keeps them apart",
                    "different-sizes",
                )
    result = []
    for kernel in kernels:
        given = {name: fixed[name][0] for name in kernel.runtime_sizes if name in fixed}
        result.append(kernel.specialize(**given) if given else kernel)
    return result


def _with_own_temporaries(kernels: list[Kernel]) -> list[Kernel]:
    """The kernels with temporaries and labels of names that nothing else in any of them has."""
    used = {size.name for kernel in kernels for size in kernel.sizes}
    used |= {buffer.name for kernel in kernels for buffer in kernel.arguments}
    labels: set[str] = set()
    result = []
    for kernel in kernels:
        names = _free((b.name for b in kernel.buffers if b.role == "tmp"), used)
        own = {node.label for _, node in kernel.walk() if isinstance(node, Scope) and node.label is not None}
        result.append(renamed(kernel, names, _free(sorted(own), labels)))
    return result


def _free(wanted: Iterable[str], used: set[str]) -> dict[str, str]:
    """A name for each that is wanted, itself or with a number after it, that is not used; they are used then."""
    found: dict[str, str] = {}
    for name in wanted:
        numbered = (f"{name}{n}" for n in count(2))
        found[name] = name if name not in used else next(other for other in numbered if other not in used)
        used.add(found[name])
    return found


def _united_sizes(kernels: list[Kernel]) -> tuple[Size, ...]:
    return tuple({size.name: replace(size, loc=None) for kernel in kernels for size in kernel.sizes}.values())


def _united_facts(kernels: list[Kernel]) -> tuple[Condition, ...]:
    return tuple(dict.fromkeys(fact for kernel in kernels for fact in kernel.facts))


# -- arguments -----------------------------------------------------------------------------------------------
class _Arguments:
    """The buffers of the kernels so far: for each argument its declaration, the kernel that it is from, and whether
    the last kernel that has it takes it from an earlier one."""

    def __init__(self, sizes: tuple[Size, ...], facts: tuple[Condition, ...]) -> None:
        self.sizes, self.facts = sizes, facts
        self._declared: dict[str, Buffer] = {}
        self._origin: dict[str, tuple[Kernel, Buffer]] = {}
        self._passed_on: set[str] = set()

    def add(self, kernel: Kernel) -> None:
        """Joins the buffers of the next kernel to those so far. Raises ArgumentError where they do not fit."""
        for buffer in kernel.buffers:
            if any(size.name == buffer.name for size in self.sizes):
                raise _mismatch(
                    "name-clash", f"the buffer `{buffer.name}` is a size of another kernel", kernel, buffer
                )
            known = self._declared.get(buffer.name)
            if known is None:
                self._declared[buffer.name] = buffer
                self._origin[buffer.name] = (kernel, buffer)
                continue
            self._check_alike(kernel, buffer)
            strided = known.strided or buffer.strided
            flat = None if strided else known.flat or buffer.flat
            role = self._role(kernel, known.role, buffer)
            facts = tuple(dict.fromkeys((*known.facts, *buffer.facts))) if role == "in" else ()
            self._declared[buffer.name] = replace(known, role=role, strided=strided, flat=flat, facts=facts)

    def buffers(self, keep: Collection[str]) -> tuple[Buffer, ...]:
        """All buffers, those that only pass values on as temporaries. Raises ArgumentError for an unknown name."""
        for name in keep:
            if name not in self._declared or self._declared[name].role == "tmp":
                known = [b.name for b in self._declared.values() if b.role != "tmp"]
                raise ArgumentError(
                    f"there is no argument '{name}' to keep{did_you_mean(name, known)}", "unknown-name"
                )
        inner = self._passed_on - set(keep)
        return tuple(
            replace(buffer, role="tmp", strided=False, flat=None, loc=None)
            if buffer.name in inner
            else replace(buffer, loc=None)
            for buffer in self._declared.values()
        )

    def _role(self, kernel: Kernel, before: str, buffer: Buffer) -> str:
        match before, buffer.role:
            case "out", "in":
                self._passed_on.add(buffer.name)
                return "out"
            case "out", "inout":
                self._passed_on.discard(buffer.name)
                return "out"
            case (("in" | "inout"), "in"):
                return before
            case (("in" | "inout"), "inout"):
                return "inout"
        first, declared = self._origin[buffer.name]
        raise _mismatch(
            "overwritten-argument",
            f"{kernel.name} writes `{buffer.name}` anew, which is an argument of {first.name} already: "
            f"rename={{'{buffer.name}': …}} keeps them apart",
            kernel,
            buffer,
            (first, declared),
        )

    def _check_alike(self, kernel: Kernel, buffer: Buffer) -> None:
        first, declared = self._origin[buffer.name]
        both = (first, declared)
        mine, its = format_buffer(buffer), format_buffer(declared)
        start = f"`{mine}` of {kernel.name} does not fit `{its}` of {first.name}"
        if buffer.dtype != declared.dtype:
            raise _mismatch(
                "different-types", f"{start}: {buffer.dtype} is not {declared.dtype}", kernel, buffer, both
            )
        if len(buffer.dims) != len(declared.dims):
            ranks = f"{len(buffer.dims)} dimensions are not {len(declared.dims)}"
            raise _mismatch("different-ranks", f"{start}: {ranks}", kernel, buffer, both)
        if (buffer.order, buffer.pad, buffer.align) != (declared.order, declared.pad, declared.align):
            raise _mismatch("different-layouts", f"{start}: their layouts differ", kernel, buffer, both)
        for new_fact, old_fact in product(buffer.facts, declared.facts):
            if new_fact.word == old_fact.word and new_fact != old_fact:
                what = f"{new_fact} is not {old_fact}"
                raise _mismatch("different-extents", f"{start}: {what}", kernel, buffer, both)
        united = Kernel("united", self.sizes, (), (), self.facts)
        for number, (new, old) in enumerate(zip(buffer.dims, declared.dims, strict=True)):
            if new.extent != old.extent and not sets_of(united).always(Condition(new.extent, "==", old.extent)):
                cure = ""
                if str(new.extent) in kernel.runtime_sizes and str(old.extent) in first.runtime_sizes:
                    cure = f"; rename={{'{new.extent}': '{old.extent}'}} makes them one size"
                what = f"{new.extent} is not {old.extent} in dimension {number}"
                raise _mismatch("different-extents", f"{start}: {what}{cure}", kernel, buffer, both)


def _mismatch(
    code: str, message: str, kernel: Kernel, buffer: Buffer, other: tuple[Kernel, Buffer] | None = None
) -> ArgumentError:
    """An error about a declaration of one kernel, with a note where that of another stands."""
    source, span = place(kernel, (), buffer)
    notes: tuple[Note, ...] = ()
    if other is not None:
        first, declared = other
        its, where = place(first, (), declared)
        notes = (Note(f"`{format_buffer(declared)}` is declared at {its.name}:{where.line}:{where.column}"),)
    return ArgumentError(Diagnostic(code, message, span, source, notes))
