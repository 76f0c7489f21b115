"""Kernels as a GPU runs them: marked, with their temporaries where threads and blocks keep them."""

from __future__ import annotations

RELU = """kernel relu(N, M)
in  x: f32[N, M]
out y: f32[N, M]

N : gy
| M // 256 + 1 : gx
| | min(256, M - 256*{1}) : bx
| | | y[{0}, 256*{1} + {2}] = max(x[{0}, 256*{1} + {2}], 0)
"""

SOFTMAX = """kernel softmax(N, M = 1024)
in  x: f32[N, M]
out y: f32[N, M]
tmp m: f32 reg
tmp s: f32 reg
tmp e: f32[2, 128, 4] reg

N : gx
| m = -inf
| s = 0
| 128 : bx
| | 2 : u
| | | 4 : v
| | | | e[{2}, {1}, {3}] = x[{0}, 512*{2} + 4*{1} + {3}]
| 128 : bx
| | 2 : u
| | | 4 : u
| | | | m max= e[{2}, {1}, {3}]
| 128 : bx
| | 2 : u
| | | 4 : u
| | | | e[{2}, {1}, {3}] = exp(e[{2}, {1}, {3}] - m)
| | | | s += e[{2}, {1}, {3}]
| 128 : bx
| | 2 : u
| | | 4 : v
| | | | y[{0}, 512*{2} + 4*{1} + {3}] = e[{2}, {1}, {3}] / s
"""

MATMUL = """kernel matmul(N = 128, M = 128, K = 64)
in  a: f32[N, K]
in  b: f32[K, M]
out c: f32[N, M]
tmp sa: f32[8, 64] shared pad(0, 4)
tmp sb: f32[8, 64] shared
tmp t: f32[16, 16, 4, 4] reg

N // 64 : gy
| M // 64 : gx
| | 16 : by
| | | 16 : bx
| | | | 4 : u
| | | | | 4 : u
| | | | | | t[{2}, {3}, {4}, {5}] = 0
| | K // 8
| | | 256 : bx
| | | | 2 : u
| | | | | sa[{3} % 8, 32*{4} + {3} // 8] = a[64*{0} + 32*{4} + {3} // 8, 8*{2} + {3} % 8]
| | | 256 : bx
| | | | 2 : u
| | | | | sb[4*{4} + {3} // 64, {3} % 64] = b[8*{2} + 4*{4} + {3} // 64, 64*{1} + {3} % 64]
| | | 16 : by
| | | | 16 : bx
| | | | | 8 : u
| | | | | | 4 : u
| | | | | | | 4 : u
| | | | | | | | t[{3}, {4}, {6}, {7}] += sa[{5}, 4*{3} + {6}] * sb[{5}, 4*{4} + {7}]
| | 16 : by
| | | 16 : bx
| | | | 4 : u
| | | | | 4 : u
| | | | | | c[64*{0} + 4*{2} + {4}, 64*{1} + 4*{3} + {5}] = t[{2}, {3}, {4}, {5}]
"""

ROW_SUMS = """kernel row_sums(N, M)
in  x: f32[N, M]
out y: f32[N]

N // 8 + 1 : gx
| min(8, N - 8*{0}) : bx
| | y[8*{0} + {1}] = 0
| min(8, N - 8*{0}) : bx
| | 32 : lane
| | | (M + 31 - {2}) // 32
| | | | y[8*{0} + {1}] += x[8*{0} + {1}, 32*{3} + {2}]
"""

COLUMN_SUMS = """kernel column_sums(M)
in  x: f32[64, M]
out y: f32[M]

M // 8 + 1 : gx
| min(8, M - 8*{0}) : bx
| | y[8*{0} + {1}] = 0
| 16 : by
| | min(8, M - 8*{0}) : bx
| | | 4
| | | | y[8*{0} + {2}] += x[4*{1} + {3}, 8*{0} + {2}]
"""

REVERSE = """kernel reverse(N)
in  x: i32[N, 96]
out y: i32[N, 96]
tmp t: i32[96] shared

N : gx
| 2
| | 96 : bx
| | | t[{2}] = x[{0}, {2}] + {1}
| | 96 : bx
| | | y[{0}, {2}] = t[95 - {2}]
"""

COUNTS = """kernel counts(N)
in    x: i32[N]
inout n: i32
inout m: i32

N // 64 + 1 : gx
| min(64, N - 64*{0}) : bx
| | n += x[64*{0} + {1}]
| min(64, N - 64*{0}) : bx
| | m max= x[64*{0} + {1}]
"""

STEPS = """kernel steps(T, N)
in  x: f32[N]
out y: f32[N]
tmp a: f32[N]
tmp s: f32

N // 32 + 1 : gx
| min(32, N - 32*{0}) : bx
| | a[32*{0} + {1}] = x[32*{0} + {1}]
T
| s = 0
| N // 64 + 1 : gx
| | min(64, N - 64*{1}) : bx
| | | s += a[64*{1} + {2}]
| N // 32 + 1 : gx
| | min(32, N - 32*{1}) : bx
| | | a[32*{1} + {2}] = a[32*{1} + {2}] - s / N
N // 32 + 1 : gx
| min(32, N - 32*{0}) : bx
| | y[32*{0} + {1}] = a[32*{0} + {1}]
"""

WARP_ROWS = """kernel warp_rows(N, M = 256)
in  x: f32[N, M]
out y: f32[N, M]
tmp m: f32 reg
tmp s: f32 reg
tmp e: f32[8, 2, 32, 4] reg

(N + 7) // 8 : gx
| min(8, N - 8*{0}) : bx
| | m = -inf
| | s = 0
| | 32 : lane
| | | 2 : u
| | | | 4 : v
| | | | | e[{1}, {3}, {2}, {4}] = x[8*{0} + {1}, 128*{3} + 4*{2} + {4}]
| | 32 : lane
| | | 2 : u
| | | | 2 : u
| | | | | m max= e[{1}, {3}, {2}, {4}]
| | 32 : lane
| | | 2 : u
| | | | 2 : u
| | | | | e[{1}, {3}, {2}, {4}] = exp(e[{1}, {3}, {2}, {4}] - m)
| | | | | s += e[{1}, {3}, {2}, {4}]
| | 32 : lane
| | | 2 : u
| | | | 4 : v
| | | | | y[8*{0} + {1}, 128*{3} + 4*{2} + {4}] = e[{1}, {3}, {2}, {4}] / s
"""

ALL = {
    "relu": RELU, "softmax": SOFTMAX, "warp_rows": WARP_ROWS, "matmul": MATMUL, "row_sums": ROW_SUMS,
    "column_sums": COLUMN_SUMS, "reverse": REVERSE, "counts": COUNTS, "steps": STEPS,
}  # fmt: skip

FUNCTIONS = """
kernel functions(N)
fp fast
in  x: f32[N]
out a: f32[N]
out b: f32[N]
out c: f32[N]

(N + 127) // 128 : gx
| min(128, N - 128*{0}) : bx
| | a[128*{0} + {1}] = exp(x[128*{0} + {1}])
| | b[128*{0} + {1}] = exp2(x[128*{0} + {1}])
| | c[128*{0} + {1}] = rsqrt(x[128*{0} + {1}])
"""
"""What the hardware has instructions for, right but for the last bits."""
