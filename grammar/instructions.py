"""Files of instructions: lines that say who has it and how it is spelled, then a kernel that says what it does.

    # d[i] = a[i] * b[i] + d[i], rounded once, in 16 lanes
    needs    avx512f
    include  immintrin.h
    c        _mm512_storeu_ps({d}, _mm512_fmadd_ps(…))
    llvm     {d} = <16 x float> @llvm.fma.v16f32(<16 x float> {a}, <16 x float> {b}, <16 x float> {d})

    kernel avx512_fmadd_ps()
    …

A line that begins with a space goes on with the one before. What a group of threads of a GPU does together says

    group    32 d a b
    shared   s
    cuda     asm(…)

for the number of threads and the operands that are spread over them: the first dimensions of each say which thread
has an element, and a thread has the rest in registers. `shared` are those in the memory of a block. There
`{d}` is the address of the first element that a thread has, `{s}` that of the first of all, and `{s.stride}` how
many elements apart the rows of an operand are that is `strided`.

Instructions that differ in a word alone, as in a type, are one file. A line

    each     TYPE bf16 f16

says what TYPE stands for, in the name of the file as well; several such lines, each combination.

An instruction is found by its name, which is that of its kernel and of its file, in this package and in the
directories that the variable DOJOIR_INSTRUCTIONS lists.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import product
from pathlib import Path

from dojoir.errors import ArgumentError, Diagnostic, KernelError, ParseError, Source, Span, did_you_mean
from dojoir.grammar.kept_kernels import kept_kernel
from dojoir.ir.affine import Affine
from dojoir.ir.instruction import Instruction, LlvmCall, operands_in
from dojoir.ir.nodes import Access, Kernel, Node, Scope, Statement

GROUPS = ("32", "64", "128")
"""How many threads a group may have: a warp of a GPU's, or four."""

VARIABLE = "DOJOIR_INSTRUCTIONS"
"""The environment variable with the directories of a user's own instructions, as in PATH."""

_WORDS = ("each", "needs", "when", "include", "c", "llvm", "group", "shared", "async", "swizzled", "cuda")
_JOINED = {"cuda": "\n"}
"""The separator between a line and the one that goes on with it: a space, but for code that is printed as it is."""

_CALL = re.compile(r"\{(\w+)\}\s*=\s*((?:(?:reassoc|nsz|nnan|ninf|contract|fast)\s+)*)(.+?)\s*@([\w.]+)\((.*)\)")


def instruction_names() -> list[str]:
    """The names of all instructions that can be found here, in alphabetical order."""
    return sorted({*_of_package(), *(name for folder in _own_folders() for name in _paths_in(folder))})


def find_instruction(name: str) -> Instruction:
    """The instruction of that name. Raises ArgumentError if there is none, and as `read_instruction`."""
    if name in _of_package():
        return _loaded_of_package(name)
    for folder in _own_folders():
        path = _paths_in(folder).get(name)
        if path is not None:
            return _load(path, name)
    known = instruction_names()
    cure = f"dojoir.instructions.names() lists them, and directories in {VARIABLE} add to them"
    raise ArgumentError(
        f"there is no instruction '{name}'{did_you_mean(name, known) or f'; {cure}'}", "unknown-instruction"
    )


def load_instruction(path: str | os.PathLike[str]) -> Instruction:
    """The instruction in a file. Raises ArgumentError if it cannot be read or holds several, and as
    `read_instruction`."""
    return _load(Path(path), Path(path).stem)


def _load(path: Path, name: str) -> Instruction:
    text = _file_text(path)
    family = _family(text, path.stem)
    if name not in family:
        message = f"'{path}' holds several instructions: load one by its name, of {', '.join(family)}"
        raise ArgumentError(message, "misnamed-instruction")
    meant = family[name]
    if unnamed := [word for word in meant if word not in path.stem]:
        message = f"'{path}' says `each {unnamed[0]}`, a word that the name of the file has to have"
        raise ArgumentError(message, "misnamed-instruction")
    instruction = read_instruction(_with(text, meant), os.fspath(path))
    if instruction.name != name:
        message = f"the kernel in '{path}' is called {instruction.name}: an instruction has the name of its file"
        raise ArgumentError(message, "misnamed-instruction")
    return instruction


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ArgumentError(f"cannot read '{path}': {reason}; check the path", "unreadable-file") from None


