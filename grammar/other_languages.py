"""Cures for what other languages write: Python, C, CUDA and NumPy in the place of a kernel.

Asked only of a line that is already wrong, and of names that are not known, so that no right text is judged here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from dojoir.ir.dtypes import DTYPES
from dojoir.ir.operations import CALLS

_NUMBER = re.compile(r"\d+")


def _minus(high: str, low: str) -> str:
    """The number of iterations from `low` to `high`, as an extent is written."""
    high, low = high.strip(), low.strip()
    if _NUMBER.fullmatch(high) and _NUMBER.fullmatch(low):
        return str(max(int(high) - int(low), 0))
    high, low = (part if re.fullmatch(r"\w+", part) else f"({part})" for part in (high, low))
    return high if low == "0" else f"{high} - {low}"


def _range(arguments: str, name: str) -> str:
    """How the iterations of a Python range are written."""
    parts = [part.strip() for part in arguments.split(",")]
    low, high = ("0", parts[0]) if len(parts) == 1 else (parts[0], parts[1])
    step = parts[2] if len(parts) > 2 else "1"
    count = _minus(high, low)
    start = "" if low == "0" else f" + {low}"
    if step != "1":
        count = f"({count} + {step} - 1) // {step}"
        value = f"{step}*{{{name}}}{start}"
        return f"a scope runs from 0 in steps of 1: write `{count} @{name}`, and {value} for {name}"
    if start:
        return f"a scope runs from 0: write `{count} @{name}`, and {{{name}}}{start} for {name}"
    return f"write `{count} @{name}`, and its body one bar deeper"


def _c_loop(match: re.Match[str]) -> str:
    name, low, high = match["name"], match["low"].strip(), match["high"].strip()
    return f"a loop is written as its extent: {_range(f'{low}, {high}', name)}"


def _decimal(match: re.Match[str]) -> str | None:
    """A number of another base, or one with signs between its digits, as a decimal one."""
    try:
        return f"numbers are decimal, without signs between digits: write {int(match['here'], 0)}"
    except ValueError:  # such as 0xg
        return None


_IN_HEADERS: tuple[tuple[str, str | Callable[[re.Match[str]], str | None]], ...] = (
    (
        r"^(?P<head>kernel\s+\w+\s*)\((?P<sizes>[^():]*(?P<here>:)[^()]*)\)",
        lambda m: f"a size has no type: write `{m['head']}({re.sub(r' *: *[a-zA-Z]+[0-9]*', '', m['sizes'])})`",
    ),
    (
        r"^(?P<role>in|out|inout|tmp)\s+(?:const\s+)?(?P<type>\w+)\s*(?P<here>[*&])\s*(?:const\s+|restrict\s+)?"
        r"(?P<name>\w+)",
        lambda m: f"an array has dimensions and no pointer: write `{m['role']} {m['name']}: {_type(m['type'])}[N]`",
    ),
    (r"^(?:in|out|inout|tmp)\b.*\[.*(?P<here>\?)", "a dimension that is open is a size: name it in `kernel k(N)`"),
    (r"^(?:in|out|inout|tmp)\b.*(?P<here>,)\s*\]", "nothing stands behind the last ',': leave it out"),
    (
        r"^(?P<role>in|out|inout|tmp)\s+(?P<name>\w+)\s*(?P<here>,)",
        lambda m: f"a line declares one buffer: write `{m['role']} {m['name']}: f32[N]`, and a line for each other",
    ),
    (
        r"^(?P<role>in|out|inout|tmp)\s+(?P<name>\w+)\s*:\s*(?P<here>tensor|Tensor|memref|ndarray|array|vector|Buffer)"
        r"\s*[<(\[]",
        lambda m: (
            f"an array has an element type and dimensions in brackets: write `{m['role']} {m['name']}: f32[N]`"
        ),
    ),
    (
        r"^(?P<here>shared|__shared__|global|__global__|local|private|register|stack|heap|reg)\s+"
        r"(?:(?:tmp|in|out|inout)\s+)?(?P<name>\w+)\s*:\s*(?P<rest>.+)$",
        lambda m: (
            f"where a buffer lives stands behind it: write `tmp {m['name']}: {m['rest'].strip()} shared`, or "
            "stack, reg, or nothing"
        ),
    ),
    (
        r"^(?P<here>const|constexpr|static|final|let|val|#define)\s+(?P<name>\w+)\s*(?:=|:=)\s*(?P<value>\d+)$",
        lambda m: (
            f"a constant is a size with a number: write `kernel k(N, {m['name']} = {m['value']})`, or the "
            "number where it is used"
        ),
    ),
    (
        r"^(?P<here>float|double|int|half|bool|long|[fiu]\d+|bf16)\s*\*?\s+\*?(?P<name>\w+)\s*(?P<dims>\[[^\]]*\])?$",
        lambda m: f"write `in {m['name']}: {_type(m['here'])}{m['dims'] or ''}`; roles are in, out, inout and tmp",
    ),
    (
        r"^where\b[^=<>!]*(?P<here>=)(?!=)",
        "to be equal is written ==, and a size with one value is fixed in the header, `kernel k(N = 4)`",
    ),
    (
        r"^where\s+\w+\s+(?P<here>is|in|power|divisible|multiple|between|mod|positive)\b",
        "a fact is a comparison of sizes: `N >= 4`, `N % 16 == 0`",
    ),
    (r"^fp\s+\w*(?P<here>-\w+)", "the modes are strict, reassoc and fast: write `fp fast`"),
)
"""Patterns of lines above the body."""

_ON_LINES: tuple[tuple[str, str | Callable[[re.Match[str]], str | None]], ...] = (
    *_IN_HEADERS,
    (
        r"^(?P<here>for)\s+(?P<name>\w+)\s+in\s+range\s*\((?P<of>[^)]*)\)",
        lambda m: f"a loop is written as its extent: {_range(m['of'], m['name'])}",
    ),
    (r"^(?P<here>for)\s*\(\s*(?:\w+\s+)?(?P<name>\w+)\s*=(?P<low>[^;]+);\s*\w+\s*<(?P<high>[^;=]+);", _c_loop),
    (
        r"^(?P<here>p?range)\s*\((?P<of>[^)]*)\)(?:[^@]*@(?P<name>\w+))?",
        lambda m: f"a scope is its extent: {_range(m['of'], m['name'] or 'i')}",
    ),
    (
        r"^(?P<here>while|do)\b",
        "there is no loop that ends when something holds: a scope runs over an extent that sizes, counters or "
        "lengths in arrays give, `N @i` or `len[{0}] @j`, and a condition stands inside: `if x[{i}] > 0` behind a "
        "statement",
    ),
    (
        r"^(?P<here>for|loop|foreach)\b",
        "a loop is written as its extent: `N @i`, and its body one bar deeper",
    ),
    (
        r"^(?P<here>else\s*if|elif|else)\b",
        "write a second guard with the opposite condition, as `if {i} >= 1` after `if {i} < 1`, or "
        "select(condition, a, b) for a value",
    ),
    (
        r"=\s*(?P<a>[^=?]+?)\s*(?P<here>\?)\s*(?P<b>[^:]+?)\s*:\s*(?P<c>.+?)\s*;?$",
        lambda m: f"a choice is written select({m['a']}, {m['b']}, {m['c']})",
    ),
    (
        r"(?<![<>=!])=\s*(?P<b>[^=]+?)\s+if\s+(?P<a>.+?)\s+(?P<here>else)\s+(?P<c>.+)$",
        lambda m: f"a choice is written select({m['a']}, {m['b']}, {m['c']})",
    ),
    (
        r"=\s*(?P<here>if)\s+(?P<a>.+?)\s+then\s+(?P<b>.+?)\s+else\s+(?P<c>.+)$",
        lambda m: f"a choice is written select({m['a']}, {m['b']}, {m['c']})",
    ),
    (r"\b(?P<here>where)\s*\((?=.*,)", "a choice is written select(condition, a, b)"),
    (
        r"=.*\S\s+(?P<here>where|when|unless)\s+(?P<a>.+)$",
        lambda m: (
            f"a condition of a statement stands behind `if`: write `if {m['a']}` at its end"
            if m["here"] != "unless"
            else f"a condition of a statement stands behind `if`: write `if not ({m['a']})` at its end"
        ),
    ),
    (
        r"^(?P<name>[A-Za-z]\w*)\s+(?P<here>in)\s+(?P<extent>[A-Za-z]\w*)\s*:?$",
        lambda m: f"a loop is written as its extent: write `{m['extent']} @{m['name']}`",
    ),
    (
        r"^(?P<extent>[\w{}]+)\s+(?P<here>step|by)\s+(?P<step>\d+)$",
        lambda m: f"a scope is its extent: {_range('0, ' + m['extent'] + ', ' + m['step'], 'i')}",
    ),
    (
        r"^(?P<low>\d+)\s+(?P<here>to|until|upto)\s+(?P<high>[\w{}]+)$",
        lambda m: f"a scope is its extent: {_range(m['low'] + ', ' + m['high'], 'i')}",
    ),
    (
        r"^(?P<first>[\w{}]+)\s*(?P<here>,)\s*(?P<second>[\w{}]+)\s*(?:@.*)?$",
        lambda m: (
            f"a scope runs over one extent: write `{m['first']}`, and `{m['second']}` in the next line, one bar "
            "deeper"
        ),
    ),
    (
        r":\s*(?P<here>unroll|vectorize|simd|parallel|[puv])\s*\((?P<n>\d+)\)",
        lambda m: (
            f"a mark takes no number: write `N : {_marked(m['here'])[3:] or m['here']}`; the "
            f"move split(@i, {m['n']}) makes blocks of {m['n']}"
        ),
    ),
    (r"(?P<here>\b0[xXbBoO][0-9A-Fa-f]+)\b", _decimal),
    (r"(?P<here>\b\d+(?:_\d+)+)\b", _decimal),
    (
        r"(?P<here>\((?P<type>float|double|int|long|half|char|[fiu]\d+|bf16)\))\s*(?P<of>[\w(])",
        lambda m: f"a conversion is written {_type(m['type'])}(x)",
    ),
    (
        r"^(?P<name>[A-Za-z_]\w*)(?P<here>\{\w+\})",
        lambda m: f"an element stands in brackets: write {m['name']}[{m['here']}]",
    ),
    (r"^[\w\[\]{}, +*-]*?\s(?P<here><-|:=|<=|=>)\s", "a value is assigned by `=`"),
    (
        r"(?<![\w.\]}])(?P<number>\d+)(?P<here>(?![eE][0-9]|[fFhLuU]\b)[A-Za-z_]\w*[\[(]?|\()",
        lambda m: f"a product is written with *: {m['number']} * {m['here'].rstrip('[(') or '(…)'}",
    ),
    (
        r"(?P<of>\w+|\])(?P<here>\.)(?P<name>[A-Za-z]\w*)\s*\(",
        lambda m: (
            f"there are no methods: {cure_of_function(m['name']) or _called(m['name'])}"
            if m["of"] not in ("np", "numpy", "math", "torch", "F", "jnp", "tl", "T", "std")
            else None
        ),
    ),
    (
        r"(?:=|[\w)\]])\s+(?P<here>@)\s+[\w(]",
        "a product of matrices is loops around one line: `y[{i}, {j}] += a[{i}, {k}] * b[{k}, {j}]`, after "
        "`y[{i}, {j}] = 0`",
    ),
    (r"(?P<here>\?)", "a choice is written select(condition, a, b)"),
    (r"(?P<here>&&)", "write `and`"),
    (
        r"(?P<here>\|\|)",
        "write `or` between values; in a guard, `if` takes conditions that all hold, joined by `and`",
    ),
    (
        r"^(?P<low>[\w{}]+)\s*(?P<here>\.\.+=?)\s*(?P<high>[\w{}]+)",
        lambda m: f"a scope is its extent: {_range(m['low'] + ', ' + m['high'], 'i')}",
    ),
    (
        r"^[\w{} +-]+(?P<here>\.\.)",
        "a scope is its extent, and runs upwards from 0: backwards is by index, N - 1 - {i}",
    ),
    (
        r"^(?P<low>\d+)\s*(?P<here>:)\s*(?P<high>[A-Za-z]\w*)(?!\()",
        lambda m: f"a scope is its extent: {_range(m['low'] + ', ' + m['high'], 'i')}",
    ),
    (
        r"^(?P<extent>[^:@]+?)\s*@(?P<label>\w+)\s*(?P<here>:)\s*(?P<mark>.+)$",
        lambda m: f"marks stand before the label: write `{m['extent']} : {m['mark'].strip()} @{m['label']}`",
    ),
    (
        r"^(?P<here>def|void|func|fn|proc|function|__global__\s+void|kernel(?=\s+[\"']))\s+[\"']?(?P<name>\w+)",
        lambda m: f"a text starts with `kernel {m['name']}(N, M)`: sizes in brackets, arrays declared below",
    ),
    (
        r"^(?P<line>if\b.*\S|[^:=]+?)\s*(?P<here>:)$",
        lambda m: (
            f"a line has no ':' at its end: write `{m['line']}`; the bars show what is inside"
            + ("" if m["line"].startswith("if") else f", and `{m['line']} : p` has a mark")
        ),
    ),
    (r"(?P<what>\w+\[[^\]]*\]|\w+)\s*(?P<here>\+\+)", lambda m: f"write `{m['what']} += 1`"),
    (r"(?P<what>\w+\[[^\]]*\]|\w+)\s*(?P<here>--)$", lambda m: f"write `{m['what']} += -1`"),
    (
        r"^(?P<here>(?:const\s+)?(?:float|double|int|long|auto|let|var|half|bool|size_t|[fiu]\d+))\s+"
        r"(?P<name>\w+)\s*(?::\s*\w+\s*)?=",
        lambda m: (
            f"a temporary is declared in the header, `tmp {m['name']}: f32`, or `tmp {m['name']}: f32[N]` "
            f"where each iteration has its own"
        ),
    ),
    (
        r"(?P<name>[A-Za-z_]\w*)\[(?P<a>[^\[\]]*)\](?P<here>\[)(?P<b>[^\[\]]*)\]",
        lambda m: f"indices stand in one pair of brackets: write {m['name']}[{m['a']}, {m['b']}]",
    ),
    (
        r"(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)(?P<here>[fF]|h|L|u|U)\b",
        lambda m: f"a number has no suffix: write {m['number']}, which has the type of what it stands beside",
    ),
    (r"(?P<here>threadIdx|blockIdx|blockDim|gridDim)\b", lambda m: _gpu_word(m["here"])),
    (
        r"\b(?P<here>np|numpy|math|torch|F|jnp|tl|T|std)\s*(?:\.|::)\s*(?P<name>\w+)",
        lambda m: f"functions have no module: {cure_of_function(m['name']) or _called(m['name'])}",
    ),
    (
        r"^(?P<here>return)\b",
        "there is no return: results are the buffers declared `out` or `inout`",
    ),
    (
        r"^(?P<here>input|output|const|arg|param|var|buffer|alloc|allocate)\s+(?P<name>\w+)\s*:\s*(?P<rest>.+)$",
        lambda m: f"write `{_role(m['here'])} {m['name']}: {m['rest'].strip()}`; roles are in, out, inout and tmp",
    ),
    (
        r"^(?P<role>in|out|inout|tmp)\s+(?P<here>\w+)\s+(?P<name>\w+)\s*(?P<dims>\[.*\])?",
        lambda m: _typed_first(m),
    ),
    (
        r"^(?P<role>in|out|inout|tmp)\s+(?P<name>\w+)(?P<here>\[[^\]]*\])\s*:\s*(?P<type>\w+)",
        lambda m: f"write `{m['role']} {m['name']}: {m['type']}{m['here']}`",
    ),
    (
        r"^(?P<role>in|out|inout|tmp)\s+(?P<name>\w+)\s*:\s*(?P<type>\w+)\s*(?P<here>\()(?P<dims>[^)]*)\)",
        lambda m: f"dimensions stand in square brackets: write `{m['role']} {m['name']}: {m['type']}[{m['dims']}]`",
    ),
    (
        r"^(?P<here>parallel|vectorized?|unrolled?|prange|serial|simd)\s+(?:for\s+)?(?P<extent>\w+)",
        lambda m: f"a mark stands behind the extent: write `{m['extent']}{_marked(m['here'])}`",
    ),
    (r"\[[^\]]*(?<![\w\]])(?P<here>:)(?![\w{])[^\]]*\]", "there are no slices: a scope runs over the dimension"),
    (r"^(?P<here>//|/\*)|(?P<here2>//|/\*)", "a comment starts with '#'"),
    (r"(?P<here>;)\s*$", "a line holds one node, and ends without a ';'"),
    (
        r"(?P<here>\{)\s*$|^(?P<here2>\})",
        "there are no braces: the bars at the start of a line show what is inside",
    ),
    (
        r"^(?P<here>print|assert|import|from|break|continue|pass|yield|goto|switch|case|struct|class|with|try)\b",
        "a kernel has sizes, buffers, scopes, guards and assignments only",
    ),
)
"""Patterns on a line without bars and comment, and the cure; group `here` is what is pointed at."""

_PATTERNS = tuple((re.compile(pattern), cure) for pattern, cure in _ON_LINES)

_MARKED = {"parallel": " : p", "prange": " : p", "vectorize": " : v", "vectorized": " : v", "simd": " : v",
           "unroll": " : u", "unrolled": " : u"}  # fmt: skip

_COMPLEX = re.compile(r"c(?:64|128|32)|complex\d*|cfloat|cdouble")


@cache
def _table() -> dict[str, dict[str, str]]:
    """The words of other languages, by what they are names of: functions, types, marks, storage, names."""
    return tomllib.loads((Path(__file__).parent / "other_languages.toml").read_text(encoding="utf-8"))


def cure_of_line(line: str) -> tuple[str, int, int] | None:
    """The cure for a wrong line that is written as in another language, and the columns it is about, from 1; None
    where it looks like no other language."""
    text = line.partition("#")[0].rstrip()
    start = len(text) - len(text.lstrip(" \t|"))
    for pattern, cure in _PATTERNS:
        match = pattern.search(text[start:])
        if match is not None:
            said = cure if isinstance(cure, str) else cure(match)
            if said is None:
                continue
            groups = match.groupdict()
            here = "here" if groups.get("here") is not None else "here2"
            return said, start + match.start(here) + 1, start + match.end(here) + 1
    return None


def cure_of_function(name: str) -> str | None:
    """How a function of another language is written; None where it has no name that is known."""
    known = _table()
    if name in known["functions"]:
        return known["functions"][name]
    bare = name.lower().removeprefix("__").removeprefix("std_")
    short = bare.removeprefix("f")
    for candidate in (bare, bare.removesuffix("f"), short, short.removesuffix("f")):
        if candidate in CALLS:
            return f"write {candidate}(…)"
    if name in known["types"]:
        return f"write {known['types'][name]}(x)"
    return cure_of_type(name) or None


def _typed_first(match: re.Match[str]) -> str | None:
    """The cure for a declaration with the type before the name, or without the ':' between them."""
    first, second = (_table()["types"].get(word, word) for word in (match["here"], match["name"]))
    dims = match["dims"] or ""
    if first in DTYPES:
        return f"write `{match['role']} {match['name']}: {first}{dims}`"
    return f"write `{match['role']} {match['here']}: {second}{dims}`" if second in DTYPES else None


def cure_of_type(name: str) -> str:
    """The element type that another language's name means, as a cure; empty where there is none."""
    if _COMPLEX.fullmatch(name):
        return "there are no complex numbers: declare two buffers, for the real and for the imaginary part"
    lower = name.lower()
    return _cure("types", name) or (f"write {lower}" if lower in DTYPES else _cure("types", lower))


