"""The page: text that is escaped, a style and a script that stand in it with their digests, and nothing else that
may run or be fetched."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files

import dojoir
from dojoir.evidence.bundle import Gate
from dojoir.evidence.figures import Bench, Times, sizes_in_words
from dojoir.evidence.page import plots
from dojoir.evidence.page.view import PageView
from dojoir.records import State
from dojoir.support.seconds import format_seconds

HERE = "dojoir.evidence.page"

MARKS = {"pass": "✓", "fail": "✗", "not-run": "–", "unavailable": "?"}
"""The sign of each status of a gate, beside the word."""


def page(view: PageView) -> str:
    """A page that shows a view, as one file."""
    style, script = (files(HERE).joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; base-uri 'none'; "
        f"form-action 'none'"
    )
    title = escape(view.title)
    sections = [
        *_section("gates", "Gates", _gates(view.gates)),
        *_section("times", "Times", "" if view.bench is None else "".join(_times(view.bench))),
        *_section("roof", "Roofline", plots.roofline(view.bench)),
        *_section("search", "Search", _search(view.states)),
        *(part for n, (name, text) in enumerate(view.texts.items())
          for part in _section(f"text{n}", name, f'<pre class="code" tabindex="0">{escape(text)}</pre>')),
    ]  # fmt: skip
    links = "".join(
        f'<a href="#{name}">{escape(label)}</a>' for name, label, _ in [("steps", "Moves", ""), *sections]
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#steps">To the moves</a>
<header>
<h1>{title}</h1>
<button type="button" id="theme" aria-pressed="false">dark or light</button>
<nav aria-label="Sections">{links}</nav>
{_facts(view)}
</header>
<main>
{_steps(view)}
{"".join(html for _, _, html in sections)}
</main>
<footer>dojoir {escape(dojoir.__version__)}. This page asks nobody for anything.</footer>
<script type="application/json" id="data">{_data(view)}</script>
<script>{script}</script>
</body>
</html>
"""


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _section(name: str, label: str, html: str) -> Iterable[tuple[str, str, str]]:
    """A section, unless there is nothing in it."""
    if html:
        head = f'<h2 id="{name}-head">{escape(label)}</h2>'
        yield name, label, f'<section id="{name}" aria-labelledby="{name}-head">{head}{html}</section>\n'


def _facts(view: PageView) -> str:
    rows = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in view.facts.items()
    )
    return f"<dl>{rows}</dl>" if rows else ""


def _steps(view: PageView) -> str:
    """The moves with the kernel after one of them; without a script, after the last."""
    last = view.steps[-1]
    text = "\n".join(line.text for line in last.lines if line.kind != "gone")
    names = ["as it was written", *(step.move for step in view.steps[1:])]
    moves = "".join(f'<li><button type="button">{escape(name)}</button></li>' for name in names)
    machine = "\n".join(
        f'<div><h3>{escape(one.name)}</h3><pre class="code machine" tabindex="0">{escape(one.text)}</pre></div>'
        for one in last.machine
    )
    wide = f" with{len(last.machine)}" if last.machine else ""
    of = f" ({escape(view.language)})" if view.language else ""
    return f"""<section id="steps" aria-labelledby="steps-head">
<h2 id="steps-head">Moves</h2>
<div class="bar">
<button type="button" id="first" aria-label="first">|◀</button>
<button type="button" id="back" aria-label="one move back">◀</button>
<button type="button" id="on" aria-label="one move on">▶</button>
<button type="button" id="last" aria-label="last">▶|</button>
<label>search <input id="find" type="search" autocomplete="off" spellcheck="false"></label>
<span id="said" role="status" aria-live="polite"></span>
</div>
<p class="hint">Keys: ← → a move back and on, Home End the ends, / search, t dark or light.
A line that is chosen shows its code.</p>
<div class="columns{wide}">
<ol id="moves" start="0">{moves}</ol>
<div><h3>Text</h3><pre id="kernel" class="code" tabindex="0">{escape(text)}</pre></div>
<div><h3>Code{of}</h3><pre id="source" class="code" tabindex="0">{escape(last.source)}</pre></div>
{machine}
</div>
</section>
"""


def _gates(gates: Sequence[Gate]) -> str:
    if not gates:
        return ""
    rows = [(one.status, (one.name, f"{MARKS.get(one.status, '')} {one.status}", one.reason)) for one in gates]
    return _table(("gate", "status", "why"), rows)


def _table(head: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """A table: each row has a class, and its first cell is its head."""
    names = "".join(f'<th scope="col">{name}</th>' for name in head)
    body = "".join(
        f'<tr class="{escape(kind)}"><th scope="row">{escape(first)}</th>'
        f"{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for kind, (first, *cells) in rows
    )
    return f'<div class="wide"><table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>'


def _times(bench: Bench) -> Iterator[str]:
    """The times at each shape: a plot and a table."""
    for shape in bench.shapes:
        notes = [bench.protocol, f"failed: {shape.reason}" if shape.reason else ""]
        notes += [f"noise: the kernel beside itself {shape.noise}" if shape.noise else ""]
        notes += [f"{name} left out: {why}" for name, why in shape.left_out.items()]
        said = " ".join(f'<p class="hint">{escape(text)}</p>' for text in notes if text)
        times = [*([] if shape.own is None else [shape.own]), *shape.peers]
        name = sizes_in_words(shape.sizes)
        table = _table(("", "median", "95% interval", "samples", "times as fast as it"), [*map(_row, times)])
        yield f"<h3>{escape(name)}</h3>{plots.times(name, times)}{table}{said}"


def _row(one: Times) -> tuple[str, Sequence[str]]:
    interval = f"{format_seconds(one.low)} to {format_seconds(one.high)}"
    return "", (one.name, format_seconds(one.seconds), interval, str(one.count), str(one.ratio or ""))


def _search(states: Sequence[State]) -> str:
    """The tree, and a list of the states that the search of the page looks through."""
    if not states:
        return ""
    rows = "".join(
        f'<li data-n="{n}"><code>{escape(one.move or "the start")}</code> {escape(plots.described(one))} '
        f'<span class="dim">{escape(one.hash[:12])}</span></li>'
        for n, one in enumerate(states)
    )
    return (
        f'{plots.tree(states)}<details><summary>{len(states)} states</summary><ol id="states">{rows}</ol></details>'
    )


def _data(view: PageView) -> str:
    """The steps for the script, as JSON in which nothing can end the element that it stands in."""
    steps = [
        {
            "move": step.move, "hash": step.hash[:12], "source": step.source,
            "lines": [[line.kind[0], line.text, [list(span) for span in line.spans]] for line in step.lines],
            "machine": [[one.text, list(one.of)] for one in step.machine],
        }
        for step in view.steps
    ]  # fmt: skip
    text = json.dumps({"steps": steps}, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
