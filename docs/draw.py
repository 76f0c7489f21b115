"""Draws the pictures of the README and of the pages: `python docs/draw.py` writes `docs/pictures/*.svg`.

Charts come from the tables of measured results (`benchmarks/RESULTS*.md`), loop nests from kernels and moves, so
that no number and no text of a picture is typed here. The tests draw them again and compare.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import dojoir
from dojoir.highlight import DojoLexer

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"

COLOURS = {
    "Comment": "#6e7781", "Keyword": "#8250df", "Keyword.Type": "#0969da", "Keyword.Pseudo": "#bc4c00",
    "Name.Function": "#0969da", "Name.Builtin": "#9a6700", "Name.Label": "#bc4c00", "Name.Variable": "#1a7f37",
    "Literal.Number": "#cf222e", "Operator": "#57606a", "Punctuation": "#8c959f",
}  # fmt: skip
"""Colours of the kinds of tokens, on white."""

AHEAD, CLOSE, BEHIND = "#2da44e", "#bf8700", "#cf222e"
FONT = 'font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace"'
SANS = 'font-family="system-ui,-apple-system,Segoe UI,Roboto,Helvetica,Arial,DejaVu Sans,sans-serif"'
CHARACTER, LINE = 7.9, 19
"""Width and height of a character at 13 px, in px."""


def svg(width: float, height: float, parts: Sequence[str], says: str) -> str:
    """A picture on a white ground, with a text for those who do not see it."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
    head += f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="{html.escape(says)}">'
    return "\n".join([head, f"<title>{html.escape(says)}</title>", '<rect width="100%" height="100%" fill="#fff"/>',
                      *parts, "</svg>", ""])  # fmt: skip


def line_of_kernel(text: str) -> str:
    """One line of a kernel as coloured spans."""
    out = []
    for kind, word in DojoLexer(ensurenl=False, stripnl=False).get_tokens(text):
        name = str(kind).removeprefix("Token.")
        while name and name not in COLOURS:
            name = name.rpartition(".")[0]
        shown = html.escape(word)
        out.append(f'<tspan fill="{COLOURS[name]}">{shown}</tspan>' if name else shown)
    return "".join(out)


def kernel_box(text: str, title: str, x: float, y: float, width: float, height: float) -> list[str]:
    """A kernel in a frame, with a title above it."""
    parts = [f'<text x="{x}" y="{y - 8}" {SANS} font-size="13" font-weight="600" fill="#24292f">{title}</text>']
    parts.append(
        f'<rect x="{x}" y="{y}" width="{width:.0f}" height="{height:.0f}" rx="6" fill="#f6f8fa" stroke="#d0d7de"/>'
    )
    for n, line in enumerate(text.splitlines()):
        at = f'x="{x + 12}" y="{y + 22 + n * LINE}"'
        parts.append(
            f'<text {at} {FONT} font-size="13" fill="#24292f" xml:space="preserve">{line_of_kernel(line)}</text>'
        )
    return parts


def nests(kernel: dojoir.Kernel, moves: Sequence[str], says: str) -> str:
    """A kernel, the moves that are made, and the kernel that they leave, side by side."""
    trace = dojoir.Trace(kernel)
    for move in moves:
        trace.apply(move)
    before, after = str(kernel).rstrip(), str(trace.kernel).rstrip()
    sizes = [max(map(len, text.splitlines())) * CHARACTER + 28 for text in (before, after)]
    middle = max(map(len, moves)) * CHARACTER + 44
    rows = max(before.count("\n"), after.count("\n"), len(moves)) + 1
    height = rows * LINE + 20
    parts = kernel_box(before, "as written", 16, 36, sizes[0], height)
    right = 16 + sizes[0] + middle
    for n, move in enumerate(moves):
        at = f'x="{16 + sizes[0] + middle / 2:.0f}" y="{36 + height / 2 + (n - len(moves) / 2) * LINE:.0f}"'
        parts.append(
            f'<text {at} {FONT} font-size="12" text-anchor="middle" fill="#57606a">{html.escape(move)}</text>'
        )
    bottom = 36 + height / 2 + len(moves) / 2 * LINE
    start, end = 16 + sizes[0] + 14, right - 14
    parts.append(f'<path d="M{start:.0f} {bottom:.0f}H{end:.0f}m-7 -5l7 5l-7 5" fill="none" stroke="#57606a"/>')
    parts += kernel_box(after, f"after {len(moves)} moves, each proved", right, 36, sizes[1], height)
    return svg(right + sizes[1] + 16, 36 + height + 16, parts, says)


def table(file: str, heading: str, ratio: str) -> list[tuple[str, float, str]]:
    """Of the first table after a heading: each row's name, its ratio to the fastest peer, and that peer's name."""
    text = (ROOT / "benchmarks" / file).read_text(encoding="utf-8")
    lines = iter(text[text.index(heading) :].splitlines())
    columns: list[str] = []
    found = []
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            if found:
                break
        elif not columns:
            columns = cells
        elif not re.fullmatch(r"[-: ]*", cells[0]) and cells[columns.index(ratio)]:
            peer = cells[columns.index("fastest peer")] if "fastest peer" in columns else "best peer"
            found.append((cells[0], float(cells[columns.index(ratio)]), peer))
    return found


