"""The library of kernels: one `.dojo` file each, written as the mathematics is, to start optimising from."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files

from dojoir.errors import ArgumentError, did_you_mean, repr_of
from dojoir.grammar import parse
from dojoir.ir.nodes import Kernel
from dojoir.support.public import public


def names() -> list[str]:
    """The names of all kernels in the library, in alphabetical order."""
    return sorted(
        entry.name.removesuffix(".dojo") for entry in files(__name__).iterdir() if entry.name.endswith(".dojo")
    )


@public
def source(name: str) -> str:
    """The text of the kernel of that name, with its comments. Raises ArgumentError for an unknown one."""
    if name not in names():
        raise ArgumentError(
            f"the library has no kernel '{name}'{did_you_mean(name, names())}; dojoir.kernels.names() lists them",
            "unknown-kernel",
        )
    return files(__name__).joinpath(f"{name}.dojo").read_text(encoding="utf-8")


@public
def summary(name: str) -> str:
    """The first line of the comment that says what the kernel of that name computes."""
    return source(name).splitlines()[0].lstrip("# ")


@public
def numpy_version(kernel: Kernel) -> Callable[..., None] | None:
    """The library's NumPy version of a kernel, if it is a kernel of the library, else None. It takes the arguments
    of the kernel in declared order and writes its outputs in place."""
    from dojoir.kernels import in_numpy

    if kernel.name not in names() or load(kernel.name).arguments != kernel.arguments:
        return None
    return in_numpy.baseline(kernel.name)


@public
def has_torch_version(kernel: Kernel) -> bool:
    """Whether the library has a PyTorch version of a kernel."""
    return kernel.name in torch_versions() and load(kernel.name).arguments == kernel.arguments


def torch_versions() -> dict[str, Callable[..., object]]:
    """The library's PyTorch versions by the names of their kernels. Each takes the `in` and `inout` arguments of
    its kernel as tensors and numbers, and gives what the kernel puts out."""
    from dojoir.kernels.in_torch import VERSIONS

    return dict(VERSIONS)


@public
def load(name: str, **sizes: int) -> Kernel:
    """The kernel of that name, with some of its sizes changed or fixed.

    A size that the file fixes (`stride = 1` in `conv2d`) takes the value given for it here; a runtime size is
    fixed, as `Kernel.specialize` does: `load("conv2d", stride=2, KH=3, KW=3)`.
    Raises ArgumentError for an unknown kernel or size and for a value that breaks a fact of the kernel.
    """
    text = source(name)
    default = parse(text, name=f"{name}.dojo")
    known = [size.name for size in default.sizes]
    for size, value in sizes.items():
        if size not in known:
            raise ArgumentError(
                f"kernel {name} has no size '{size}'{did_you_mean(size, known)}; its sizes: {', '.join(known)}",
                "unknown-size",
            )
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ArgumentError(f"size {size} must be an integer of at least 0, not {repr_of(value)}", "bad-size")
    fixed = {size.name: sizes[size.name] for size in default.sizes if size.value is not None and size.name in sizes}
    kernel = parse(_with_fixed(text, fixed), name=f"{name}.dojo") if fixed else default
    runtime = {size: value for size, value in sizes.items() if size not in fixed}
    return kernel.specialize(**runtime) if runtime else kernel


def _with_fixed(text: str, values: dict[str, int]) -> str:
    """The text of a kernel with the values of some fixed sizes in its header replaced."""

    def header(match: re.Match[str]) -> str:
        return re.sub(
            r"(\w+)(\s*=\s*)\d+", lambda m: f"{m[1]}{m[2]}{values[m[1]]}" if m[1] in values else m[0], match[0]
        )

    return re.sub(r"^kernel\b.*$", header, text, count=1, flags=re.MULTILINE)


__all__ = ["has_torch_version", "load", "names", "numpy_version", "source", "summary", "torch_versions"]
