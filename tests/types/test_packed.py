"""Packed buffers, two elements of four bits a byte: their meaning, what they refuse, and texts on every target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import on_harness
import pytest
from able import can_run
from emulated import Trial, build, machine, run

import dojoir
from dojoir.author.build import eq
from dojoir.author.build import kernel as build_kernel
from dojoir.ir.packing import is_even
from dojoir.support.frozen import dataclass
from dojoir.types.in_bytes import in_bytes

Arrays = dict[str, np.ndarray]

E2M1 = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
"""The number of each code."""

COPY = """
kernel copy(N, K)
where K % 2 == 0
in  x: f32[N, K]
out q: f4e2m1[N, K] packed

N
| K
| | q[{0}, {1}] = x[{0}, {1}]
"""


def bytes_of(codes: np.ndarray) -> np.ndarray:
    """Codes in the last dimension, two in each byte, the even one in the low half."""
    return (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)


def codes_of(packed: np.ndarray) -> np.ndarray:
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1)


def rounded(values: np.ndarray) -> np.ndarray:
    """The codes of the nearest f4e2m1."""
    return values.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)


# -- texts of practice -------------------------------------------------------------------------------------
HOST = ("llvm", "c", "avx2", "avx512")

QUANTIZE = """
kernel nvfp4_quantize(N, B)
in  x: f32[N, 16*B]
out q: f4e2m1[N, 16*B] packed
out s: f8e4m3[N, B]
tmp m: f32[N, B]

N
| B
| | m[{0}, {1}] = 0
| | 16
| | | m[{0}, {1}] max= abs(x[{0}, 16*{1} + {2}])
| | s[{0}, {1}] = sat(f8e4m3, m[{0}, {1}] / 6)
| | 16
| | | q[{0}, 16*{1} + {2}] = sat(f4e2m1, select(s[{0}, {1}] > 0, x[{0}, 16*{1} + {2}] / s[{0}, {1}], 0.0))
"""

MATVEC = """
kernel fp4_matvec(N, B)
in  w: f4e2m1[N, 16*B] packed
in  s: f8e4m3[N, B]
in  x: f32[16*B]
out y: f32[N]
tmp d: f32[N, B]

N
| y[{0}] = 0
| B
| | d[{0}, {1}] = 0
| | 16
| | | d[{0}, {1}] += w[{0}, 16*{1} + {2}] * x[16*{1} + {2}]
| | y[{0}] += d[{0}, {1}] * s[{0}, {1}]
"""

TURNED = """
kernel turned(N, M)
where M % 2 == 0, N % 2 == 0
in  a: f4e2m1[N, M] packed
out b: f4e2m1[M, N] packed
out c: u8[N, M]

M
| N
| | b[{0}, {1}] = -a[{1}, {0}]
N
| M
| | c[{0}, {1}] = bitcast(u8, a[{0}, {1}])
"""

IN_PLACE = """
kernel in_place(N, M)
where M % 4 == 0
inout q: f4e2m1[N, M] packed

