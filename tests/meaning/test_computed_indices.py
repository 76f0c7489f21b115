"""Indices that are computed from data: what is read for them, on every target, and what they may not be."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import on_harness
import pytest
from able import can_run
from emulated import Trial, build, machine, run

import dojoir

HOST = ("llvm", "c", "avx2", "avx512")

CSR = """kernel csr(N, M, Z, K)
in  rows: i32[N + 1]
in  cols: i32[Z]
in  v: f32[Z]
in  x: f32[K]
out y: f32[N]

N
| y[{0}] = 0
| min(rows[{0} + 1] - rows[{0}], M)
| | y[{0}] += v[rows[{0}] + {1}] * x[cols[rows[{0}] + {1}]]
"""

PAGED = """kernel paged(B, T, D, P)
in  table: i32[B, T]
in  pool: f32[16*P, D]
out y: f32[B, 16*T, D]

B
| T
| | 16
| | | D
| | | | y[{0}, 16*{1} + {2}, {3}] = pool[16*table[{0}, {1}] + {2}, {3}]
"""

BAGS = """kernel bags(N, M, Z, V, D)
in  at: i64[N + 1]
in  ids: i64[Z]
in  w: f32[V, D]
out y: f32[N, D]

N
| D
| | y[{0}, {1}] = 0
| min(at[{0} + 1] - at[{0}], M)
| | D
| | | y[{0}, {2}] += w[ids[at[{0}] + {1}], {2}]
"""

SPREAD = """kernel spread(N, M)
in    at: i32[N]
in    ok: u8[N]
in    x: f32[M]
inout y: f32[M]

