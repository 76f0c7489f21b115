"""The planner for GPUs: each structure gives what the text gives, and a plan is no worse than its parts."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
import pytest
from texts_at_data import AT_DATA

import dojoir
from dojoir.backends.host import machine_named
from dojoir.ir.nodes import Scope
from dojoir.passes.schedule.gpu import rows as gpu_rows
from dojoir.passes.schedule.plan.kernel_forms import FORMS
from dojoir.passes.schedule.plan.planner import Planner
from dojoir.passes.schedule.plan.structures import STRUCTURES, Structure, rules
from dojoir.passes.schedule.steps.combinators import tried as tried_on

NO_SIZES = MappingProxyType[str, int]({})

TEXTS = {
    "counts": """kernel t(N = 1500)
in  x: u8[N]
in  w: i32[N]
inout h: i32[256]

N
| h[x[{0}]] += w[{0}] if w[{0}] > 0
""",
    "gathered rows": """kernel t(N = 6, M = 5, V = 9, D = 40)
in  ids: i32[N, M]
in  w: f32[V, D]
out y: f32[N, D]

N
| D
| | y[{0}, {1}] = 0
| M
| | D
| | | y[{0}, {2}] += w[ids[{0}, {1}] % 9, {2}]
""",
    "rows to slots": """kernel t(N = 6, S = 11, D = 36)
in  at: i64[N] distinct
in  k: f32[N, D]
in  v: f32[N, D]
inout keys: f32[S, D]
inout values: f32[S, D]

N
| D
| | keys[at[{0}], {1}] = k[{0}, {1}]
| | values[at[{0}], {1}] = v[{0}, {1}] * 2
""",
    **AT_DATA,
    "sum of all": """kernel t(A = 6, B = 40, C = 132)
in  x: f32[A, B, C]
out s: f32

s = 0
A
| B
| | C
| | | s += x[{0}, {1}, {2}]
""",
    "middle": """kernel t(A = 5, B = 70, C = 40)
in  x: f32[A, B, C]
out s: f32[A, C]

A
| C
| | s[{0}, {1}] = -inf
| | B
| | | s[{0}, {1}] max= x[{0}, {2}, {1}]
""",
    "channels": """kernel t(N = 3, C = 4, S = 136)
in  x: f32[N, C, S]
out y: f32[C]

C
| y[{0}] = 0
| N
| | S
| | | y[{0}] += x[{1}, {0}, {2}]
| y[{0}] = y[{0}] / 408
""",
    "both axes": """kernel t(N = 40, M = 100)
in  x: f32[N, M]
out columns: f32[M]
out rows: f32[N]

M
| columns[{0}] = 0
N
| rows[{0}] = 0
| M
| | rows[{0}] += abs(x[{0}, {1}])
| | columns[{1}] += abs(x[{0}, {1}])
""",
    "rows": """kernel t(N = 3, M = 200)
in  x: f32[N, M]
out y: f32[N, M]
tmp m: f32[N]
tmp s: f32[N]

N
| m[{0}] = -inf
| M
| | m[{0}] max= x[{0}, {1}]
| s[{0}] = 0
| M
| | s[{0}] += exp(x[{0}, {1}] - m[{0}])
| M
| | y[{0}, {1}] = x[{0}, {1}] - m[{0}] - log(s[{0}])
""",
    "product": """kernel t(N = 37, M = 70, K = 19)
in  a: f32[N, K]
in  b: f32[M, K]
in  c: f32[N, M]
out d: f32[N, M]

N
| M
| | d[{0}, {1}] = c[{0}, {1}]
| | K
| | | d[{0}, {1}] += a[{0}, {2}] * b[{1}, {2}]
""",
    "tokens": """kernel t(N = 3, M = 16, K = 256)
in  a: f32[N, K]
in  b: f32[M, K]
out c: f32[N, M]

N
| M
| | c[{0}, {1}] = 0
| | K
| | | c[{0}, {1}] += a[{0}, {2}] * b[{1}, {2}]
""",
    "convolution": """kernel t(N = 2, C = 8, O = 16, T = 50)
in  x: f32[N, C, T]
in  f: f32[O, C, 3]
out y: f32[N, O, T]

N
| O
| | T
| | | y[{0}, {1}, {2}] = 0
| | | C
| | | | 3
| | | | | if {2} + {4} >= 2
| | | | | | y[{0}, {1}, {2}] += x[{0}, {3}, {2} + {4} - 2] * f[{1}, {3}, {4}]
""",
    "an array with itself": """kernel t(N = 20, M = 68)
in  a: f32[N, M]
out c: f32[M, M]

M
| M
| | c[{0}, {1}] = 0
| | N
| | | c[{0}, {1}] += a[{2}, {0}] * a[{2}, {1}]
""",
    "lower triangle": """kernel t(M = 128)
in  a: f32[M, M]
in  b: f32[M, M]
out c: f32[M, M]

M
| M
| | c[{0}, {1}] = 0
| | {0} + 1
| | | c[{0}, {1}] += a[{0}, {2}] * b[{2}, {1}]
""",
    "upper triangle": """kernel t(M = 128)
