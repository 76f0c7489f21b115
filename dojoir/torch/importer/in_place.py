"""What a module writes to its arguments and buffers, written where it is: no new array, and no copy back.

Export makes a new tensor of each write. Where all that reads the old one comes before, or reads the element that is
written, both are one array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from dojoir.torch.importer.element_values import ElementValue, parts
from dojoir.torch.importer.index import IteratorAtom, of_atom
from dojoir.torch.importer.nests import (
    ImportedProgram,
    Node,
    ProgramLoop,
    ProgramStatement,
    change,
    nodes,
    read,
    stores,
    values,
    written,
)
from dojoir.torch.importer.results import GivenInput, Input, KnownResult, Result, Stored, Viewed, buffers_of


def write_in_place(
    program: ImportedProgram, inputs: Sequence[Input], results: list[Result], changed: Mapping[int, int]
) -> frozenset[str]:
    """Makes one buffer of each result that is to be written to an input and of that input, where it can be.
    `changed` says the number of the input for that of the result. Gives the buffers that are written so."""
    made = set()
    given = {one.buffer for one in inputs}
    for number, target in changed.items():
        result, own = results[number], inputs[target].buffer
        if own is None or not isinstance(result, Stored) or list(changed.values()).count(target) > 1:
            continue
        others = [one for n, one in enumerate(results) if n != number]
        if {own, result.buffer} & buffers_of(others) or any(map(partial(_shows, number=target), others)):
            continue  # it is shown as it was, or would be another name of the argument
        _put_last(program, result.buffer)
        if result.buffer not in given and _is_possible(program, result.buffer, own):
            _join(program, result.buffer, own)
            results[number] = Stored(own, result.shape, result.dtype)
            made.add(own)
    return frozenset(made)


def _shows(result: Result, number: int) -> bool:
    """Whether a result is an input, or a view of it."""
    match result:
        case Viewed(of):
            return _shows(of, number)
        case GivenInput(own):
            return own == number
        case Stored() | KnownResult():
            return False


def _put_last(program: ImportedProgram, new: str) -> None:
    """Moves the one nest that writes an array to the end, where nothing after it waits for it, or writes what it
    reads or writes."""
    places = [n for n, nest in enumerate(program.nests) if new in written(nest)]
    if len(places) != 1:
        return
    nest, after = program.nests[places[0]], program.nests[places[0] + 1 :]
    own = written(nest)
    others = {load.buffer for load in nest.loads}
    if not any(own & {load.buffer for load in one.loads} or others & written(one) for one in after):
        program.nests = [*program.nests[: places[0]], *after, nest]


def _is_possible(program: ImportedProgram, new: str, old: str) -> bool:
    first, second = program.buffers[new], program.buffers[old]
    if first.order is not None or second.order is not None:
        return False
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    begun = False
    for nest in program.nests:
        if old in written(nest):
            return False
        reads = any(load.buffer == old for load in nest.loads)
        if new in written(nest):
            if reads and (begun or not _reads_what_it_writes(nest, new, old)):
                return False
            begun = True
        elif begun and reads:
            return False
    return begun


def _reads_what_it_writes(nest: Node, new: str, old: str) -> bool:
    """Whether a nest writes each element once, and reads of the old array none but that one."""
    own = [one.var for one in nodes(nest) if isinstance(one, ProgramLoop)]
    for store in stores(nest):
        found = [
            p for value in values(store) for p in parts(value) if isinstance(p, ElementValue) and p.buffer == old
        ]
        if store.target.buffer != new:
            if found:
                return False
            continue
        index = store.target.index
        atoms = [one.only for one in index if one.constant is None]
        is_whole = sorted(map(_key, atoms)) == sorted(map(_key, own))
        if store.op != "=" or store.at is not None or not is_whole or any(load.index != index for load in found):
            return False
    return sum(store.target.buffer == new for store in stores(nest)) == 1 and new not in read(nest)


def _key(atom: object) -> str:
    return atom.key if isinstance(atom, IteratorAtom) else ""


def _join(program: ImportedProgram, new: str, old: str) -> None:
    """Gives both buffers one name, and removes the nest that would copy the array to itself."""

    def renamed(load: ElementValue) -> ElementValue:
        return ElementValue(old, load.index, load.dtype) if load.buffer == new else load

    nests = [change(nest, of_atom, renamed) for nest in program.nests]
    program.nests = [nest for nest in nests if not all(_is_idle(store) for store in stores(nest))]
    del program.buffers[new]


def _is_idle(store: ProgramStatement) -> bool:
    return store.op == "=" and store.value == store.target and store.at is None
