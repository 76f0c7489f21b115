"""Indices that wrap around a size, and starts and lengths that are computed: which are exact, which are not."""

from __future__ import annotations

import numpy as np
import on_harness
import pytest
from able import can_run

import dojoir

HOST = ("llvm", "c", "avx2", "avx512")

WRAPPED = """kernel wrapped(N)
where N >= 3
in  x: f32[N]
out y: f32[N]

N @i
| y[{i}] = 0
| 3 @k
| | y[{i}] += {k} * x[({i} + {k} - 1) % N]
"""

ROTATED = """kernel rotated(N, S, M)
where S <= N
in  x: f32[M, N]
out y: f32[M, N]

M
| N
| | y[{0}, ({1} + S) % N] = x[{0}, {1}]
"""

GRID = """kernel grid(M, N)
where M >= 2, N >= 2
in  x: f32[M, N]
out y: f32[M, N]

M
| N
| | y[{0}, {1}] = x[({0} + 1) % M, ({1} - 1) % N]
"""

POOLED = """kernel adaptive_pool(L, M)
in  x: f32[L]
out y: f32[M]
tmp first: i64[M]
tmp count: i64[M]

M @i
| first[{i}] = i64({i}) * L // M
| count[{i}] = (i64({i} + 1) * L + M - 1) // M - first[{i}]
| y[{i}] = 0
| min(count[{i}], L) @k
| | y[{i}] += x[first[{i}] + {k}]
| y[{i}] = y[{i}] / f32(count[{i}])
"""


def cases(text: str) -> tuple[dict[str, np.ndarray], dict[str, int], np.ndarray]:
    """Inputs, sizes that no shape gives, and what NumPy says."""
    random = np.random.default_rng(3)
    match text:
        case str() if text is WRAPPED:
            x = random.integers(-9, 9, 37).astype(np.float32)
            return {"x": x}, {}, x + 2 * np.roll(x, -1)
        case str() if text is ROTATED:
            x = random.random((5, 19), np.float32)
            return {"x": x}, {"S": 7}, np.roll(x, 7, axis=1)
        case str() if text is GRID:
            x = random.random((5, 19), np.float32)
            return {"x": x}, {}, np.roll(x, (-1, 1), axis=(0, 1))
    x = random.integers(-9, 9, 37).astype(np.float32)
    ends = [(i * 37 // 10, -(-(i + 1) * 37 // 10)) for i in range(10)]
    return {"x": x}, {"M": 10}, np.array([x[a:b].sum() / np.float32(b - a) for a, b in ends], np.float32)


TEXTS = [WRAPPED, ROTATED, GRID, POOLED]


@pytest.mark.parametrize("text", TEXTS)
def test_on_every_target(text: str) -> None:
    kernel = dojoir.parse(text)
    assert dojoir.parse(dojoir.to_text(kernel)) == kernel
    dojoir.prove(kernel)
    given, sizes, expected = cases(text)
    assert np.array_equal(dojoir.interpret(kernel, given, **sizes)["y"], expected)
    first = text.partition("\n\n")[2].splitlines()[0]
    marked = dojoir.parse(text.replace(f"\n{first}\n", f"\n{first.split()[0]} : p {' '.join(first.split()[1:])}\n"))
    for target in filter(can_run, HOST):
        for one in (kernel, marked, dojoir.optimize(kernel, target).kernel):
            got = dojoir.compile(one, target).run(given, **sizes)["y"]
            assert np.allclose(got, expected, rtol=1e-6), (target, one)
    for target in ("cuda", "hip"):
        every = {size.name: sizes.get(size.name) or {"N": 19, "M": 5, "L": 37}[size.name] for size in kernel.sizes}
        every["N"] = 37 if text is WRAPPED else 19
        every = {name: value for name, value in every.items() if name in kernel.runtime_sizes}
        got = on_harness.run(kernel, given, every, target)["y"]
        assert np.allclose(got, expected, rtol=1e-6), target
    assert dojoir.verify(kernel).ok


def body(line: str, head: str = "kernel k(N, M)\nin x: f32[N]\ninout y: f32[N]\n") -> str:
    return dojoir.to_text(dojoir.parse(f"{head}\nN @i\n| M @j\n| | {line}\n")).split("\n\n")[1]


def test_what_is_exact() -> None:
    """A statement for each turn, of which one runs."""
    assert body("y[{i}] += x[({i} + {j}) % N]").splitlines()[2:] == [
        "| | if {0} + {1} < N",
        "| | | y[{0}] += x[{0} + {1}]",
        "| | if {0} + {1} >= N",
        "| | | y[{0}] += x[{0} + {1} - N]",
    ]
    assert body("y[{i}] = x[({i} - 1) % N] if x[({i} - 1) % N] > 0").splitlines()[2:4] == [
        "| | if {0} - 1 < 0",
        "| | | y[{0}] = x[N + {0} - 1] if x[N + {0} - 1] > 0",
    ]
    assert body("y[{i}] += x[{i} % 4]", "kernel k(N, M)\nin x: f32[4]\ninout y: f32[N]\n").count("%") == 1
    flat = dojoir.parse(
        "kernel k(N, C)\nin x: f32[N*C]\nout y: f32[C, N]\n\nN*C @f\n| y[{f} % C, {f} // C] = x[{f}]\n"
    )
    assert dojoir.to_text(flat).splitlines()[-3:] == ["N @f", "| C", "| | y[{1}, {0}] = x[{0}, {1}]"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("y[{i}] += x[({i}*{j}) % N]", "compute it into a tmp of i64"),
        ("y[{i}] += x[{i} // M]", "compute it into a tmp of i64"),
        ("y[{i}] += x[({i} // 2 + {j}) % N]", "compute it into a tmp of i64"),
        ("y[{i}] += x[({i} % M) % N]", "compute it into a tmp of i64"),
    ],
)
def test_what_is_refused(line: str, says: str) -> None:
    with pytest.raises(dojoir.KernelError, match=says):
        body(line)


def test_what_is_refused_can_be_written() -> None:
    text = "kernel k(N, M)\nin x: f32[N]\nout y: f32[N, M]\ntmp t: i64\n\nN @i\n| M @j\n"
    text += "| | t = i64({i}) * {j} % N\n| | y[{i}, {j}] = x[t]\n"
    x = np.arange(7, dtype=np.float32)
    got = dojoir.compile(dojoir.parse(text)).run({"x": x}, M=5)["y"]
    assert got.tolist() == [[x[i * j % 7] for j in range(5)] for i in range(7)]


def test_a_second_turn_is_out_of_bounds() -> None:
    with pytest.raises(dojoir.KernelError, match=r"\{i\} \+ \{j\} - N.*where") as caught:
        dojoir.prove(
            dojoir.parse(
                "kernel k(N, M)\nin x: f32[N]\ninout y: f32[N]\n\nN @i\n| M @j\n| | y[{i}] += x[({i} + {j}) % N]\n"
            )
        )
    assert caught.value.diagnostic.code == "out-of-bounds"


@pytest.mark.parametrize(
    "move", ["parallelize(0)", "split(0, 4)", "unroll(0.1)", "reverse_scope(0)", "split_scopes(0, 1)"]
)
def test_moves(move: str) -> None:
    trace = dojoir.Trace(dojoir.parse(WRAPPED))
    trace.apply(move)
    assert dojoir.certify(trace)
    given, sizes, expected = cases(WRAPPED)
    assert np.array_equal(dojoir.interpret(trace.kernel, given, **sizes)["y"], expected)