N
| M // 2
| | if {1} < M // 2 - 1
| | | q[{0}, 2*{1} + 1] = q[{0}, 2*{1}] + q[{0}, 2*{1} + 1]
"""


def quantize() -> tuple[Arrays, Arrays, dict[str, int]]:
    random = np.random.default_rng(3)
    x = (random.normal(size=(21, 48)) * 2.0 ** random.integers(-9, 8, (21, 1))).astype(np.float32)
    x[3], x[4, ::2] = 0, 0
    largest = np.abs(x).reshape(21, 3, 16).max(2)
    s = np.minimum(largest / np.float32(6), np.float32(448)).astype(ml_dtypes.float8_e4m3fn)
    each = np.repeat(s.astype(np.float32), 16, axis=1)
    with np.errstate(all="ignore"):
        scaled = np.where(each > 0, x / each, np.float32(0))
    return {"x": x}, {"q": bytes_of(rounded(np.clip(scaled, -6, 6))), "s": s.view(np.uint8)}, {"N": 21, "B": 3}


def matvec() -> tuple[Arrays, Arrays, dict[str, int]]:
    """Of numbers whose sums are exact in any order."""
    random = np.random.default_rng(4)
    w = random.integers(0, 16, (9, 64), np.uint8)
    s = random.choice(np.array([0x38, 0x40, 0x30], np.uint8), (9, 4))  # 1, 2, 0.5
    x = random.integers(-8, 9, 64).astype(np.float32)
    scales = np.repeat(s.view(ml_dtypes.float8_e4m3fn).astype(np.float32), 16, axis=1)
    return {"w": bytes_of(w), "s": s, "x": x}, {"y": (E2M1[w] * scales) @ x}, {"N": 9, "B": 4}


def turned() -> tuple[Arrays, Arrays, dict[str, int]]:
    a = np.random.default_rng(5).integers(0, 16, (10, 14), np.uint8)
    return {"a": bytes_of(a)}, {"b": bytes_of(a.T ^ 8), "c": a}, {"N": 10, "M": 14}


def in_place() -> tuple[Arrays, Arrays, dict[str, int]]:
    q = np.random.default_rng(6).integers(0, 16, (7, 12), np.uint8)
    want = q.copy()
    sums = rounded(E2M1[q[:, 0:-2:2]] + E2M1[q[:, 1:-2:2]])
    want[:, 1:-2:2] = sums
    return {"q": bytes_of(q)}, {"q": bytes_of(want)}, {"N": 7, "M": 12}


@dataclass(frozen=True)
class Text:
    text: str
    arrays: Callable[[], tuple[Arrays, Arrays, dict[str, int]]]

    @property
    def kernel(self) -> dojoir.Kernel:
        return dojoir.parse(self.text)


TEXTS = {
    "quantize": Text(QUANTIZE, quantize), "matvec": Text(MATVEC, matvec), "turned": Text(TURNED, turned),
    "in_place": Text(IN_PLACE, in_place),
}  # fmt: skip


def same(found: Arrays, want: Arrays) -> bool:
    return all(
        found[name].shape == want[name].shape
        and np.array_equal(found[name].view(np.uint8), want[name].view(np.uint8))
        for name in want
    )


@pytest.mark.parametrize("name", TEXTS)
def test_on_this_machine_and_certified(name: str) -> None:
    kernel = TEXTS[name].kernel
    given, want, _ = TEXTS[name].arrays()
    assert same(dojoir.interpret(kernel, given), want)
    for target in ("llvm", "c", "avx2", "avx512"):
        if not can_run(target):
            continue
        trace = dojoir.optimize(kernel, target)
        assert dojoir.certify(trace).status == "legal"
        for one in (kernel, trace.kernel):
            assert same(dojoir.compile(one, target).run(given), want), (target, str(one))
    assert dojoir.verify(kernel, target="llvm")


@pytest.mark.parametrize("target", ["neon", "sve", "rvv"])
def test_on_emulated_targets(target: str, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    kernels = [dojoir.optimize(text.kernel, target).kernel for text in TEXTS.values()]
    trials = []
    for number, text in enumerate(TEXTS.values()):
        given, want, sizes = text.arrays()
        trials.append((number, Trial(kernels[number], given, sizes, want)))
    for (_, trial), found in zip(trials, run(target, build(target, kernels, tmp_path), trials, 256), strict=True):
        assert same(dict(found), dict(trial.expected)), trial.kernel


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("name", TEXTS)
def test_on_the_harness(name: str, target: str) -> None:
    given, want, sizes = TEXTS[name].arrays()
    kernel = dojoir.optimize(TEXTS[name].kernel, target).kernel
    for order in ("forward", "backward"):
        assert same(on_harness.run(kernel, given, sizes, target, order), want), kernel


def test_schedule_with_lanes_that_store_bytes() -> None:
    """Each lane has a byte: both halves are written at once, by a vector store."""
    trace = dojoir.Trace(dojoir.parse(QUANTIZE))
    trace.apply("split(0.0.3, 2)")
    trace.apply("vectorize(0.0.3)")
    trace.apply("parallelize(0)")
    assert dojoir.certify(trace).status == "legal"
    given, want, _ = quantize()
    for target in ("llvm", "c", "avx2", "avx512"):
        if can_run(target):
            assert same(dojoir.compile(trace.kernel, target).run(given), want), target
    text = str(in_bytes(trace.kernel))
    assert "<< 4" in text
    assert "& 240" not in text, "no half is stored by itself"


# -- bytes -------------------------------------------------------------------------------------------------
SHARED = """
kernel k(N, K)
where K % 4 == 0
in  x: f32[N, K]
out q: f4e2m1[N, K] packed

