"""The lists of `dojoir-opt` that need no input."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from importlib.resources import files

import dojoir
from dojoir.cli.optimizing import optimize_pass
from dojoir.cli.options import Options
from dojoir.passes import COMBINATORS, load_passes


def listing(options: Options) -> str | None:
    """The list that the options ask for, or None if they ask for none. Raises ArgumentError."""
    if options.doctor:
        found = dojoir.doctor()
        return json.dumps(found.to_json(), indent=1) + "\n" if options.json else f"{found}\n"
    if options.schema:
        return files("dojoir.cli").joinpath(f"{options.schema}.schema.json").read_text(encoding="utf-8")
    if options.help_pass is not None:
        return _help(options.help_pass, passes(options))
    if options.list_passes:
        groups = _passes(options)
    elif options.list_targets:
        groups = _targets()
    elif options.list_kernels:
        groups = _kernels()
    else:
        return None
    if options.json:
        entries = {name.partition("(")[0]: text for group in groups.values() for name, text in group.items()}
        return json.dumps(entries, indent=1) + "\n"
    return "\n".join(_group(title, entries) for title, entries in groups.items())


WIDEST = 36
"""How far to the right sentences begin; a name that is longer has a line for itself."""


def _group(title: str, entries: dict[str, str]) -> str:
    width = min(WIDEST, max(map(len, entries), default=0))
    text = f"{title}\n"
    for name, sentence in entries.items():
        text += (
            f"  {name:<{width}}  {sentence}\n" if len(name) <= width else f"  {name}\n  {'':<{width}}  {sentence}\n"
        )
    return text


Groups = dict[str, dict[str, str]]
"""Names, each with a sentence, under headings."""

_KINDS = {"loops": "scopes", "storage": "storage", "values": "statements", "hardware": "hardware and names"}
_KERNELS = {
    "element by element": "add mul relu silu gelu swiglu saxpy bias_relu",
    "rows: norms, softmax, sums": "softmax log_softmax cross_entropy layernorm rmsnorm residual_rmsnorm groupnorm "
    "batchnorm_inference batchnorm_training reduce_max reduce_mean_0 reduce_mean_1 argmax cumsum dot",
    "products of matrices": "matmul matmul_nt matmul_tn matmul_int8 bmm gemv attention",
    "sparse matrices": "csr ell bsr",
    "images and stencils": "conv2d depthwise_conv2d grouped_conv2d avgpool2d maxpool2d jacobi2d heat3d",
    "moving data": "transpose embedding",
}


def _passes(options: Options) -> Groups:
    known = {p.usage: _sentence(p.documentation) for p in passes(options).values()}
    combined = dict(_usage_and_sentence(text) for text in COMBINATORS.values())
    groups = {"passes: they pick moves": known, "steps put together": combined}
    for kind in dojoir.MOVES:
        room = kind.__module__.split(".")[2]
        call = f"{kind.name}({', '.join(kind.parameters())})"
        groups.setdefault(f"moves: {_KINDS.get(room, room)}", {})[call] = _sentence(inspect.getdoc(kind) or "")
    return groups


def _usage_and_sentence(text: str) -> tuple[str, str]:
    usage, _, rest = text.partition(": ")
    sentence = _sentence(rest)
    return usage, sentence[:1].upper() + sentence[1:]


def _targets() -> Groups:
    groups: Groups = {}
    for name, text in dojoir.TARGETS.items():
        heading = {"llvm": "in this process", "c": "for any compiler", "cuda": "for GPUs", "hip": "for GPUs"}
        groups.setdefault(heading.get(name, "C with the intrinsics of a processor"), {})[name] = text
    return groups


def _kernels() -> Groups:
    where = {name: title for title, names in _KERNELS.items() for name in names.split()}
    groups: Groups = {title: {} for title in _KERNELS}
    for name in dojoir.kernels.names():
        groups.setdefault(where.get(name, "others"), {})[name] = dojoir.kernels.summary(name)
    made = dojoir.kernels.options()
    groups["quantised, by options: library:NAME(OPTION=VALUE, ...)"] = {
        name: f"{dojoir.kernels.summary(name)} ({_choices(values)})" for name, values in made.items()
    }
    return groups


def _choices(options: Mapping[str, tuple[str, ...]]) -> str:
    return ", ".join(f"{name}={'|'.join(values)}" for name, values in options.items())


def kind_of(options: Options) -> str:
    """The kind of such a list, for a terminal."""
    if options.json or options.schema:
        return "json"
    if options.doctor:
        return "facts"
    return "plain" if options.help_pass else "list"


def passes(options: Options) -> dict[str, dojoir.Pass]:
    """The passes that may be named: ours, and those of `--load`. Raises ArgumentError."""
    found = {**dojoir.PASSES, "optimize": optimize_pass(options)}
    for path in options.load:
        found |= load_passes(path)
    return found


def _sentence(documentation: str) -> str:
    return " ".join(documentation.split("\n\n")[0].split()).split(". ")[0].rstrip(".:")


def _help(name: str, known: dict[str, dojoir.Pass]) -> str:
    if name in known:
        return f"{known[name].usage}\n\n{_shown(known[name].documentation)}\n"
    if name in COMBINATORS:
        return f"{COMBINATORS[name]}\n"
    kind = next((kind for kind in dojoir.MOVES if kind.name == name), None)
    if kind is None:
        try:
            dojoir.parse_pipeline(name)  # whose error names the nearest one
        except dojoir.ArgumentError as error:
            message = f"{error.diagnostic.message}; --list-passes lists them"
            raise dojoir.ArgumentError(message, error.diagnostic.code) from None
        raise dojoir.ArgumentError(f"'{name}' is a pipeline: give the name of one move or pass", "unknown-move")
    return f"{kind.name}({', '.join(kind.parameters())})\n\n{_shown(inspect.getdoc(kind) or '')}\n"


def _shown(documentation: str) -> str:
    """A docstring for a terminal: the empty lines of what its examples print are empty."""
    return re.sub(r"^[ \t]*<BLANKLINE>$", "", documentation, flags=re.MULTILINE)
