"""What operators of PyTorch made of kernels are given, and what comes of it: the tables of docs/torch.md.

    python benchmarks/tried.py                       # layouts of one kernel, then all kernels of the library
    python benchmarks/tried.py --write docs/torch.md # puts the tables there

The first table is of `layernorm`: type, layout, and way of the call. The second has all kernels of the library that
have gradients, at tiny sizes: results and gradients against PyTorch in f64 in four types; in f32 compiled, with
open sizes, under autocast to bf16, and in a batch; gradients by differences in f64 (`gradcheck`), in forward mode
and of gradients; and `torch.library.opcheck`.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dojoir

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS / "helpers"))

WAYS = ("f64", "f32", "bf16", "f16", "compiled", "dynamic", "autocast", "vmap", "gradcheck", "forward", "twice",
        "opcheck")  # fmt: skip
"""The columns: types, ways to call it in f32, and checks of PyTorch in f64."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", metavar="KERNEL", help="the kernels (all)")
    options.add_argument("--write", metavar="FILE", help="put the tables in place of those in this page")
    given = options.parse_args()
    warnings.simplefilter("ignore")
    tables = [whole(library(given.names))] if given.names else [whole(layouts()), whole(library([]))]
    if given.write:
        text = Path(given.write).read_text(encoding="utf-8")
        for table in tables:
            text = replaced(text, table)
        dojoir.write_file(given.write, text)
    return 0


def whole(lines: Iterator[str]) -> list[str]:
    """The lines of a table, printed as they come."""
    made = []
    for line in lines:
        print(line, flush=True)
        made.append(line)
    print()
    return made


def replaced(text: str, table: list[str]) -> str:
    """A page with a table in place of that with the same first line. Raises ArgumentError where it has none."""
    before, found, after = text.partition(table[0] + "\n")
    if not found:
        raise dojoir.ArgumentError(f"the page has no table that begins {table[0]}", "bad-arguments")
    rest = after.splitlines(keepends=True)
    while rest and rest[0].startswith("|"):
        rest.pop(0)
    return before + "\n".join(table) + "\n" + "".join(rest)


def layouts() -> Iterator[str]:
    import tried as of_layouts

    op = of_layouts.operator()
    yield f"| x is | {' | '.join(of_layouts.WAYS)} |"
    yield f"|---|{'---|' * len(of_layouts.WAYS)}"
    for layout in of_layouts.LAYOUTS:
        yield f"| {layout} | {' | '.join(of_layouts.row(op, layout))} |"
    yield f"| dense, and g has one element | {' | '.join(of_layouts.row(op, 'dense', narrow=True))} |"


def library(names: list[str]) -> Iterator[str]:
    from torch_library import LIBRARY

    yield f"| kernel | {' | '.join(WAYS)} |"
    yield f"|---|{'---|' * len(WAYS)}"
    for name in names or LIBRARY:
        yield f"| {name} | {' | '.join(_cell(name, way) for way in WAYS)} |"


def _cell(name: str, way: str) -> str:
    import torch

    torch.manual_seed(0)
    torch._dynamo.reset()
    try:
        return _outcome(name, way)
    except Exception as error:  # whatever PyTorch raises
        return getattr(getattr(error, "diagnostic", None), "code", None) or type(error).__name__


def _outcome(name: str, way: str) -> str:
    import torch
    from torch_library import LIBRARY, made, numbers_of, tensors

    _, given, sizes = LIBRARY[name]
    if way in ("gradcheck", "forward", "twice", "opcheck"):
        op = made(name)
        numbers = numbers_of(op, sizes)
        call = lambda *a: op(*a, **numbers)  # noqa: E731
        match way:
            case "gradcheck":
                right = torch.autograd.gradcheck(call, tensors(given))
            case "forward":
                right = torch.autograd.gradcheck(
                    call, tensors(given), check_forward_ad=True, check_backward_ad=False
                )
            case "twice":
                right = torch.autograd.gradgradcheck(call, tensors(given), fast_mode=True)
            case _:
                right = bool(torch.library.opcheck(op, tuple(tensors(given)), numbers))
        return "right" if right else "wrong"
    dtype = way if way in ("f64", "f32", "bf16", "f16") else "f32"
    return _beside_f64(name, dtype, way)


def _beside_f64(name: str, dtype: str, way: str) -> str:
    """Results and gradients in a type beside those of PyTorch in f64, for the same arguments."""
    import torch
    from torch_library import LIBRARY, numbers_of
    from tried import ERRORS, TYPES, dtype_of

    reference, given, sizes = LIBRARY[name]
    op = dojoir.torch.op(dojoir.kernels.load(name), f"dojoir_tried::{name}", "auto", dtypes=TYPES)
    numbers = numbers_of(op, sizes)
    is_float = [isinstance(a, torch.Tensor) and a.is_floating_point() for a in given]
    leaves = [
        a.detach().to(dtype_of(dtype)).requires_grad_() if f else a for a, f in zip(given, is_float, strict=True)
    ]
    call: Callable[..., Any] = lambda *a: op(*a, **numbers)  # noqa: E731
    if way in ("compiled", "dynamic"):
        call = torch.compile(call, fullgraph=True, dynamic=way == "dynamic")
    if way == "vmap":
        call = _batched(call, given)
    with torch.autocast("cpu", dtype=torch.bfloat16) if way == "autocast" else nullcontext():
        results = call(*leaves)
    wide = [a.detach().double().requires_grad_() if f else a for a, f in zip(leaves, is_float, strict=True)]
    wanted = reference(*wide, **sizes)
    several = [r if isinstance(r, tuple | list) else (r,) for r in (results, wanted)]
    seeds = [torch.randn_like(r) for r in several[1]]
    torch.autograd.backward(several[0], [s.to(r.dtype) for s, r in zip(seeds, several[0], strict=True)])
    torch.autograd.backward(several[1], [s.to(r.dtype).double() for s, r in zip(seeds, several[0], strict=True)])
    found = [*several[0], *(a.grad for a, f in zip(leaves, is_float, strict=True) if f)]
    right = [*several[1], *(a.grad for a, f in zip(wide, is_float, strict=True) if f)]
    limit = ERRORS["bf16" if way == "autocast" else dtype]
    for one, other in zip(found, right, strict=True):
        apart = float((one.detach().double() - other.detach()).abs().max())
        if one.shape != other.shape or not apart <= limit * max(1.0, float(other.detach().abs().max())):
            return f"apart by {apart:.1e}"
    return "right"


def _batched(call: Callable[..., Any], given: tuple[Any, ...]) -> Callable[..., Any]:
    """The first tensor twice, and the first of both results."""
    import torch

    first = next(n for n, a in enumerate(given) if isinstance(a, torch.Tensor))

    def batch(*leaves: Any) -> Any:
        dims = tuple(0 if n == first else None for n in range(len(leaves)))
        two = [torch.stack([a, a]) if n == first else a for n, a in enumerate(leaves)]
        found = torch.vmap(call, in_dims=dims)(*two)
        return tuple(r[0] for r in found) if isinstance(found, tuple | list) else found[0]

    return batch


if __name__ == "__main__":
    sys.exit(main())