N MARK
| K // 2 LANES
| | q[{0}, 2*{1}] = x[{0}, 2*{1}]
K // 2 OTHERS
| N
| | q[{1}, 2*{0} + 1] = x[{1}, 2*{0} + 1]
"""


def marked(old: str, new: str) -> dojoir.Kernel:
    text = SHARED.replace(old, new)
    for word in ("MARK", "LANES", "OTHERS"):
        text = text.replace(f" {word}", "")
    return dojoir.parse(text)


def test_iterations_that_share_no_byte_are_independent() -> None:
    for old, new in (("MARK", ": p"), ("LANES", ": v"), ("OTHERS", ": p")):
        dojoir.prove(marked(old, new))


@pytest.mark.parametrize("mark", ["p", "v", "gx"])
@pytest.mark.parametrize(
    "body", ["q[{0}] = x[{0}]", "q[N - 1 - {0}] = x[{0}]", "q[{0}] = q[{0}] + 1", "y[{0}] = q[{0}]\n| q[{0}] = 1"]
)
def test_iterations_that_share_a_byte_are_not(mark: str, body: str) -> None:
    text = "kernel k(N)\nwhere N % 2 == 0\nin  x: f32[N]\nout y: f32[N]\ninout q: f4e2m1[N] packed\n\n"
    kernel = dojoir.parse(f"{text}N : {mark}\n| y[{{0}}] = 0\n| {body}\n")
    with pytest.raises(dojoir.KernelError, match="byte of the packed `q`"):
        dojoir.prove(kernel)
    dojoir.prove(dojoir.parse(dojoir.to_text(kernel).replace(" packed", "")))
    plain = dojoir.parse(dojoir.to_text(kernel).replace(f" : {mark}", ""))
    for move in ("vectorize(0)", "parallelize(0)", "bind(0, gx)"):
        assert dojoir.check(plain, move).code == "shared-element", move


def test_reads_of_a_byte_are_independent() -> None:
    text = "kernel k(N)\nwhere N % 2 == 0\nin  q: f4e2m1[N] packed\nout y: f32[N]\n\nN : p\n| y[{0}] = q[{0}]\n"
    dojoir.prove(dojoir.parse(text))
    dojoir.prove(dojoir.parse(text.replace(": p", ": v")))


LAYOUTS = """
kernel k(N, K)
where K % 2 == 0, N % 2 == 0
in  x: f32[N, K]
out y: f32[N, K]
tmp t: f4e2m1[N, K] packed