# -- families: instructions that differ in a word ------------------------------------------------------------
def _names_in(path: Path) -> Sequence[str]:
    """The names of the instructions in a file: one that cannot be read is told of when it is used."""
    try:
        return [*_family(_file_text(path), path.stem)]
    except ArgumentError:
        return [path.stem]


@lru_cache(maxsize=512)
def _family(text: str, stem: str) -> Mapping[str, Mapping[str, str]]:
    """The meaning of the words that lines `each` give, by the name of each instruction of a file."""
    header = text.partition("\nkernel")[0].split("\n")
    lines = [line.split()[1:] for line in header if line.startswith("each ") and len(line.split()) > 2]
    words = [word for word, *_ in lines]
    meant = [dict(zip(words, values, strict=True)) for values in product(*(values for _, *values in lines))]
    return {_with(stem, one): one for one in meant}


def _with(text: str, meant: Mapping[str, str]) -> str:
    """A text with each word of a family replaced, and without the lines that say for what."""
    if meant:
        text = re.sub("(?m)^each .*$", "", text)
        text = re.sub("|".join(map(re.escape, meant)), lambda found: meant[found[0]], text)
    return text


def _own_folders() -> list[Path]:
    return [Path(folder) for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder]


def _paths_in(folder: Path) -> dict[str, Path]:
    """The files of the instructions in a folder, by name; a file of the name itself is before a family."""
    paths = sorted(folder.glob("*.dojo"), key=lambda path: path.stem == path.stem.lower())
    return {name: path for path in paths for name in _names_in(path)}


@lru_cache(maxsize=1)
def _of_package() -> Mapping[str, Path]:
    """The files of the package's own instructions, which do not change while it runs."""
    return _paths_in(Path(str(files("dojoir").joinpath("instructions"))))


@lru_cache(maxsize=512)
def _loaded_of_package(name: str) -> Instruction:
    return _load(_of_package()[name], name)


@lru_cache(maxsize=512)
def read_instruction(text: str, name: str = "<instruction>") -> Instruction:
    """The instruction that a text holds. Raises ParseError or KernelError with the place of what is wrong."""
    source = Source(name, text)
    lines = text.split("\n")
    start = next((n for n, line in enumerate(lines) if line.startswith("kernel")), None)
    if start is None:
        message = "an instruction ends with a kernel that says what it does: kernel NAME()"
        raise ParseError(Diagnostic("no-kernel", message, Span(len(lines), 1, 2), source))
    said = _header(lines[:start], source)
    body = kept_kernel(Source(name, "\n" * start + "\n".join(lines[start:])))
    _check_body(body, source, start + 1)
    c, llvm, cuda = said.get("c"), said.get("llvm"), said.get("cuda")
    if c is None and llvm is None and cuda is None:
        message = "a line `c`, `llvm` or `cuda` says how it is spelled"
        raise ParseError(_at("no-spelling", message, start + 1, source))
    needs = frozenset(said.get("needs", ("", 0))[0].split())
    group, spread, shared = _group(said, body, source)
    for spelling in filter(None, (c, llvm, cuda)):
        _check_operands(*spelling, body, shared if spelling is cuda else frozenset(), source)
    when = said.get("when", (" && ".join(f"defined(__{f.upper()}__)" for f in sorted(needs)) or "1", 0))[0]
    return Instruction(
        body,
        needs,
        when,
        tuple(said.get("include", ("", 0))[0].split()),
        c[0] if c else None,
        _llvm_call(*llvm, source) if llvm else None,
        group,
        spread,
        shared,
        cuda[0] if cuda else None,
        _in_shared("async", said, shared, source),
        _in_shared("swizzled", said, shared, source),
    )


