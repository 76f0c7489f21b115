"""Kernels as a GPU runs them, by size: the text of each row of `gpu.py`.

Every text is the plain kernel after `split`, `bind`, `place` and `unroll`: a row of a matrix is a block, its
elements lie in registers that the phases of the block share; the checker proves each (`dojoir.prove`), and says
which iterations are independent."""

from __future__ import annotations

WIDE = 4
"""How many elements one access moves."""


def elementwise(name: str, inputs: str, expression: str, count: int, threads: int = 256) -> str:
    """One result of as many inputs, flat: one wide access of each a thread."""
    block = WIDE * threads
    declared = "".join(f"in  {i}: f32[N]\n" for i in inputs)
    at = f"{block}*{{0}} + {WIDE}*{{1}} + {{2}}"
    for i in inputs:
        expression = expression.replace(f"${i}", f"{i}[{at}]")
    return f"""kernel {name}(N = {count})
{declared}out y: f32[N]

{count // block} : gx
| {threads} : bx
| | {WIDE} : v
| | | y[{at}] = {expression}
"""


class Row:
    """A row of a matrix, spread over the threads of a block: where possible in groups that one access moves."""

    def __init__(self, columns: int, threads: int) -> None:
        self.threads = threads
        self.wide = columns % (WIDE * threads) == 0
        self.each = -(-columns // (WIDE * threads if self.wide else threads))
        self.at = f"{WIDE * threads}*{{2}} + {WIDE}*{{1}} + {{3}}" if self.wide else f"{threads}*{{2}} + {{1}}"
        self.guard = (
            "" if self.each * threads * (WIDE if self.wide else 1) == columns else f"if {self.at} < {columns}"
        )
        self.e = "e[{2}, {1}, {3}]" if self.wide else "e[{2}, {1}]"
        self.kept = f"e: f32[{self.each}, {threads}{f', {WIDE}' if self.wide else ''}] reg"

    def phase(self, *lines: str, moves: bool = False) -> str:
        """Lines for each element of the row; `moves` says that these only move elements."""
        text = f"| {self.threads} : bx\n"
        if self.guard:  # of the last alone
            whole = "".join(f"| | | {line}\n" for line in lines)
            last = "".join(f"| | | {line.replace('{2}', str(self.each - 1))}\n" for line in lines)
            guard = self.guard.replace("{2}", str(self.each - 1))
            return f"{text}| | {self.each - 1} : u\n{whole}| | {guard}\n{last}"
        text += f"| | {self.each} : u\n"
        bars = "| | | "
        if self.wide:
            text += f"{bars}{WIDE} : {'v' if moves else 'u'}\n"
            bars += "| "
        return text + "".join(f"{bars}{line}\n" for line in lines)


def softmax(columns: int, threads: int) -> str:
    """A row a block, in registers."""
    row = Row(columns, threads)
    at, e = row.at, row.e
    return f"""kernel softmax(N, M = {columns})
in  x: f32[N, M]
out y: f32[N, M]
tmp m: f32 reg
tmp s: f32 reg
tmp {row.kept}

N : gx
| m = -inf
| s = 0
{row.phase(f"{e} = x[{{0}}, {at}]", moves=True)}\
{row.phase(f"m max= {e}")}\
{row.phase(f"{e} = exp({e} - m)", f"s += {e}")}\
{row.phase(f"y[{{0}}, {at}] = {e} / s", moves=True)}"""


def layernorm(columns: int, threads: int) -> str:
    row = Row(columns, threads)
    at, e = row.at, row.e
    return f"""kernel layernorm(N, M = {columns})
in  x: f32[N, M]
in  g: f32[M]
in  b: f32[M]
out y: f32[N, M]
tmp s: f32 reg
tmp q: f32 reg
tmp mean: f32 reg
tmp r: f32 reg
tmp {row.kept}

N : gx
| s = 0
| q = 0
{row.phase(f"{e} = x[{{0}}, {at}]", moves=True)}\
{row.phase(f"s += {e}")}\
| mean = s / {columns}
{row.phase(f"q += ({e} - mean) * ({e} - mean)")}\
| r = rsqrt(q / {columns} + 1e-05)
{row.phase(f"y[{{0}}, {at}] = ({e} - mean) * r * g[{at}] + b[{at}]", moves=True)}"""


def rmsnorm(columns: int, threads: int, dtype: str = "f32") -> str:
    row = Row(columns, threads)
    at, e = row.at, row.e
    return f"""kernel rmsnorm(N, M = {columns})
in  x: {dtype}[N, M]
in  g: {dtype}[M]
out y: {dtype}[N, M]
tmp q: f32 reg
tmp r: f32 reg
tmp {row.kept}

N : gx
| q = 0
{row.phase(f"{e} = x[{{0}}, {at}]", moves=True)}\
{row.phase(f"q += {e} * {e}")}\
| r = rsqrt(q / {columns} + 1e-06)
{row.phase(f"y[{{0}}, {at}] = {e} * r * g[{at}]", moves=True)}"""


def transpose() -> str:
    """Tiles of 64×64 through shared memory, a row padded by one element."""
    row, column = "8*{3} + {2} // 64", "{2} % 64"
    return f"""kernel transpose(N, M)
where N % 64 == 0, M % 64 == 0
in  x: f32[N, M]
out y: f32[M, N]
tmp t: f32[64, 64] shared pad(0, 1)

N // 64 : gy
| M // 64 : gx
| | 512 : bx
| | | 8 : u
| | | | t[{row}, {column}] = x[64*{{0}} + {row}, 64*{{1}} + {column}]
| | 512 : bx
| | | 8 : u
| | | | y[64*{{1}} + {row}, 64*{{0}} + {column}] = t[{column}, {row}]
"""


def jacobi(n: int, rows: int = 8) -> str:
    """`rows` rows a thread, whose neighbours it reads once; then the rows that are left."""

    def sweep(i: str, j: str) -> str:
        near = ((1, 1), (0, 1), (2, 1), (1, 0), (1, 2))
        return " + ".join(f"x[{i} + {a}, {j} + {b}]" for a, b in near)

    whole, rest = n // rows, n % rows
    i, j = f"{rows}*{{0}} + {{3}}", "256*{1} + {2}"
    text = f"""kernel jacobi(N = {n})
in  x: f32[N + 2, N + 2]
out y: f32[N, N]

{whole} : gy
| {-(-n // 256)} : gx
| | min(256, {n} - 256*{{1}}) : bx
| | | {rows} : u
| | | | y[{i}, {j}] = 0.2 * ({sweep(i, j)})
"""
    if rest:
        i = f"{{0}} + {rows * whole}"
        text += f"""{rest} : gy
| {-(-n // 256)} : gx
| | min(256, {n} - 256*{{1}}) : bx
| | | y[{i}, {j}] = 0.2 * ({sweep(i, j)})
"""
    return text


def total(count: int, blocks: int = 1024, threads: int = 512) -> str:
    """The sum of all elements, a multiple of what all threads move at once: of a block each, then of these."""
    stride = WIDE * blocks * threads
    at = f"{stride}*{{2}} + {WIDE * threads}*{{0}} + {WIDE}*{{1}} + {{3}}"
    return f"""kernel total(N = {count})
in  x: f32[N]
out y: f32
tmp p: f32[{blocks}]
tmp s: f32 reg
tmp t: f32 reg
tmp e: f32[{threads}, {WIDE}] reg

{blocks} : gx
| s = 0
| {threads} : bx
| | {count // stride}
| | | {WIDE} : v
| | | | e[{{1}}, {{3}}] = x[{at}]
| | | {WIDE} : u
| | | | s += e[{{1}}, {{3}}]
| p[{{0}}] = s
1 : gx
| t = 0
| {blocks} : bx
| | t += p[{{1}}]
| y = t
"""


def row_mean(columns: int, threads: int = 512) -> str:
    row = Row(columns, threads)
    at = row.at
    return f"""kernel row_mean(N, M = {columns})
in  x: f32[N, M]
out y: f32[N]
tmp s: f32 reg
tmp {row.kept}

N : gx
| s = 0
{row.phase(f"{row.e} = x[{{0}}, {at}]", moves=True)}\
{row.phase(f"s += {row.e}")}\
| y[{{0}}] = s / {columns}
"""


def column_mean(rows: int, parts: int = 64) -> str:
    """Of a part of the rows each, 256 columns a block; then of these."""
    each = rows // parts
    return f"""kernel column_mean(N = {rows}, M)
where M % 256 == 0
in  x: f32[N, M]
out y: f32[M]
tmp p: f32[{parts}, M]
tmp s: f32 reg
tmp r: f32 reg

{parts} : gy
| M // 256 : gx
| | 256 : bx
| | | s = 0
| | | {each}
| | | | s += x[{each}*{{0}} + {{3}}, 256*{{1}} + {{2}}]
| | | p[{{0}}, 256*{{1}} + {{2}}] = s
M // 256 : gx
| 256 : bx
| | r = 0
| | {parts}
| | | r += p[{{2}}, 256*{{0}} + {{1}}]
| | y[256*{{0}} + {{1}}] = r / {rows}
"""


def gemv(columns: int, threads: int = 256) -> str:
    row = Row(columns, threads)
    at = row.at
    return f"""kernel gemv(N, M = {columns})
in  a: f32[N, M]
in  x: f32[M]
out y: f32[N]
tmp s: f32 reg
tmp {row.kept}

N : gx
| s = 0
{row.phase(f"{row.e} = a[{{0}}, {at}] * x[{at}]", moves=True)}\
{row.phase(f"s += {row.e}")}\
| y[{{0}}] = s
"""


def cumsum(columns: int, threads: int = 1024) -> str:
    """A row a block: sums of a thread's elements, of a warp's threads, of the warps; then each adds what is before
    it."""
    each = columns // threads
    own, e = f"{each}*{{1}} + {WIDE}*{{2}} + {{3}}", "e[{1}, {2}, {3}]"
    warps = threads // 32
    return f"""kernel cumsum(N, M = {columns})
in  x: f32[N, M]
out y: f32[N, M]
tmp e: f32[{threads}, {each // WIDE}, {WIDE}] reg
tmp p: f32[{threads}] shared pad(32)
tmp w: f32[{warps}] shared
tmp a: f32 reg
tmp c: f32 reg

N : gx
| {threads} : bx
| | {each // WIDE} : u
| | | {WIDE} : v
| | | | {e} = x[{{0}}, {own}]
| {threads} : bx
| | a = 0
| | {each // WIDE} : u
| | | {WIDE} : u
| | | | a += {e}
| | | | {e} = a
| | p[{{1}}] = a
| {warps} : bx
| | c = 0
| | 32
| | | c += p[32*{{1}} + {{2}}]
| | | p[32*{{1}} + {{2}}] = c
| | w[{{1}}] = c
| 1 : bx
| | {warps - 1}
| | | w[{{2}} + 1] += w[{{2}}]
| {threads} : bx
| | {each // WIDE} : u
| | | {WIDE} : u
| | | | if {{1}} % 32 >= 1
| | | | | {e} += p[{{1}} - 1]
| | | | if {{1}} >= 32
| | | | | {e} += w[{{1}} // 32 - 1]
| {threads} : bx
| | {each // WIDE} : u
| | | {WIDE} : v
| | | | y[{{0}}, {own}] = {e}
"""


def batchnorm(batch: int, channels: int, points: int, threads: int = 256) -> str:
    """With given statistics: a plane a row of blocks, one wide access a thread."""
    at = f"{WIDE * threads}*{{2}} + {WIDE}*{{3}} + {{4}}"
    groups = points // WIDE
    return f"""kernel batchnorm(B = {batch}, C = {channels}, P = {points})
in  x: f32[B, C, P]
in  mean: f32[C]
in  var: f32[C]
in  g: f32[C]
in  b: f32[C]
out y: f32[B, C, P]
tmp r: f32 reg

B : gz
| C : gy
| | {-(-groups // threads)} : gx
| | | r = rsqrt(var[{{1}}] + 1e-05) * g[{{1}}]
| | | min({threads}, {groups} - {threads}*{{2}}) : bx
| | | | {WIDE} : v
| | | | | y[{{0}}, {{1}}, {at}] = (x[{{0}}, {{1}}, {at}] - mean[{{1}}]) * r + b[{{1}}]
"""


def matmul(n: int, m: int, k: int, tile: int = 128, high: int = 8, broad: int = 16, batch: int = 0) -> str:
    """Tiles of `tile`×8 in shared memory, in turns of two, A turned on its way through registers; `high`×`broad`
    results a thread. The next tiles are read while the last ones are used."""
    depth, steps = 8, k // 8
    rows, columns = tile // high, tile // broad
    threads = rows * columns
    parts = tile * depth // WIDE // threads
    g = 1 if batch else 0  # how much deeper all is
    gy, gx, step = f"{{{g}}}", f"{{{g + 1}}}", f"{{{g + 2}}}"
    t, u, v = f"{{{g + 3}}}", f"{{{g + 4}}}", f"{{{g + 5}}}"
    t0, u0, v0 = f"{{{g + 2}}}", f"{{{g + 3}}}", f"{{{g + 4}}}"
    of = "{0}, " if batch else ""
    bars = "| " if batch else ""

    def lines(depth_: int, *more: str) -> str:
        return "".join(f"{bars}{'| ' * depth_}{line}\n" for line in more)

    def read(at: int, tile_number: str, t: str, u: str, v: str) -> str:
        """A tile of each into registers."""
        part = f"({u}*{threads} + {t})"
        a = f"a[{of}{tile}*{gy} + {part} // 2, 8*({tile_number}) + {WIDE}*({part} % 2) + {v}]"
        down, along = f"{part} // {tile // WIDE}", f"{WIDE}*({part} % {tile // WIDE}) + {v}"
        b = f"b[{of}8*({tile_number}) + {down}, {tile}*{gx} + {along}]"
        return (
            lines(at, f"{parts} : u", f"| {WIDE} : v", f"| | ga[{t}, {u}, {v}] = {a}")
            + lines(at, f"{parts} : u", f"| {WIDE} : v", f"| | gb[{t}, {u}, {v}] = {b}")
        )  # fmt: skip

    part = f"({u}*{threads} + {t})"
    x, y, kk = f"{{{g + 4}}}", f"{{{g + 3}}}", f"{{{g + 5}}}"
    p, q, r, o = f"{{{g + 6}}}", f"{{{g + 7}}}", f"{{{g + 6}}}", f"{{{g + 7}}}"
    text = f"""kernel matmul(N = {n}, M = {m}, K = {k}{f", B = {batch}" if batch else ""})
in  a: f32[{"B, " if batch else ""}N, K]
in  b: f32[{"B, " if batch else ""}K, M]
out c: f32[{"B, " if batch else ""}N, M]
tmp sa: f32[2, {depth}, {tile}] shared pad(0, 0, 4)
tmp sb: f32[2, {depth}, {tile}] shared
tmp ga: f32[{threads}, {parts}, {WIDE}] reg
tmp gb: f32[{threads}, {parts}, {WIDE}] reg
tmp ra: f32[{high // WIDE}, {WIDE}] reg
tmp rb: f32[{broad // WIDE}, {WIDE}] reg
tmp t: f32[{rows}, {columns}, {high}, {broad}] reg

"""
    text += f"{batch} : gz\n" if batch else ""
    text += lines(0, f"{n // tile} : gy", f"| {m // tile} : gx")
    text += lines(2, f"{rows} : by", f"| {columns} : bx", f"| | {high} : u", f"| | | {broad} : u")
    text += lines(6, f"t[{{{g + 2}}}, {{{g + 3}}}, {{{g + 4}}}, {{{g + 5}}}] = 0")
    text += lines(2, f"{threads} : bx") + read(3, "0", t0, u0, v0)
    text += lines(2, f"{steps}")
    text += lines(3, f"{threads} : bx", f"| {parts} : u", f"| | {WIDE} : u")
    text += lines(6, f"sa[{step} % 2, {WIDE}*({part} % 2) + {v}, {part} // 2] = ga[{t}, {u}, {v}]")
    text += lines(4, f"{parts} : u", f"| {WIDE} : v")
    row, column = f"{part} // {tile // WIDE}", f"{WIDE}*({part} % {tile // WIDE}) + {v}"
    text += lines(6, f"sb[{step} % 2, {row}, {column}] = gb[{t}, {u}, {v}]")
    text += lines(3, f"if {step} < {steps - 1}", f"| {threads} : bx") + read(5, f"{step} + 1", t, u, v)
    text += lines(3, f"{rows} : by", f"| {columns} : bx", f"| | {depth} : u")
    text += lines(6, f"{high // WIDE} : u", f"| {WIDE} : v")
    text += lines(8, f"ra[{p}, {q}] = sa[{step} % 2, {kk}, {WIDE * rows}*{p} + {WIDE}*{y} + {q}]")
    text += lines(6, f"{broad // WIDE} : u", f"| {WIDE} : v")
    text += lines(8, f"rb[{p}, {q}] = sb[{step} % 2, {kk}, {WIDE * columns}*{p} + {WIDE}*{x} + {q}]")
    text += lines(6, f"{high} : u", f"| {broad} : u")
    own = f"t[{y}, {x}, {r}, {o}]"
    pair = f"ra[{r} // {WIDE}, {r} % {WIDE}], rb[{o} // {WIDE}, {o} % {WIDE}]"
    text += lines(8, f"{own} = fma({pair}, {own})")
    i, j, h, w, e = (f"{{{g + d}}}" for d in (2, 3, 4, 5, 6))
    text += lines(2, f"{rows} : by", f"| {columns} : bx", f"| | {high} : u", f"| | | {broad // WIDE} : u")
    text += lines(6, f"{WIDE} : v")
    down = f"{tile}*{gy} + {WIDE * rows}*({h} // {WIDE}) + {WIDE}*{i} + {h} % {WIDE}"
    along = f"{tile}*{gx} + {WIDE * columns}*{w} + {WIDE}*{j} + {e}"
    text += lines(7, f"c[{of}{down}, {along}] = t[{i}, {j}, {h}, {WIDE}*{w} + {e}]")
    return text
