"""The library of kernels, written as the mathematics is, to start optimising from: one `.dojo` file each, and
families of kernels whose texts are made by a few options."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files

from dojoir.errors import ArgumentError, did_you_mean, repr_of
from dojoir.grammar import parse
from dojoir.ir.nodes import Kernel
from dojoir.support.public import public


def names() -> list[str]:
    """The names of all kernels of the library that stand in files, in alphabetical order."""
    return sorted(
        entry.name.removesuffix(".dojo") for entry in files(__name__).iterdir() if entry.name.endswith(".dojo")
    )


@public
def options() -> dict[str, dict[str, tuple[str, ...]]]:
    """The kernels of the library that are made by options: for each name its options with their values, of which
    the first is taken where nothing is said. `load("nvfp4_quantize", scales="tiled")` loads one, and where only a
    name is taken, `nvfp4_quantize(scales=tiled)` says the same."""
    from dojoir.kernels import quantised

    return {name: dict(quantised.OPTIONS[name]) for name in quantised.names()}


@public
def source(name: str, **chosen: object) -> str:
    """The text of the kernel of that name, with its comments; of one that is made by options, with these.
    Raises ArgumentError for an unknown kernel or option."""
    name, said = _said(name)
    made = options()
    if name in made:
        from dojoir.kernels import quantised

        return quantised.text_of(name, {**said, **chosen})
    if name not in names():
        raise ArgumentError(
            f"the library has no kernel '{name}'{did_you_mean(name, [*names(), *made])}; "
            "`dojoir-opt --list-kernels` lists them, as dojoir.kernels.names() and options() do",
            "unknown-kernel",
        )
    if said or chosen:
        given = next(iter({**said, **chosen}))
        sizes = ", ".join(size.name for size in load(name).sizes)
        is_size = given in sizes.split(", ")
        cure = f"{given} is a size: give it as one, -s {given}=… in the shell" if is_size else f"its sizes: {sizes}"
        raise ArgumentError(f"kernel {name} has no option '{given}'; {cure}", "unknown-option")
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


def _said(name: str) -> tuple[str, dict[str, str]]:
    """A name, and the options that are said with it: `nvfp4_quantize(scales=tiled)`."""
    match = re.fullmatch(r"(\w+)\((.*)\)", name)
    if match is None:
        return name, {}
    pairs = [part.partition("=") for part in match[2].split(",")]
    for part, equals, _ in pairs:
        if not equals:
            raise ArgumentError(
                f"an option of kernel {match[1]} is NAME=VALUE, not '{part.strip()}'", "unknown-option"
            )
    return match[1], {option.strip(): value.strip() for option, _, value in pairs}


@public
def load(name: str, *, dtype: str | int | None = None, **sizes: int | str) -> Kernel:
    """The kernel of that name, with some of its sizes changed or fixed; of one that is made by options
    (`options`), with these: `load("nvfp4_quantize", quantiser="soft", scales="tiled")`. `dtype` is the type of
    its floating-point arguments, where that is to be another one (`Kernel.with_dtype`): `load("softmax",
    dtype="bf16")`.

    A size that the file fixes (`stride = 1` in `conv2d`) takes the value given for it here; a runtime size is
    fixed, as `Kernel.specialize` does: `load("conv2d", stride=2, KH=3, KW=3)`.
    Raises ArgumentError for an unknown kernel, option or size and for a value that breaks a fact of the kernel.
    """
    named = options().get(_said(name)[0], {})
    text = source(name, **{option: value for option, value in sizes.items() if option in named})
    given = {size: value for size, value in sizes.items() if size not in named}
    name = _said(name)[0]
    default = parse(text, name=f"{name}.dojo")
    known = [size.name for size in default.sizes]
    whole: dict[str, int] = {}
    for size, value in given.items():
        if size not in known:
            raise ArgumentError(
                f"kernel {name} has no size '{size}'{did_you_mean(size, known)}; its sizes: {', '.join(known)}",
                "unknown-size",
            )
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ArgumentError(f"size {size} must be an integer of at least 0, not {repr_of(value)}", "bad-size")
        whole[size] = value
    fixed = {size.name: whole[size.name] for size in default.sizes if size.value is not None and size.name in whole}
    kernel = parse(_with_fixed(text, fixed), name=f"{name}.dojo") if fixed else default
    runtime = {size: value for size, value in whole.items() if size not in fixed}
    kernel = kernel.specialize(**runtime) if runtime else kernel
    return kernel if dtype is None else kernel.with_dtype(str(dtype))


def _with_fixed(text: str, values: dict[str, int]) -> str:
    """The text of a kernel with the values of some fixed sizes in its header replaced."""

    def header(match: re.Match[str]) -> str:
        return re.sub(
            r"(\w+)(\s*=\s*)\d+", lambda m: f"{m[1]}{m[2]}{values[m[1]]}" if m[1] in values else m[0], match[0]
        )

    return re.sub(r"^kernel\b.*$", header, text, count=1, flags=re.MULTILINE)


__all__ = ["has_torch_version", "load", "names", "numpy_version", "options", "source", "summary", "torch_versions"]
