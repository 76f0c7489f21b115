"""Colours of kernels: both grammars take every kernel of the library whole, and name what is in it."""

from __future__ import annotations

import json
import re

import pytest
from folders import ROOT
from pygments.lexers import get_lexer_by_name
from pygments.token import Error, Keyword, Name, Text

import dojoir
from dojoir.highlight import DojoLexer
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.nodes import MARKS

TEXTMATE = ROOT / "editors" / "vscode" / "dojo.tmLanguage.json"


@pytest.mark.parametrize("name", dojoir.kernels.names())
def test_a_kernel_is_lexed_whole(name: str) -> None:
    text = dojoir.kernels.source(name)
    tokens = list(DojoLexer(stripnl=False, ensurenl=False).get_tokens(text))
    assert "".join(value for _, value in tokens) == text
    assert not [value for kind, value in tokens if kind in Error or (kind is Text and value.strip())]
    kinds = {value: kind for kind, value in tokens}
    assert kinds["kernel"] is Keyword.Declaration
    assert kinds[name] is Name.Function


def test_parts_of_a_line() -> None:
    tokens = list(DojoLexer().get_tokens("| M : v @j\n| | s[{0}] max= exp(x[{0}, {j}])  # rows\n"))
    kinds = {value: str(kind).removeprefix("Token.") for kind, value in tokens if value.strip()}
    assert kinds["v"] == "Keyword.Pseudo"
    assert kinds["@j"] == "Name.Label"
    assert kinds["{j}"] == "Name.Variable"
    assert kinds["max="] == "Operator"
    assert kinds["exp"] == "Name.Builtin"
    assert kinds["# rows"] == "Comment.Single"


def test_pygments_finds_it_by_name() -> None:
    assert isinstance(get_lexer_by_name("dojo"), DojoLexer)


def test_the_grammar_for_editors_names_the_same_types() -> None:
    patterns = json.loads(TEXTMATE.read_text(encoding="utf-8"))["patterns"]
    for pattern in patterns:
        for regex in (pattern[key] for key in ("match", "begin", "end") if key in pattern):
            re.compile(regex)
    (types,) = (pattern["match"] for pattern in patterns if pattern.get("name") == "storage.type.dojo")
    assert all(re.fullmatch(types, name) for name in DTYPES)


def test_the_grammar_for_editors_colours_marks_and_no_names_like_them() -> None:
    patterns = json.loads(TEXTMATE.read_text(encoding="utf-8"))["patterns"]
    (scope,) = (pattern for pattern in patterns if "begin" in pattern)
    (mark,) = (inner["match"] for inner in scope["patterns"] if inner.get("name") == "storage.modifier.mark.dojo")
    for name in MARKS:
        line = f"N : {name} @i"
        assert re.search(scope["begin"], line) and re.search(mark, line.partition(":")[2])[0] == name  # type: ignore[index]
    for line in ("kernel k(N, p, v)", "in  v: f32[N]", "| y[{0}] = max(p, v)"):
        assert not re.search(scope["begin"], line)
    (operators,) = (p["match"] for p in patterns if p.get("name") == "keyword.operator.dojo")
    (numbers,) = (p["match"] for p in patterns if p.get("name") == "constant.numeric.dojo")
    assert re.match(operators, "max= x")[0] == "max=" and not re.search(numbers, "avx512_fmadd_ps")  # type: ignore[index]


def test_the_extension_for_an_editor_is_whole() -> None:
    folder = TEXTMATE.parent
    package = json.loads((folder / "package.json").read_text(encoding="utf-8"))["contributes"]
    assert package["languages"][0]["extensions"] == [".dojo"]
    files = [
        package["languages"][0]["configuration"],
        package["grammars"][0]["path"],
        package["snippets"][0]["path"],
    ]
    for file in files:
        json.loads((folder / file).read_text(encoding="utf-8"))


def test_each_snippet_is_a_kernel() -> None:
    snippets = json.loads((TEXTMATE.parent / "snippets.json").read_text(encoding="utf-8"))
    for snippet in snippets.values():
        text = re.sub(r"\$\{\d+:(\w+)\}", r"\1", "\n".join(snippet["body"])) + "\n"
        dojoir.prove(dojoir.parse(text))
