"""A kernel of a library that has versions by size: a C source for each, and one that calls the first that fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dojoir.codegen.c.identifiers import identifiers
from dojoir.codegen.c.printer import declaration
from dojoir.codegen.c.symbols import symbol
from dojoir.codegen.emission import emit, lower
from dojoir.ir.nodes import Kernel
from dojoir.ir.size_condition import SizeCondition
from dojoir.runtime.call.versioned import Versioned, When
from dojoir.runtime.library.text import LibraryPart, including


def version_names(given: Versioned) -> list[str]:
    """The names of the kernels of the versions: as the kernel, with a number."""
    return [f"{given.start.name}_v{number}" for number in range(len(given.versions))]


def versioned_part(given: Versioned, target: str, name: str) -> LibraryPart:
    """The part of the library `name` that is the kernel: its source compares sizes and calls a version, each of
    which is a file of its own."""
    kernels = [
        replace(version.kernel, name=own) for version, own in zip(given.versions, version_names(given), strict=True)
    ]
    files = tuple((f"{symbol(kernel.name)}.c", emit(kernel, target)) for kernel in kernels)
    declared = declaration(lower(given.start, target))
    whens = [version.when for version in given.versions]
    source = including(_choice(given.start, declared, kernels, whens, target), f"{name}.h")
    return LibraryPart(given.start, declared, f"{symbol(given.start.name)}.c", source, files)


def _choice(start: Kernel, declared: str, kernels: Sequence[Kernel], whens: Sequence[When], target: str) -> str:
    program = lower(start, target)
    names = identifiers(program)
    values = [names[name] for name in (*(a.name for a in program.arguments), *(s.name for s in program.sizes))]
    lines = [f"// kernel {start.name}: the first version whose conditions the sizes meet.", ""]
    lines += ["#include <stdbool.h>", "#include <stdint.h>", ""]
    lines += [declaration(lower(kernel, target)) for kernel in kernels]
    lines += ["", declared.removesuffix(";"), "{"]
    for kernel, when in zip(kernels, whens, strict=True):
        call = f"return {symbol(kernel.name)}({', '.join(values)});"
        if when:
            tests = [f"({' && '.join(_test(one, names[one.name]) for one in line)})" for line in when]
            lines.append(f"    if ({tests[0]}")
            lines += [f"        || {test}" for test in tests[1:]]
            lines[-1] += ")"
            lines.append(f"        {call}")
        else:
            lines.append(f"    {call}")
    return "\n".join([*lines, "}", ""])


def _test(condition: SizeCondition, name: str) -> str:
    rest = f" % {condition.divisor}" if condition.divisor else ""
    return f"{name}{rest} {condition.relation} {condition.number}"
