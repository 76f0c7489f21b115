"""A text that solves each task of reformulation, as a person wrote it."""

from __future__ import annotations

TEXTS = {
    "reformulate-lower_matvec": """
kernel lower_matvec(N)
in  a: f32[N, N]
in  x: f32[N]
out y: f32[N]

N @i
| y[{i}] = 0
| {i} + 1 @j
| | y[{i}] += a[{i}, {j}] * x[{j}]
""",
    "reformulate-peak_and_mean": """
kernel peak_and_mean(N, M)
in  x: f32[N, M]
out top: f32[N]
out mean: f32[N]

N @i
| top[{i}] = -inf
| mean[{i}] = 0
| M @j
| | top[{i}] max= x[{i}, {j}]
| | mean[{i}] += x[{i}, {j}]
| mean[{i}] = mean[{i}] / f32(M)
""",
    "reformulate-product_times_vector": """
kernel product_times_vector(N, K, M)
fp fast
in  a: f32[N, K]
in  b: f32[K, M]
in  x: f32[M]
out y: f32[N]
tmp t: f32[K]

K @k
| t[{k}] = 0
| M @j
| | t[{k}] += b[{k}, {j}] * x[{j}]
N @i
| y[{i}] = 0
| K @l
| | y[{i}] += a[{i}, {l}] * t[{l}]
""",
    "reformulate-row_range": """
kernel row_range(N, M)
in  x: f32[N, M]
out y: f32[N]
tmp low: f32[N]
tmp high: f32[N]

N @i
| low[{i}] = inf
| high[{i}] = -inf
| M @j
| | low[{i}] min= x[{i}, {j}]
| | high[{i}] max= x[{i}, {j}]
| y[{i}] = high[{i}] - low[{i}]
""",
    "reformulate-scaled_dots": """
kernel scaled_dots(N, K, D)
in  x: f32[N, D]
in  c: f32[K, D]
out y: f32[N, K]
tmp p: f32[N, K]
tmp q: f32[N]

N @i
| q[{i}] = 0
| D @e
| | q[{i}] += x[{i}, {e}] * x[{i}, {e}]
| K @k
| | p[{i}, {k}] = 0
| | D @d
| | | p[{i}, {k}] += x[{i}, {d}] * c[{k}, {d}]
| K @l
| | y[{i}, {l}] = p[{i}, {l}] / (1 + q[{i}])
""",
    "reformulate-two_norms": """
kernel two_norms(N, M)
in  x: f32[N, M]
out total: f32[N]
out largest: f32[N]

N @i
| total[{i}] = 0
| largest[{i}] = 0
| M @j
| | total[{i}] += abs(x[{i}, {j}])
| | largest[{i}] max= abs(x[{i}, {j}])
""",
    "reformulate-upper_outer": """
kernel upper_outer(N)
in  a: f32[N]
in  b: f32[N]
in  w: f32[N, N]
out y: f32[N]

N @i
| y[{i}] = 0
| N - {i} @j
| | y[{i}] += a[{i}] * b[{i} + {j}] * w[{i}, {i} + {j}]
""",
}