def bars(rows: Sequence[tuple[str, float, str]], title: str, below: str) -> str:
    """Ratios as bars, with a line at 1: green at 1 or more, yellow from 0.85, red below."""
    left, scale, step = 250, 170, 20
    end = left + max(ratio for _, ratio, _ in rows) * scale
    parts = [f'<text x="16" y="26" {SANS} font-size="14" font-weight="600" fill="#24292f">{title}</text>']
    for n, (name, ratio, peer) in enumerate(rows):
        y = 44 + n * step
        colour = AHEAD if ratio >= 1 else CLOSE if ratio >= 0.85 else BEHIND
        at = f'x="{left - 8}" y="{y + 12}"'
        parts.append(f'<text {at} {SANS} font-size="12" text-anchor="end" fill="#24292f">{name}</text>')
        parts.append(f'<rect x="{left}" y="{y}" width="{ratio * scale:.1f}" height="15" fill="{colour}"/>')
        parts.append(
            f'<text x="{left + max(ratio, 1.0) * scale + 6:.1f}" y="{y + 12}" {SANS} font-size="12" fill="#57606a">'
            f"{ratio:.2f} {peer}</text>"
        )
    bottom = 44 + len(rows) * step
    parts.append(f'<path d="M{left + scale} 38V{bottom}" stroke="#24292f" stroke-dasharray="3 3"/>')
    parts.append(f'<text x="16" y="{bottom + 20}" {SANS} font-size="12" fill="#57606a">{below}</text>')
    return svg(end + 170, bottom + 34, parts, f"{title}: a bar chart")


def moves_of(file: str) -> list[str]:
    """The moves of a file of examples, without comments."""
    lines = (ROOT / "examples" / file).read_text(encoding="utf-8").splitlines()
    return [move for line in lines if (move := line.partition("#")[0].strip())]


def softmax() -> str:
    says = "Softmax as three passes over each row in two loops, and after nine moves as one loop over rows in lanes"
    return nests(dojoir.load(ROOT / "examples" / "softmax.dojo"), moves_of("softmax.moves"), says)


def matmul() -> str:
    kernel = dojoir.parse(
        "kernel matmul(N, M, K)\nin  a: f32[N, K]\nin  b: f32[K, M]\nout c: f32[N, M]\n"
        "N @i\n| M @j\n| | c[{i}, {j}] = 0\n| | K @k\n| | | c[{i}, {j}] += a[{i}, {k}] * b[{k}, {j}]\n"
    )
    moves = ["split_scopes(@j, 1)", "split_scopes(@i, 1)", "tile(1, 1.0, 8, 32)"]
    return nests(kernel, moves, "A matrix product as written, and with the zeros apart and the products in tiles")


def speed() -> str:
    rows = table("RESULTS.md", "## 1 thread", "ratio")
    below = "One thread of an Intel Xeon (AVX-512), f32; 1 is the fastest of eight peers, named at the bar. "
    return bars(rows, "Speed beside the fastest peer, on a CPU", below + "From benchmarks/RESULTS.md.")


def speed_gpu() -> str:
    rows = table("RESULTS_h200.md", "| row | dojoir", "beside")
    below = "NVIDIA H200; 1 is the best of PyTorch, torch.compile, Triton, JAX and CuPy. "
    return bars(rows, "Speed beside the best peer, on a GPU", below + "From benchmarks/RESULTS_h200.md.")


DRAWN: dict[str, Callable[[], str]] = {"softmax": softmax, "matmul": matmul, "speed": speed, "speed_gpu": speed_gpu}


SHOWN = {
    "softmax": "softmax 4096", "layernorm": "layernorm 4096", "rmsnorm": "rmsnorm 4096", "matmul": "matmul 1024",
    "gemv": "gemv 4096", "attention": "attention", "cumsum": "cumsum",
}  # fmt: skip
"""Kernels of the library, each with the row of the results that is shown beside it."""


def gallery() -> str:
    """The page of texts with their speeds."""
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    lines = [line for line in text[text.index("## 1 thread") :].splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    out = ["# A gallery of texts", ""]
    out += [
        "Kernels of the library beside what they reach after `dojoir.optimize`: one thread of an Intel Xeon with"
    ]
    out += ["AVX-512, from `benchmarks/RESULTS.md`. `python docs/draw.py` makes this page.", ""]
    for name, shown in SHOWN.items():
        what, time, share, peer, ratio, *_ = next(row for row in rows[1:] if row[0].startswith(shown))
        of = share.replace(" me", " of the memory ceiling").replace(" ar", " of the arithmetic ceiling")
        out += [f"## {name}", "", f"`{what}`: {time} ms, {of}; {ratio} times as fast as the fastest of eight"]
        out += [f"peers ({peer}).", "", "```dojo", str(dojoir.kernels.load(name)).rstrip(), "```", ""]
    return "\n".join(out)


def main() -> None:
    (ROOT / "docs" / "gallery.md").write_text(gallery(), encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    for name, draw in DRAWN.items():
        (PICTURES / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