N : p
| K
| | t[{0}, {1}] = x[{0}, {1}]
N
| K
| | y[{0}, {1}] = t[{0}, {1}]
"""


@pytest.mark.parametrize(
    ("move", "code"),
    [
        ("reorder_dims(t, 1, 0)", "shared-element"),  # rows would share bytes, and run side by side
        ("pad_dims(t, 1, 3)", "bad-packing"),
        ("pad_dims(t, 1, 4)", "legal"),
        ("pad_dims(t, 0, 3)", "legal"),
        ("split_dim(t, 1, 3)", "bad-packing"),
        ("split_dim(t, 1, 4)", "legal"),
        ("vectorize(0.0)", "shared-element"),
        ("vectorize(1.0)", "legal"),
    ],
)
def test_moves_of_storage_keep_bytes_whole_and_apart(move: str, code: str) -> None:
    kernel = dojoir.parse(LAYOUTS)
    assert dojoir.check(kernel, move).code == code
    if code == "legal":
        trace = dojoir.Trace(kernel)
        trace.apply(move)
        dojoir.prove(trace.kernel)
        assert dojoir.certify(trace).status == "legal"
        x = np.random.default_rng(1).normal(size=(6, 12)).astype(np.float32)
        want = dojoir.interpret(kernel, {"x": x})
        assert same(dojoir.compile(trace.kernel).run({"x": x}), want)


@pytest.mark.parametrize("storage", ["", " stack", " reg", " pad(2)"])
@pytest.mark.parametrize("mark", ["", " : v", " : p"])
def test_temporaries_of_one_byte(storage: str, mark: str) -> None:
    """Half by half, the second first: what was never written is masked out."""
    text = f"kernel k(N)\nin  x: f32[N, 2]\nout y: f32[N, 2]\ntmp t: f4e2m1[2]{storage} packed\n\nN{mark}\n"
    text += "| t[1] = x[{0}, 1]\n| y[{0}, 1] = t[1] * 2\n| t[0] = x[{0}, 0]\n| y[{0}, 0] = t[0] * 2 + t[1]\n"
    kernel, x = dojoir.parse(text), np.random.default_rng(2).normal(size=(37, 2)).astype(np.float32) * 3
    want = dojoir.interpret(kernel, {"x": x})
    for target in ("llvm", "c", "avx2", "avx512"):
        if can_run(target):
            assert same(dojoir.compile(kernel, target).run({"x": x}), want), target


# -- the text ----------------------------------------------------------------------------------------------
def test_the_text_reads_back() -> None:
    kernel = dojoir.parse(COPY)
    assert dojoir.parse(dojoir.to_text(kernel)) == kernel
    plain = dojoir.parse(COPY.replace(" packed", ""))
    assert plain != kernel
    assert plain.hash != kernel.hash
    built = build_kernel("copy", "N", "K")
    _, k = built.sizes
    built.where(eq(k % 2, 0))
    x, q = built.input("x", "f32", ["N", "K"]), built.output("q", "f4e2m1", ["N", "K"], packed=True)
    with built.scope("N") as i, built.scope("K") as j:
        q[i, j] = x[i, j]
    assert built.kernel == kernel


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("where K % 2 == 0\n", "", "say so, as in 'where K % 2 == 0'"),
        ("K % 2 == 0", "K % 3 == 0", "K may be odd"),
        ("f4e2m1[N, K] packed", "f8e4m3[N, K] packed", "types of 4 bits"),
        ("f4e2m1[N, K] packed", "f4e2m1[N, K] packed pad(0, 1)", "by an even number"),
        ("f4e2m1[N, K] packed", "f4e2m1[N, K] order(1, 0) packed", "N may be odd"),
        ("q[{0}, {1}] = ", "q[{0}, {1}] += ", "accumulate into a tmp"),
        ("f4e2m1[N, K] packed", "f4e2m1[N, K] packed packed", "given twice"),
        ("f4e2m1[N, K] packed", "f4e2m1[N, K] packed 2", "takes no number"),
    ],
)
def test_what_is_refused(old: str, new: str, word: str) -> None:
    with pytest.raises(dojoir.DojoError) as caught:
        dojoir.parse(COPY.replace(old, new))
    assert word in str(caught.value)


@pytest.mark.parametrize(
    ("fact", "extent", "even"),
    [
        ("K % 2 == 0", "K", True),
        ("K % 4 == 0", "3*K + 2", True),
        ("K % 4 == 2", "K", True),
        ("K % 4 == 1", "K + 1", True),
        ("K % 4 == 1", "K", False),
        ("K == 2*N", "K", True),
        ("K == N + 1", "K + N + 1", True),
        ("N % 2 == 0, K == N", "K", True),
        ("K % 3 == 0", "K", False),
        ("K >= 2", "2*K + 1", False),
        ("K >= 2", "K + K", True),
        ("K % 2 != 0", "K", False),
    ],
)
def test_what_is_even(fact: str, extent: str, even: bool) -> None:
    kernel = dojoir.parse(f"kernel k(N, K)\nwhere {fact}\nout y: f32[{extent}]\n\n{extent}\n| y[{{0}}] = 0\n")
    assert is_even(kernel.buffers[0].dims[0].extent, kernel.facts) == even
    odd = [k for k in range(1, 40) for n in range(1, 40) if all_hold(kernel, n, k) and length(kernel, n, k) % 2]
    assert not (even and odd)


def all_hold(kernel: dojoir.Kernel, n: int, k: int) -> bool:
    return all(dojoir.ir.nodes.holds(fact, {"N": n, "K": k}, ()) for fact in kernel.facts)


def length(kernel: dojoir.Kernel, n: int, k: int) -> int:
    return kernel.buffers[0].dims[0].extent.evaluate({"N": n, "K": k})


def test_an_index_from_data_names_no_half() -> None:
    text = "kernel k(N)\nwhere N % 2 == 0\nin  at: i32[N]\nin  q: f4e2m1[N] packed\nout y: f32[N]\n\n"
    with pytest.raises(dojoir.KernelError, match="would depend on data"):
        dojoir.parse(text + "N\n| y[{0}] = q[at[{0}]]\n")
    rows = text.replace("q: f4e2m1[N]", "q: f4e2m1[N, 4]") + "N\n| y[{0}] = q[at[{0}], 3]\n"
    q, at = np.arange(12, dtype=np.uint8).reshape(6, 2) * 19, np.array([5, 0, 3, 3, 1, 2], np.int32)
    want = E2M1[codes_of(q)[at, 3]]
    for target in ("llvm", "c"):
        if can_run(target):
            found = dojoir.compile(dojoir.parse(rows), target).run({"q": q, "at": at})
            assert np.array_equal(found["y"], want)


# -- calls -------------------------------------------------------------------------------------------------
def test_calls_take_bytes() -> None:
    kernel, x = dojoir.parse(TURNED), np.zeros((4, 3), np.uint8)
    compiled = dojoir.compile(kernel)
    assert compiled.run({"a": x})["b"].shape == (6, 2)
    b, c = compiled.empty("b", N=4, M=6), compiled.empty("c", N=4, M=6)
    assert b.shape == (6, 2)
    compiled(x, b, c)
    assert np.all(b == 0x88)
    for call in (compiled.run, lambda given: dojoir.interpret(kernel, given)):
        with pytest.raises(dojoir.ArgumentError) as caught:
            call({"a": x.astype(np.int8)})
        assert "uint8" in str(caught.value)
    with pytest.raises(dojoir.ArgumentError, match="dimension 1"):
        compiled(x, b, np.empty((4, 3), np.uint8))
    with pytest.raises(dojoir.ArgumentError, match="N % 2 == 0"):
        compiled.run({"a": np.zeros((3, 3), np.uint8)})


def test_measured_and_counted_in_bytes() -> None:
    kernel = dojoir.parse(COPY)
    counts = dojoir.cost(kernel).at(N=8, K=64)
    assert (counts.read, counts.written) == (8 * 64 * 4, 8 * 32)
    assert dojoir.measure(kernel, N=8, K=64, budget=0.05, with_ceilings=False).seconds > 0


def test_an_evaluator_judges_elements_that_share_a_byte() -> None:
    """A right schedule, and one with another scale."""
    kernel = dojoir.parse(QUANTIZE)
    sizes = dict.fromkeys(kernel.runtime_sizes, 32)
    wrong = dojoir.parse(QUANTIZE.replace("] / 6", "] / 5"))
    with dojoir.Evaluator(kernel, "llvm", sizes) as evaluator:
        right = dojoir.PASSES["default_schedule"].given("host").on(kernel).kernel
        assert [one.status for one in evaluator.evaluate([right, wrong])] == ["ok", "wrong"]


@pytest.mark.parametrize("dtype", ["u4", "i4", "f4e2m1"])
@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_neighbours_in_lanes_are_read_as_bytes(dtype: str, lanes: int) -> None:
    """As many bytes as half of the lanes, no gather; where a lane begins at an odd element, the gather stays."""
    text = f"""kernel widened(N)
in  q: {dtype}[N, 64] packed
out y: f32[N, 32]

N
| {32 // lanes}
| | {lanes} : v
| | | y[{{0}}, {lanes}*{{1}} + {{2}}] = f32(q[{{0}}, {lanes}*{{1}} + {{2}} + 32])
"""
    q = np.random.default_rng(lanes).integers(0, 256, (5, 32)).astype(np.uint8)
    for shifted in (text, text.replace("+ 32]", "+ 31]")):
        kernel = dojoir.parse(shifted)
        wanted = dojoir.interpret(kernel, {"q": q})["y"]
        for target in HOST:
            if can_run(target):
                assert np.array_equal(dojoir.compile(kernel, target).run({"q": q})["y"], wanted), target
    code = dojoir.emit(dojoir.parse(text), "llvm")
    assert "bitcast <" in code and "masked.gather" not in code