def cure_of_mark(name: str) -> str:
    """The mark that a word means, as a cure; empty where there is none."""
    return _cure("marks", name)


def cure_of_storage(name: str) -> str:
    """The attribute of a buffer that a word means, as a cure; empty where there is none."""
    return _cure("storage", name)


def cure_of_name(name: str) -> str:
    """The meaning of a name in the place of a size, as a cure; empty where nothing is known of it."""
    return _table()["names"].get(name, "")


def _cure(kind: str, name: str) -> str:
    word = _table()[kind].get(name)
    return f"write {word}" if word is not None else ""


def _type(word: str) -> str:
    return _table()["types"].get(word, word)


def _called(name: str) -> str:
    return f"write {name}(…)"


def _role(word: str) -> str:
    return {"input": "in", "output": "out", "const": "in", "arg": "in", "param": "in"}.get(word, "tmp")


def _marked(word: str) -> str:
    return _MARKED.get(word, "")


def _gpu_word(word: str) -> str:
    marks = {"threadIdx": "bx, by or bz", "blockIdx": "gx, gy or gz"}
    if word in marks:
        return f"a scope has the mark {marks[word]}, as in `N : {marks[word][:2]} @i`, and its iterator is {{i}}"
    return "sizes of blocks and grids are the extents of scopes with the marks bx and gx"