def _group(
    said: Mapping[str, tuple[str, int]], body: Kernel, source: Source
) -> tuple[int, frozenset[str], frozenset[str]]:
    """How many threads do it together, the operands that are spread over them, and those in shared memory."""
    text, line = said.get("group", ("1", 0))
    number, *spread = text.split() or [""]
    shared, at = said.get("shared", ("", 0))
    if not line and {"cuda", "shared"} & said.keys():
        word = next(word for word in ("cuda", "shared") if word in said)
        message = f"`{word}` is for what a group of threads does: a line `group` says how many they are"
        raise ParseError(_at("bad-group", message, said[word][1], source))
    if line and (number not in GROUPS or {"cuda", "c", "llvm"} & said.keys() != {"cuda"}):
        message = f"a group has {' or '.join(GROUPS)} threads, and is spelled by a line `cuda` alone"
        raise ParseError(_at("bad-group", message, line, source))
    operands = {buffer.name: buffer for buffer in body.buffers}
    for name, place in [*((name, line) for name in spread), *((name, at) for name in shared.split())]:
        if name not in operands:
            message = f"'{name}' is no operand{did_you_mean(name, operands)}"
            raise ParseError(_at("unknown-operand", message, place, source))
    found = Instruction(body, frozenset(), "", (), None, None, int(number), frozenset(spread))
    for name in spread:
        if name in shared.split() or not found.digits(operands[name]):
            message = f"`{name}` is spread over {number} threads: its first dimensions have so many elements"
            raise ParseError(_at("bad-group", message, line, source))
    for buffer in body.buffers:
        if line and buffer.name not in (*spread, *shared.split()):
            message = f"`{buffer.name}` is neither spread over the threads of the group nor in shared memory"
            raise ParseError(_at("bad-group", message, line, source))
        if buffer.strided and buffer.name not in shared.split():
            message = f"`{buffer.name}` is strided, and not in shared memory: only rows there lie apart"
            raise ParseError(_at("bad-group", message, line or 1, source))
    return int(number), frozenset(spread), frozenset(shared.split())


def _in_shared(
    word: str, said: Mapping[str, tuple[str, int]], shared: frozenset[str], source: Source
) -> frozenset[str]:
    """The operands of which a line says what is so in shared memory alone: that the asynchronous proxy reads them,
    or that chunks of them are exchanged."""
    text, line = said.get(word, ("", 0))
    for name in text.split():
        if name not in shared:
            message = f"`{name}` is not in shared memory, and `{word}` is for what lies there"
            raise ParseError(_at("bad-group", message, line, source))
    return frozenset(text.split())


def _header(lines: list[str], source: Source) -> dict[str, tuple[str, int]]:
    """The content of each line, with its number, by its first word."""
    said: dict[str, tuple[str, int]] = {}
    last = ""
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line[0] in " \t" and last:
            text, first = said[last]
            said[last] = f"{text}{_JOINED.get(last, ' ')}{line.strip()}", first
            continue
        word, _, rest = line.partition(" ")
        if word not in _WORDS:
            hint = did_you_mean(word, _WORDS) or f": write one of {', '.join(_WORDS)}"
            raise ParseError(_at("unknown-line", f"there is no line '{word}' here{hint}", number, source))
        if word == "each":
            message = "a line `each` is written `each WORD VALUE VALUE …`, with WORD in the name of the file"
            raise ParseError(_at("misnamed-instruction", message, number, source))
        if word in said:
            raise ParseError(_at("duplicate-line", f"the line '{word}' stands here twice", number, source))
        last = word
        said[word] = rest.strip(), number
    return said


def _at(code: str, message: str, line: int, source: Source) -> Diagnostic:
    return Diagnostic(code, message, Span(line, 1, max(2, len(source.line(line)) + 1)), source)


