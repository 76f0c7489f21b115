"""Kernels made at random for the proofs and counts: triangles, tiles, guards, reversed reads, scopes that may not
run, collapsed dimensions. About half of them are ill-formed."""

from __future__ import annotations

from hypothesis import strategies as st

FACTS = ("", "", "where N >= 2", "where N % 2 == 0", "where N <= M", "where N == M", "where N >= 3, M <= 4")
BIG = "2*N + 2*M"
SHAPES = {"x": ("N", "M"), "z": ("N",), "y": ("N",), "t": ("N",), "e": ("N", "M")}


@st.composite
def texts(draw: st.DrawFn, wide: bool = False) -> str:
    """The text of a kernel that parses. With `wide`, buffers are so large that nearly all indices are in bounds,
    and temporaries have a value to begin with about as often as not."""
    lines: list[str] = []
    known: list[tuple[str, int]] = []  # accesses assigned earlier, with the number of scopes around

    def index(dim: str, around: list[str]) -> str:
        fitting = [f"{{{d}}}" for d, extent in enumerate(around) if dim in extent]
        choices = ["0", *fitting * 4]
        if wide or not fitting:
            choices += [f"{{{d}}}" for d in range(len(around))]
        choices += [f"{dim} - 1 - {i}" for i in fitting]
        if wide:
            choices += [f"{i} + 1" for i in fitting] + (["2*{0} + {1}"] if len(around) > 1 else [])
        return draw(st.sampled_from(choices))

    def access(name: str, around: list[str]) -> str:
        seen = [text for text, depth in known if text.startswith(name) and depth <= len(around)]
        if seen and draw(st.booleans()):
            return draw(st.sampled_from(seen))
        return f"{name}[{', '.join(index(dim, around) for dim in SHAPES[name])}]"

    def statement(bars: int, around: list[str]) -> None:
        target = access(draw(st.sampled_from(["t", "e", "y", "z"])), around)
        op = draw(st.sampled_from(["=", "=", "=", "+=", "max="]))
        sources = draw(st.lists(st.sampled_from(["x", "t", "t", "e", "e", "z", "y"]), max_size=2))
        value = " + ".join([access(name, around) for name in sources] or ["1"])
        lines.append(f"{'| ' * bars}{target} {op} {value}")
        if op == "=":
            known.append((target, len(around)))

    def nest(bars: int, around: list[str]) -> None:
        for _ in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from(["scope", "scope", "guard", "statement", "statement", "statement"]))
            prefix = "| " * bars
            if kind == "scope" and len(around) < 3:
                extents = ["N", "N", "M", "M", "N - 1", "2", "N // 2", "min(N, M)", "(N + 1) // 2"]
                for d in range(len(around)):
                    extents += [f"{{{d}}} + 1", f"N - {{{d}}}", f"min(2, N - 2*{{{d}}})"]
                extent = draw(st.sampled_from(extents))
                lines.append(prefix + extent)
                nest(bars + 1, [*around, extent])
            elif kind == "guard" and around and bars < 4:
                last = len(around) - 1
                guards = [f"{{{last}}} < N - 1", f"{{{last}}} % 2 == 0", f"{{0}} != {{{last}}}", "N > M"]
                lines.append(f"{prefix}if {draw(st.sampled_from(guards))}")
                nest(bars + 1, around)
            else:
                statement(bars, around)
        known[:] = [(text, depth) for text, depth in known if depth < len(around) or not around]

    for name in ("t", "e"):
        if draw(st.booleans()):
            extents = [BIG if wide else dim for dim in SHAPES[name]]
            lines += ["| " * d + extent for d, extent in enumerate(extents)]
            lines.append("| " * len(extents) + f"{name}[{', '.join(f'{{{d}}}' for d in range(len(extents)))}] = 0")
    nest(0, [])

    def shape(name: str, collapsible: bool) -> str:
        marks = ["", "", "~"] if collapsible else [""]
        return ", ".join((BIG if wide else dim) + draw(st.sampled_from(marks)) for dim in SHAPES[name])

    role = draw(st.sampled_from(["out  ", "inout", "inout"]))
    facts = draw(st.sampled_from(FACTS))
    header = ["kernel loose(N, M)", facts, f"in x: f32[{shape('x', False)}]", f"inout z: f32[{shape('z', False)}]"]
    header.append(f"{role} y: f32[{'N' if role == 'out  ' else shape('y', False)}]")
    header += [f"tmp {name}: f32[{shape(name, True)}]" for name in ("t", "e")]
    return "\n".join([*filter(None, header), "", *lines, ""])
