"""Texts of kernels: nests printed in the language, with the sizes and the arguments that they use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dojoir.torch.importer.index import Index, Size, Var, render
from dojoir.torch.importer.nests import Buffer, Loop, Node, Program, Store, When, all_indices, loads, loop_extents
from dojoir.torch.importer.values import to_text

LETTERS = "ijklmnpqrstuvwxyz"


def kernel_text(
    name: str,
    program: Program,
    nests: Sequence[Node],
    roles: dict[str, str],
    facts: dict[str, tuple[int, int | None]],
) -> str:
    """The kernel of some nests of a program. `roles` says of each buffer whether it is `in`, `out` or `tmp`;
    `facts` gives the least and the largest value of sizes."""
    used = dict.fromkeys(load.buffer for nest in nests for load in loads(nest))
    order = {"in": 0, "inout": 1, "out": 2, "tmp": 3}
    buffers = sorted((program.buffers[b] for b in used), key=lambda b: order[roles[b.name]])
    sizes = sorted({a.name for i in _all(buffers, nests) for a in i.atoms if isinstance(a, Size)})
    lines = [f"kernel {name}({', '.join(sizes)})"]
    known = [f"{s} >= {low}" for s in sizes for low, _ in [facts.get(s, (1, None))] if low > 1]
    known += [f"{s} <= {high}" for s in sizes for _, high in [facts.get(s, (1, None))] if high is not None]
    lines += [f"where {', '.join(known)}"] if known else []
    width = max((len(roles[b.name]) for b in buffers), default=3)
    lines += [f"{roles[b.name]:{width}} {_declared(b)}" for b in buffers]
    lines.append("")
    for nest in nests:
        lines += _lines(nest, 0, {})
    return "\n".join(lines) + "\n"


def _all(buffers: Sequence[Buffer], nests: Sequence[Node]) -> Iterator[Index]:
    for buffer in buffers:
        yield from buffer.shape
    for nest in nests:
        yield from all_indices(nest)
        yield from loop_extents(nest)


def _declared(buffer: Buffer) -> str:
    shape = ", ".join(render(s, lambda a: a.key) for s in buffer.shape)
    order = "" if buffer.order is None else f" order({', '.join(map(str, buffer.order))})"
    return f"{buffer.name}: {buffer.dtype}{f'[{shape}]' if buffer.shape else ''}{order}"


def _lines(node: Node, depth: int, labels: dict[int, str]) -> Iterator[str]:
    bars = "| " * depth

    def var(one: Var) -> str:
        return f"{{{labels[one.number]}}}"

    def index(one: Index) -> str:
        return render(one, lambda a: var(a) if isinstance(a, Var) else a.key)

    match node:
        case Loop(own, body):
            label = _label(len(labels))
            yield f"{bars}{index(own.extent)} @{label}"
            for below in body:
                yield from _lines(below, depth + 1, {**labels, own.number: label})
        case When(conditions, body):
            yield f"{bars}if {' and '.join(f'{index(a)} {sign} {index(b)}' for a, sign, b in conditions)}"
            for below in body:
                yield from _lines(below, depth + 1, labels)
        case Store(target, op, value, condition, at, place):
            under = "" if condition is None else f" if {to_text(condition, var)}"
            left, right = to_text(target, var), to_text(value, var)
            if at is not None and place is not None:
                left, right = f"({left}, {to_text(at, var)})", f"({right}, {to_text(place, var)})"
            yield f"{bars}{left} {op} {right}{under}"


def _label(number: int) -> str:
    return LETTERS[number] if number < len(LETTERS) else f"i{number}"