in  a: f32[M, M]
in  b: f32[M, M]
out c: f32[M, M]

M
| M
| | c[{0}, {1}] = 0
| | M - {0}
| | | c[{0}, {1}] += a[{0}, {0} + {2}] * b[{0} + {2}, {1}]
""",
    "product of triangles": """kernel t(M = 128)
in  a: f32[M, M]
in  b: f32[M, M]
out c: f32[M, M]

M
| M
| | c[{0}, {1}] = 0
| {0} + 1
| | {0} - {1} + 1
| | | c[{0}, {1}] += a[{0}, {1} + {2}] * b[{1} + {2}, {1}]
""",
    "added to": """kernel t(N = 37, M = 20, K = 19)
in    a: f32[N, K]
in    b: f32[K, M]
inout c: f32[N, M]

N
| M
| | K
| | | c[{0}, {1}] += a[{0}, {2}] * b[{2}, {1}]
""",
    "residues": """kernel t(C = 4, O = 8, W = 20)
in  x: f32[C, W]
in  f: f32[C, O, 3]
out y: f32[O, 2*W + 1]

O
| 2*W + 1
| | y[{0}, {1}] = 0
| | C
| | | 3
| | | | if ({1} - {3}) % 2 == 0 and {1} >= {3} and {1} - {3} < 2*W
| | | | | y[{0}, {1}] += x[{2}, ({1} - {3}) // 2] * f[{2}, {0}, {3}]
""",
    "ends": """kernel t(C = 3, O = 8, T = 530)
in  x: f32[C, T]
in  f: f32[O, C, 3]
out y: f32[O, T]

O
| T
| | y[{0}, {1}] = 0
| | C
| | | 3
| | | | if {1} + {3} >= 1 and {1} + {3} <= T
| | | | | y[{0}, {1}] += x[{2}, {1} + {3} - 1] * f[{0}, {2}, {3}]
""",
    "growing rows": """kernel t(T = 64, D = 16)
in  q: f32[T, D]
in  k: f32[T, D]
in  v: f32[T, 64]
out y: f32[T, 64]
tmp s: f32[T, T]
tmp m: f32[T]
tmp l: f32[T]

T
| m[{0}] = -inf
| {0} + 1
| | s[{0}, {1}] = 0
| | D
| | | s[{0}, {1}] += q[{0}, {2}] * k[{1}, {2}]
| | m[{0}] max= s[{0}, {1}]
| l[{0}] = 0
| {0} + 1
| | s[{0}, {1}] = exp(s[{0}, {1}] - m[{0}])
| | l[{0}] += s[{0}, {1}]
| 64
| | y[{0}, {1}] = 0
| {0} + 1
| | 64
| | | y[{0}, {2}] += s[{0}, {1}] / l[{0}] * v[{1}, {2}]
""",
    "weighted": """kernel t(N = 150, D = 20)
in  x: f32[N, D]
in  w: f32[N]
out c: f32[D, D]

D
| D
| | c[{0}, {1}] = 0
N
| D
| | D
| | | c[{1}, {2}] += w[{0}] * x[{0}, {1}] * x[{0}, {2}]
""",
    "three arrays": """kernel t(A = 20, B = 12, C = 32, D = 8)
in  x: f32[A, B, C]
in  b: f32[B, D]
in  c: f32[C, D]
out y: f32[A, D]

A
| D
| | y[{0}, {1}] = 0
| | B
| | | C
| | | | y[{0}, {1}] += x[{0}, {2}, {3}] * b[{2}, {1}] * c[{3}, {1}]
""",
    "pixels": """kernel t(H = 6, W = 70)
in  a: f32[H, W]
in  x: f32[H, W, 3]
out y: f32[H, W, 3]
tmp t: f32

H
| W
| | t = 1 - a[{0}, {1}]
| | 3
| | | y[{0}, {1}, {2}] = t * x[{0}, {1}, {2}]
""",
    "edges": """kernel t(N = 9, M = 40)
in  x: f32[N, M]
out y: f32[N, M]
tmp w: f32
tmp s: f32

N
| M
| | s = 0
| | 3
| | | w = x[clamp({0} + {2} - 1, 0, N - 1), {1}] - x[{0}, {1}]
| | | w = exp(-2 * w * w)
| | | s += w
| | y[{0}, {1}] = s
""",
    "prefixes of planes": """kernel t(N = 2, H = 6, W = 64)
in  x: f32[N, H, W]
out y: f32[N, H, W]
tmp s: f32

N
| H
| | s = 0
| | W
| | | s += x[{0}, {1}, {2}]
| | | y[{0}, {1}, {2}] = s
| | | if {1} >= 1
| | | | y[{0}, {1}, {2}] += y[{0}, {1} - 1, {2}]
""",
    "of those that are there": """kernel t(N = 40, C = 70)
in  t: i64[N]
in  x: f32[N, C]
out y: f32
tmp m: f32
tmp total: f32

total = 0
N
| m = -inf
| C
| | m max= x[{0}, {1}] if t[{0}] >= 0
| total += m if t[{0}] >= 0
y = total
""",
    "blocks with scales": """kernel t(M = 68, N = 36, B = 3)
in  x: f32[M, 16*B]
in  q: u4[N, 16*B] packed
in  s: f32[N, B]
out y: f32[M, N]
tmp t: f32

M
| N
| | y[{0}, {1}] = 0
| | B
| | | t = 0
| | | 16
| | | | t += x[{0}, 16*{2} + {3}] * (f32(q[{1}, 16*{2} + {3}]) - 8)
| | | y[{0}, {1}] += t * s[{1}, {2}]
""",
    "bytes": """kernel t(N = 37, M = 70, K = 24)
in  a: u8[N, K]
in  b: i8[K, M]
out d: f32[N, M]
tmp s: i32[N, M]

N
| M
| | s[{0}, {1}] = 0
| | K
| | | s[{0}, {1}] += i32(a[{0}, {2}]) * i32(b[{2}, {1}])
| M
| | d[{0}, {1}] = f32(s[{0}, {1}]) * 0.5
""",
    "whole bytes": """kernel t(B = 2, N = 64, M = 128, K = 36)
in  a: i8[B, N, K]
in  b: i8[M, K]
out d: i32[B, N, M]

B
| N
| | M
| | | d[{0}, {1}, {2}] = 0
| | | K
| | | | d[{0}, {1}, {2}] += i32(a[{0}, {1}, {3}]) * i32(b[{2}, {3}])
""",
    "quotients": """kernel t(N = 33, M = 40, K = 20)
in  a: f32[N, K]
in  l: f32[N]
in  b: f32[K, M]
out d: f32[N, M]
tmp e: f32[N, K]

N
| K
| | e[{0}, {1}] = exp(a[{0}, {1}])
N
| M
| | d[{0}, {1}] = 0
| | K
| | | d[{0}, {1}] += e[{0}, {2}] / (2 + abs(l[{0}])) * b[{2}, {1}]
""",
    "two sums": """kernel t(A = 5, B = 3, C = 4, D = 8, E = 36)
in  x: f32[A, B, D]
in  w: f32[B, D, E]
out y: f32[A, E]

B
| A
| | E
| | | if {0} == 0
| | | | y[{1}, {2}] = 0
| | | D
| | | | y[{1}, {2}] += x[{1}, {0}, {3}] * w[{0}, {3}, {2}]
""",
}


def runs_right(kernel: dojoir.Kernel, text: dojoir.Kernel, target: str) -> None:
    given = dojoir.testing.random_inputs(text, {}, seed=3)
    expected = dojoir.interpret(text, given)
    found = dojoir.compile(kernel, target, emulated=True).run(given)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("name", TEXTS)
def test_a_plan_gives_what_its_text_gives(name: str, target: str) -> None:
    text = dojoir.parse(TEXTS[name])
    trace = dojoir.PASSES["default_schedule"].given(target).on(text)
    assert dojoir.certify(trace)
    runs_right(trace.kernel, text, target)


ELSEWHERE = {"rules", "large_group_tiles", "small_group_tiles", "large_matrix_tiles", "small_matrix_tiles",
             "open_matrix_tiles", "row_products"}  # fmt: skip
"""What has no form of its own, and what the tests of matrix units hold (tests/codegen), on texts of its types."""


@pytest.mark.parametrize(
    "structure", [s for s in STRUCTURES if s.__name__ not in ELSEWHERE], ids=lambda s: s.__name__
)
def test_a_structure_gives_what_a_text_gives(structure: Structure, monkeypatch: pytest.MonkeyPatch) -> None:
    """On each nest that is of its form, whether a plan would choose it or not; the rest is as the rules have it."""
    machine, tried = machine_named("cuda"), 0
    monkeypatch.setattr(gpu_rows.scatters, "BLOCKS", 3)
    monkeypatch.setattr(gpu_rows.reductions, "LONG_PRODUCT", 64)
    for written in TEXTS.values():
        text = dojoir.parse(written)
        for form in FORMS:
            begun = dojoir.Trace(text)
            if not tried_on(begun, form):
                continue
            for n in range(len(begun.kernel.body)):
                trace = begun.copy()
                try:
                    structure(trace, (n,), machine)
                    for other in reversed(range(len(trace.kernel.body))):
                        node = trace.kernel.body[other]
                        if isinstance(node, Scope) and not node.marks:
                            rules(trace, (other,), machine)
                    dojoir.emit(trace.kernel, "cuda")
                except dojoir.DojoError:
                    continue
                tried += 1
                runs_right(trace.kernel, text, "cuda")
    assert tried, "no text is of its form"


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_plan_costs_no_more_than_the_rules(form: Callable[[dojoir.Trace], None]) -> None:
    machine = machine_named("cuda")
    planner = Planner(machine, NO_SIZES)
    for written in TEXTS.values():
        by_rules = dojoir.Trace(dojoir.parse(written))
        if not tried_on(by_rules, form):
            continue
        planned = by_rules.copy()
        for n in reversed(range(len(planned.kernel.body))):
            rules(by_rules, (n,), machine)
            planner.nest(planned, (n,))
        assert planner.cost(planned) <= planner.cost(by_rules)
