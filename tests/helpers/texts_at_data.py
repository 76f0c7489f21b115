"""Texts that assign at indices from data, for the planner of GPUs."""

from __future__ import annotations

AT_DATA = {
    "last rows": """kernel t(N = 70, S = 11, D = 36)
in  at: i64[N]
in  x: f32[N, D]
inout y: f32[S, D]

N
| D
| | y[at[{0}], {1}] = x[{0}, {1}]
""",
    "kept": """kernel t(N = 1500)
in  keep: bool[N]
in  x: f32[N]
out y: f32[N]
out n: i64

N
| y[{0}] = 0
n = 0
N
| y[n] = x[{0}] if keep[{0}]
| n += 1 if keep[{0}]
""",
}