def _check_operands(template: str, line: int, body: Kernel, shared: frozenset[str], source: Source) -> None:
    known, used = {buffer.name for buffer in body.buffers}, operands_in(template)
    strides = {f"{buffer.name}.stride" for buffer in body.buffers if buffer.strided}
    if strides - used:
        message = f"{{{min(strides - used)}}}, by which its rows are apart, is not in this line"
        raise ParseError(_at("unused-operand", message, line, source))
    used -= strides | {f"{name}.swizzle" for name in shared}
    for name in sorted(used - known):
        message = (
            f"{{{name}}} is no operand{did_you_mean(name, known)}; the operands are {', '.join(sorted(known))}"
        )
        raise ParseError(_at("unknown-operand", message, line, source))
    for name in sorted(known - used):
        raise ParseError(_at("unused-operand", f"the operand {{{name}}} is not in this line", line, source))


def _llvm_call(text: str, line: int, source: Source) -> LlvmCall:
    found = _CALL.fullmatch(text)
    form = "{d} = <16 x float> @llvm.fma.v16f32(<16 x float> {a}, …)"
    if found is None:
        raise ParseError(_at("bad-llvm", f"an LLVM call is written {form}", line, source))
    arguments: list[tuple[str, str, bool]] = []
    for argument in re.split(r",\s*(?![^<]*>)", found[5]):
        kind, _, value = argument.strip().rpartition(" ")
        if not kind:
            raise ParseError(_at("bad-llvm", f"'{argument}' needs a type: an LLVM call is {form}", line, source))
        is_operand = value.startswith("{")
        arguments.append((kind, value.strip("{}"), is_operand))
    return LlvmCall(found[1], found[3], found[2], found[4], tuple(arguments))


# -- the body ----------------------------------------------------------------------------------------------
def _check_body(body: Kernel, source: Source, line: int) -> None:
    wrong = _body_error(body)
    if wrong is not None:
        raise KernelError(_at("bad-instruction", wrong, line, source))


def _body_error(body: Kernel) -> str | None:
    if len(body.body) != 1 or not isinstance(body.body[0], Scope):
        return "the kernel of an instruction is one scope"
    if body.runtime_sizes or body.facts:
        return "the sizes of an instruction are fixed"
    for buffer in body.buffers:
        if buffer.role == "tmp":
            return f"`{buffer.name}` is a tmp: an instruction has only operands"
        if buffer.order or buffer.pad or buffer.stream:
            return f"`{buffer.name}` is an operand, and lies in memory as it is written"
    return _node_error(body.body[0]) or _cover_error(body)


def _node_error(node: Node) -> str | None:
    match node:
        case Statement():
            gathers = any(isinstance(i, Access) for a in node.reads for i in a.indices)
            return "an instruction does not gather" if gathers else None
        case Scope(extent, body, marks, hints=hints):
            if extent.constant is None or extent.constant < 1:
                return "the scopes of an instruction have constant extents"
            if marks or hints:
                return "the scopes of an instruction have no marks and no hints"
            return next((wrong for wrong in map(_node_error, body) if wrong is not None), None)
    return "an instruction has no guards"


def _cover_error(body: Kernel) -> str | None:
    """An instruction may touch all of its operands, so its body must: what it leaves out may not be there."""
    touched: dict[str, set[tuple[int, ...]]] = {buffer.name: set() for buffer in body.buffers}
    for site in body.sites:
        for access in (*site.statement.reads, site.statement.target):
            indices = tuple(index for index in access.indices if isinstance(index, Affine))
            extents = tuple(scope.extent.constant or 0 for scope in site.scopes)
            touched[access.buffer] |= _elements(indices, extents)
    for buffer in body.buffers:
        elements = 1
        for dim in buffer.dims:
            elements *= dim.extent.offset
        if len(touched[buffer.name]) != elements:
            return f"the body does not use all elements of `{buffer.name}`, and the instruction may"
    return None


@lru_cache(maxsize=256)
def _elements(indices: tuple[Affine, ...], extents: tuple[int, ...]) -> frozenset[tuple[int, ...]]:
    """The elements that indices name in all iterations of scopes of these extents."""
    moved = frozenset[int]().union(*(index.iterators for index in indices))
    runs = product(*(range(extent) if depth in moved else (0,) for depth, extent in enumerate(extents)))
    return frozenset(tuple(index.evaluate({}, run) for index in indices) for run in runs)