N
| y[2*at[{0}] + 1] += x[at[{0}] % 3 + ok[{0}]] if y[2*at[{0}]] > 0 or ok[{0}] > 0
| y[(at[{0}] + ok[{0}]) // 2] = 7 if at[{0}] < 3
"""


def arrays(text: str, n: int = 37) -> tuple[dict[str, np.ndarray], dict[str, int], dict[str, np.ndarray]]:
    """Inputs, sizes, and what NumPy says."""
    random = np.random.default_rng(n)
    if text is CSR:
        rows = np.concatenate([[0], np.cumsum(random.integers(0, 9, n))]).astype(np.int32)
        cols = random.integers(0, 11, rows[-1]).astype(np.int32)
        v, x = (random.integers(-3, 4, size).astype(np.float32) for size in (rows[-1], 11))
        dense = np.zeros((n, 11), np.float32)
        for i in range(n):
            for j in range(rows[i], rows[i + 1]):
                dense[i, cols[j]] += v[j]
        given = {"rows": rows, "cols": cols, "v": v, "x": x}
        return given, {"N": n, "M": 9, "Z": int(rows[-1]), "K": 11}, {"y": dense @ x}
    if text is BAGS:
        at = np.concatenate([[0], np.cumsum(random.integers(0, 9, n))])
        ids, w = random.integers(0, 11, at[-1]), random.integers(-3, 4, (11, 21)).astype(np.float32)
        want = np.array([w[ids[a:b]].sum(0) for a, b in pairwise(at)], np.float32)
        sizes = {"N": n, "M": 9, "Z": int(at[-1]), "V": 11, "D": 21}
        return {"at": at, "ids": ids, "w": w}, sizes, {"y": want}
    if text is PAGED:
        table, pool = random.integers(0, 5, (3, 2)).astype(np.int32), random.random((80, 7), np.float32)
        want = pool.reshape(5, 16, 7)[table].reshape(3, 32, 7)
        return {"table": table, "pool": pool}, {"B": 3, "T": 2, "D": 7, "P": 5}, {"y": want}
    at, ok = random.integers(0, 9, n).astype(np.int32), random.integers(0, 2, n).astype(np.uint8)
    x, y = random.integers(-3, 9, 20).astype(np.float32), random.integers(-3, 9, 20).astype(np.float32)
    want = y.copy()
    for a, o in zip(at, ok, strict=True):
        if want[2 * a] > 0 or o > 0:
            want[2 * a + 1] += x[a % 3 + o]
        if a < 3:
            want[(a + o) // 2] = 7
    return {"at": at, "ok": ok, "x": x, "y": y}, {"N": n, "M": 20}, {"y": want}


def marked(text: str, mark: str) -> dojoir.Kernel:
    return dojoir.parse(text.replace("\nN\n", f"\nN : {mark}\n").replace("\nB\n", f"\nB : {mark}\n"))


def inner_lanes(text: str) -> dojoir.Kernel:
    """With the scope of a length from data in lanes, or that inside of it."""
    if text is CSR:
        return dojoir.parse(text.replace("M)\n", "M) : v\n"))
    return dojoir.parse(text.replace("| | D\n", "| | D : v\n"))


TEXTS = [CSR, BAGS, PAGED, SPREAD]


@pytest.mark.parametrize("text", TEXTS)
def test_the_interpreter_and_the_targets_of_this_machine(text: str) -> None:
    given, sizes, expected = arrays(text)
    kernel = dojoir.parse(text)
    assert dojoir.parse(dojoir.to_text(kernel)) == kernel
    assert np.array_equal(dojoir.interpret(kernel, given, **sizes)["y"], expected["y"])
    for target in filter(can_run, HOST):
        tried = [kernel, dojoir.optimize(kernel, target).kernel]
        tried += [marked(text, "p"), marked(text, "v")] if text is not SPREAD else []
        tried += [inner_lanes(text)] if text in (CSR, BAGS) else []
        for one in tried:
            assert np.array_equal(dojoir.compile(one, target).run(given, **sizes)["y"], expected["y"]), (
                target,
                one,
            )


@pytest.mark.parametrize(("target", "vlen"), [("neon", 128), ("sve", 256), ("rvv", 256)])
def test_emulated_targets(target: str, vlen: int, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    kernels = [marked(CSR, "v"), marked(BAGS, "v"), marked(PAGED, "p"), dojoir.parse(SPREAD)]
    kernels += [inner_lanes(CSR), inner_lanes(BAGS)]
    program = build(target, kernels, tmp_path)
    trials = []
    for number, text in enumerate([*TEXTS, CSR, BAGS]):
        given, sizes, expected = arrays(text)
        trials.append((number, Trial(kernels[number], given, sizes, expected)))
    for (_, trial), found in zip(trials, run(target, program, trials, vlen), strict=True):
        assert np.array_equal(found["y"], trial.expected["y"]), trial.kernel


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_gpu_text_on_the_harness(target: str) -> None:
    for text in TEXTS:
        given, sizes, expected = arrays(text, 20)
        kernel = marked(text, "gx") if text is not SPREAD else dojoir.parse(text)
        assert np.array_equal(on_harness.run(kernel, given, sizes, target)["y"], expected["y"]), text


def test_the_text_has_a_temporary() -> None:
    """One for a statement, however often it says the index; without the condition where computing it is safe."""
    assert dojoir.to_text(dojoir.parse(CSR)).splitlines()[-5:] == [
        "N",
        "| y[{0}] = 0",
        "| M",
        "| | v_at = i64(rows[{0}]) + {1}",
        "| | y[{0}] += v[v_at] * x[cols[v_at]] if {1} < i64(rows[{0} + 1] - rows[{0}])",
    ]
    deep = dojoir.parse(SPREAD.replace("x[at[{0}] % 3", "x[at[ok[{0}]] % 3"))
    assert "| x_at = 0\n| x_at = i64(at[ok[{0}]]) % 3 + i64(ok[{0}]) if " in dojoir.to_text(deep)
    taken = dojoir.parse(CSR.replace("in  x:", "in  v_at: f32[3]\nin  x:"))
    assert "tmp v_at2: i64 reg" in dojoir.to_text(taken)


def test_what_is_the_same_in_a_scope_stands_before_it() -> None:
    """Where that runs at least once, nothing in it changes what the index is computed from, and it cannot fail."""
    lines = dojoir.to_text(dojoir.parse(BAGS)).splitlines()[-3:]
    assert lines[:2] == ["| | ids_at = at[{0}] + {1}", "| | D"] and lines[2].startswith("| | | y[{0}, {2}] += w")
    for text, stays in (
        (BAGS.replace("| | D\n| | | y[{0}, {2}] +=", "| | D - 1\n| | | y[{0}, {2}] +="), "| | | ids_at"),
        (BAGS.replace("ids[at[{0}] + {1}]", "ids[at[{0}] + {2}]"), "| | | ids_at"),
        (BAGS.replace("ids[at[{0}] + {1}]", "ids[at[{0}] // {1}]"), "| | | ids_at"),
        (BAGS.replace("in  at", "inout k: i64[1]\nin  at").replace("{1}]", "{1} + k[0]]")
         .replace("| | D\n| | | y[{0}, {2}]", "| | D\n| | | k[0] = 0\n| | | y[{0}, {2}]"), "| | | ids_at"),
    ):  # fmt: skip
        assert any(line.startswith(stays) for line in dojoir.to_text(dojoir.parse(text)).splitlines()), text


def test_lanes_end_where_the_data_say() -> None:
    code = dojoir.emit(inner_lanes(CSR), "avx512")
    assert "count = min_i64(M, (int64_t)sub_i32(rows[i0 + 1], rows[i0]));" in code


@pytest.mark.parametrize("header", ["(N, M)", "(N, M)\nwhere M % 64 == 0", "(N, M = 32)", "(N, M = 256)"])
def test_lanes_end_within_a_vector_of_an_extent_that_is_whole(header: str) -> None:
    text = f"""kernel rows{header}
in  rows: i32[N]
in  x: f32[N, M]
out y: f32[N]
out z: f32[N, M]

N
| y[{{0}}] = 0
| M
| | z[{{0}}, {{1}}] = 0
| min(rows[{{0}}], M) : v
| | y[{{0}}] += x[{{0}}, {{1}}]
| | z[{{0}}, {{1}}] = x[{{0}}, {{1}}] + 1
"""
    kernel, random = dojoir.parse(text), np.random.default_rng(0)
    width = kernel.sizes[1].value or 128
    given = {"rows": random.integers(0, width + 1, 20).astype(np.int32)}
    given["x"] = random.integers(-4, 5, (20, width)).astype(np.float32)
    expected = dojoir.interpret(kernel, given)
    for target in filter(can_run, HOST):
        found = dojoir.compile(kernel, target).run(given)
        assert all(np.array_equal(expected[name], found[name]) for name in "yz"), target


def test_an_index_may_be_made_of_bits() -> None:
    text = "kernel h(N)\nin  x: f32[N]\ninout h: i32[256]\n\nN\n| h[bitcast(u32, x[{0}]) >> 24] += 1\n"
    x = np.array([1, -1, 2, np.inf], np.float32)
    wanted = np.bincount(x.view(np.uint32) >> 24, minlength=256)
    found = dojoir.compile(dojoir.parse(text)).run({"x": x, "h": np.zeros(256, np.int32)})
    assert np.array_equal(found["h"], wanted)


def test_an_index_out_of_range_is_an_error_with_its_place() -> None:
    given, sizes, _ = arrays(CSR)
    given["rows"] = given["rows"].copy()
    given["rows"][:4] = [-3, -2, 5, 5]
    with pytest.raises(dojoir.RunError, match=r"\{0\}=0, \{1\}=0: index v_at = -3 of v is outside") as caught:
        dojoir.interpret(dojoir.parse(CSR), given, **sizes)
    assert caught.value.diagnostic.span is not None and caught.value.diagnostic.span.line == 11
    for target in filter(can_run, HOST):
        with pytest.raises(dojoir.RunError, match="v_at"):
            dojoir.compile(dojoir.parse(CSR), target).run(given, **sizes)


@pytest.mark.parametrize(
    ("index", "code"),
    [("x[{0}] + 1", "type-operand"), ("ok[{0}] + 1", "type-operand"), ("at[{0}] + y", "type-operand"),
     ("at[{0}, 0] + 1", "wrong-rank"), ("at[{0} + 1] + {0}", "out-of-bounds"),
     ("at[{0}] + {3}", "unknown-iterator"), ("at[{0}] < 3", "type-mismatch")],
)  # fmt: skip
def test_what_is_no_index(index: str, code: str) -> None:
    text = (
        f"kernel k(N)\nin at: i32[N]\nin ok: bool[N]\nin x: f32[N]\nout y: f32[N]\n\nN\n| y[{{0}}] = x[{index}]\n"
    )
    with pytest.raises(dojoir.KernelError) as caught:
        dojoir.prove(dojoir.parse(text))
    assert caught.value.diagnostic.code == code


@pytest.mark.parametrize("move", ["split(0, 4)", "parallelize(0)", "vectorize(0)", "split_reduction(0.1, y, p, 4)"])
def test_moves(move: str) -> None:
    trace = dojoir.Trace(dojoir.parse(CSR))
    trace.apply(move)
    assert dojoir.certify(trace)
    given, sizes, expected = arrays(CSR)
    assert np.array_equal(dojoir.interpret(trace.kernel, given, **sizes)["y"], expected["y"])


def test_a_last_statement_may_write_what_its_condition_reads() -> None:
    """It is evaluated before, by each statement."""
    text = "kernel k(N)\nin x: f32[N]\ninout y: f32[N]\ntmp t: f32[N]\n\nN\n| t[{0}] = 0\n| if y[{0}] > 0\n"
    text += "| | t[{0}] = x[{0}]\n| | y[{0}] = t[{0}]\n"
    kernel = dojoir.parse(text)
    y = np.array([1, -1, 2], np.float32)
    assert dojoir.interpret(kernel, {"x": -y, "y": y})["y"].tolist() == [-1, -1, -2]
    with pytest.raises(dojoir.KernelError, match="written under it"):
        dojoir.parse(text + "| | t[{0}] = 1\n")
