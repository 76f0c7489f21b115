"""The page of a run: all text escaped, nothing fetched, nothing run but its own script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

import dojoir
from dojoir.evidence.bundle import Gate
from dojoir.evidence.figures import Bench, Ceiling, Shape, Times, timed
from dojoir.evidence.page import plots
from dojoir.evidence.page.html import page
from dojoir.evidence.page.view import PageStep, PageView, lines_of_source, spans_of, steps_of
from dojoir.records import State
from dojoir.runtime import Evaluation

MARKUP = "</script><img src=x onerror=alert(1)><!--'\"&"


def traced() -> dojoir.Trace:
    trace = dojoir.Trace(dojoir.kernels.load("softmax"))
    for move in ("join_scopes(0, 1)", "vectorize(0.1)", "reuse_dims(m, 0)"):
        trace.apply(move)
    return trace


def times(name: str, seconds: float) -> Times:
    return timed(name, [seconds * (1 + n / 1e4) for n in range(30)], [seconds / 2] * 30, None)


def state(hash: str, parent: str | None, move: str | None, status: str, seconds: float | None = None) -> State:
    return State("h0", hash, parent, move, Evaluation(hash, status, seconds))


def states(count: int) -> tuple[State, ...]:
    found = [state("h0", None, None, "ok", 1e-3)]
    for n in range(1, count):
        status = "wrong" if n % 7 == 3 else "ok"
        found.append(
            state(f"h{n}", f"h{(n - 1) // 3}", f"split(0.{n}, 16)", status, 1e-3 / n if status == "ok" else None)
        )  # fmt: skip
    return tuple(found)


def view(word: str = "softmax", count: int = 40) -> PageView:
    return PageView(
        word,
        {"target": "llvm", word: word},
        steps_of(traced()),
        "c",
        states(count),
        Bench(
            word,
            "",
            "llvm",
            1,
            word,
            word,
            word,
            "pass",
            "",
            (
                Shape(
                    {word: 3},
                    "ok",
                    own=times(word, 1e-3),
                    ceiling=Ceiling(200, 100, 0, 10.0, 100.0),
                    peers=(times("text", 2e-3),),
                    left_out={word: word},
                ),
            ),
        ),
        (Gate("proved", "pass", word), Gate("built", "fail", word), Gate("faster", "not-run", "")),
        {word: word},
    )


class Read(HTMLParser):
    """The elements and the attributes of a page, and the text of the ones that hold code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {}
        self.open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open = tag
        if tag in ("script", "style"):
            self.inside.setdefault(tag, []).append("")

    def handle_data(self, data: str) -> None:
        if self.open in ("script", "style"):
            self.inside[self.open][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self.open = ""


def test_a_page_asks_nobody_and_runs_nothing_but_its_own_script() -> None:
    read = Read(page(view()))
    for tag, attributes in read.elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form", "audio", "video"}
        for name, value in attributes.items():
            assert not name.startswith("on") and name not in {"src", "style", "srcset", "action"}
            assert name != "href" or (value or "").startswith("#")
    policy = next(
        str(attributes["content"]) for _, attributes in read.elements if "http-equiv" in attributes
    )  # fmt: skip
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    data, script = read.inside["script"]
    for text in (script, *read.inside["style"]):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
        assert "http" not in text and "url(" not in text and "innerHTML" not in text
    assert [step["move"] for step in json.loads(data)["steps"]] == [
        "", "join_scopes(0, 1)", "vectorize(0.1)", "reuse_dims(m, 0)",
    ]  # fmt: skip


def test_all_text_is_escaped() -> None:
    hostile = view(MARKUP)
    step = PageStep(MARKUP, MARKUP, (*hostile.steps[0].lines,), MARKUP)
    given = PageView(
        **{
            **vars(hostile),
            "steps": (hostile.steps[0], step),
            "states": (state(MARKUP, None, MARKUP, MARKUP, 1.0), state("b", MARKUP, MARKUP, "ok", 2.0)),
            "gates": (Gate(MARKUP, "fail", MARKUP),),
            "language": MARKUP,
        }
    )
    text = page(given)
    read = Read(text)
    assert "img" not in {tag for tag, _ in read.elements} and "<img" not in text
    assert len(read.inside["script"]) == 2
    assert json.loads(read.inside["script"][0])["steps"][1]["move"] == MARKUP
    assert text.count("<!--") == 0


def test_a_page_is_read_without_eyes_and_without_a_script() -> None:
    text = page(view())
    read = Read(text)
    tags = [tag for tag, _ in read.elements]
    assert tags.count("h1") == 1 and {"main", "nav", "header", "footer", "html"} <= set(tags)
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for tag, attributes in read.elements:
        if tag == "svg":
            assert attributes["role"] == "img"
        if tag == "section":
            assert attributes["aria-labelledby"] in ids
        if tag == "a":
            assert str(attributes["href"]).removeprefix("#") in ids
    assert text.count("<title>") >= text.count("<svg") + 1
    last = str(traced().kernel).rstrip("\n").replace("<", "&lt;")
    assert last in text  # the kernel after the last move


def test_a_step_shows_what_changed_and_its_code_beside_it() -> None:
    steps = steps_of(traced())
    changed = [(line.kind, line.text) for line in steps[2].lines if line.kind != "same"]
    assert changed == [("gone", "| M @j"), ("new", "| M : v @j")]
    assert [line.text for line in steps[2].lines if line.kind != "gone"] == str(
        dojoir.Trace(traced().start).then("join_scopes(0, 1)").then("vectorize(0.1)").kernel
    ).splitlines()
    source = steps[-1].source.splitlines()
    for line in steps[-1].lines:
        for start, end in line.spans:
            assert "//" in source[start] and start <= end
            assert line.text.strip("| ").split(" @")[0] in source[start] or "{" in line.text
    scopes = [
        line for line in steps[-1].lines if line.text.strip("| ").startswith(("N", "M")) and line.kind != "gone"
    ]
    assert all(line.spans for line in scopes)


def test_the_code_of_a_loop_ends_with_its_bracket() -> None:
    kernel = dojoir.kernels.load("relu")
    source = dojoir.emit(kernel, "c").splitlines()
    ((start, end),) = next(iter(spans_of(kernel, "\n".join(source)).values()))
    assert source[start].lstrip().startswith("for") and source[end].strip() == "}"


def test_a_plot_has_no_script_and_says_what_it_shows() -> None:
    for svg in (plots.tree(states(30)), plots.times("N=3", [times("text", 2e-3)]), plots.roofline(view().bench)):
        assert svg.startswith("<svg") and "<title>" in svg and "<desc>" in svg and "NaN" not in svg
        numbers = [float(one) for one in re.findall(r'[xy][12]?="(-?[\d.]+)"', svg)]
        assert numbers and all(-5 <= one <= 1000 for one in numbers)
    assert plots.tree(()) == "" and plots.times("", ()) == "" == plots.roofline(None)


def test_a_tree_that_goes_in_a_circle_or_has_no_root_is_drawn() -> None:
    strange = (State("a", "a", "b", "x"), State("a", "b", "a", "y"), state("c", "missing", "z", "ok", 1.0))
    assert plots.tree(strange).count("<circle") == 3


def test_a_thousand_states_make_a_page_of_less_than_five_megabytes() -> None:
    assert len(page(view(count=1000)).encode()) < 5_000_000


def test_the_script_is_one(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to read it")
    path = tmp_path / "page.js"
    path.write_text(Read(page(view())).inside["script"][1])
    done = subprocess.run([node, "--check", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


PTX = """\
.visible .entry relu_kernel(
\t.loc\t1 16 0
\tld.param.u64 \t%rd22, [relu_kernel_param_0];
\t.loc\t1 12 5, function_name $L__info_string0, inlined_at 1 19 9
\tsetp.lt.f32 \t%p3, %f1, 0f00000000;
}
"""
SASS = """\
relu_kernel:
\t//## File "kernel.cu", line 12 inlined at "kernel.cu", line 19
\t//## File "kernel.cu", line 19
        /*01a0*/                   LDG.E.CONSTANT R0, desc[UR12][R2.64] ;
.L_x_1:
        /*01b0*/                   EXIT ;
"""


def test_lines_of_machine_code_are_those_of_the_source() -> None:
    assert lines_of_source(PTX) == (-1, -1, 15, -1, 18, -1)
    assert lines_of_source(SASS) == (-1, -1, -1, 18, 18, 18)


def test_text_source_ptx_and_sass_are_side_by_side() -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs the extra cuda")
    kernel = dojoir.kernels.load("relu")
    steps = steps_of(dojoir.Trace(kernel), "cuda")
    names = [one.name for one in steps[-1].machine]
    assert names == ["PTX", "SASS"]
    made = page(PageView("relu", {}, steps, "cuda"))
    data = json.loads(Read(made).inside["script"][0])["steps"][-1]
    assert made.count('class="code machine"') == 2 and "with2" in made
    for one, (text, of) in zip(steps[-1].machine, data["machine"], strict=True):
        assert one.text == text and len(of) == len(text.splitlines())
    if "NVRTC" not in steps[-1].machine[0].text.splitlines()[0]:
        source = steps[-1].source.splitlines()
        of = steps[-1].machine[0].of
        assert any("fabsf" in source[line] or "x[i]" in source[line] for line in of if line >= 0)
