"""The targets with intrinsics: every library kernel and random ones, as this processor runs them, and how the text
and the tables are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import everywhere
import numpy as np
import pytest
from able import runs
from differential import examine
from drawing import draw
from folders import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dojoir
from dojoir import kernels
from dojoir.codegen.c.dialect import MASKS, DialectRow
from dojoir.codegen.lir.program import Type
from dojoir.codegen.simd.isas import ISAS
from dojoir.ir.dtypes import DTYPES
from dojoir.meaning.bits import to_floats
from dojoir.runtime.build import host_targets

NATIVE = [name for name, isa in ISAS.items() if host_targets.architecture() == isa.architecture]
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_library_kernels(part: int, tmp_path: Path) -> None:
    """Each kernel as scheduled for each target in C, and after random moves, these through LLVM as well."""
    targets = [target for target in ("c", *NATIVE) if everywhere.runs_here(target)]
    found = list(everywhere.subjects(kernels.names()[part::PARTS], Random(part), targets))
    counts: Counter[str] = Counter()
    for target in ("llvm", *targets):
        wrong = list(everywhere.differences(target, found, tmp_path, counts))
        assert not wrong, "\n\n".join(wrong)
    assert all(counts[target] > len(found) / len(targets) for target in targets), counts


@pytest.mark.parametrize("target", NATIVE)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
def test_random_kernels(target: str, random: Random) -> None:
    runs(target)
    exact = random.random() < 0.5
    kernel = draw("runnable", random, exact=exact, strided=True)
    assert examine(kernel, random, exact, [target]) is None


FIRST_EQUAL = """\
kernel first_equal(N, M)
where M % 4 == 0
in  x: f32[N, M]
in  m: f32[N]
out y: i64[N]

N
| y[{0}] = M
| M // 4
| | 4 : v
| | | y[{0}] min= select(x[{0}, 4*{1} + {2}] == m[{0}], 4*{1} + {2}, M)
"""


@pytest.mark.parametrize("target", NATIVE)
def test_wide_numbers_chosen_by_masks_of_narrow_ones(target: str) -> None:
    """What GCC 12 gets wrong where code for AVX2 may use instructions of AVX-512."""
    runs(target)
    x, m = np.arange(36, dtype=np.float32).reshape(1, 36), np.float32([5])
    assert dojoir.compile(dojoir.parse(FIRST_EQUAL), target).run({"x": x, "m": m})["y"].tolist() == [5]


HALF = """\
kernel half(N)
inout a: {narrow}[6]
in    b: {wide}[6]

6 : v
| if {{0}} < N
| | a[{{0}}] max= {narrow}(b[{{0}}])
"""


@pytest.mark.parametrize("target", NATIVE)
@pytest.mark.parametrize(("narrow", "wide"), [("f32", "f64"), ("i32", "i64"), ("f32", "i64"), ("i32", "f64")])
def test_masks_of_half_a_register_end_with_it(target: str, narrow: str, wide: str) -> None:
    """The lanes of a register beyond those that a vector has are not written: neighbours keep what they hold, and
    so does what comes after the array."""
    runs(target)
    run = dojoir.compile(dojoir.parse(HALF.format(narrow=narrow, wide=wide)), target)
    types = {"f32": np.float32, "i32": np.int32, "f64": np.float64, "i64": np.int64}
    for active in range(1, 8):
        room = np.zeros(16, types[narrow]) - 1
        run(room[:6], np.full(6, 2, types[wide]), N=active)
        assert room.tolist() == [2] * min(active, 6) + [-1] * (16 - min(active, 6))


# -- narrow floats -----------------------------------------------------------------------------------------
NARROW = """\
kernel narrow(N, M)
in  a: {type}[N]
in  b: f32[M]
out x: f32[N]
out y: {type}[M]

N : v
| x[{{0}}] = f32(a[{{0}}])
M : v
| y[{{0}}] = {type}(b[{{0}}])
"""


@pytest.mark.parametrize("target", dojoir.TARGETS)
@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_narrow_floats_are_those_of_the_interpreter_to_the_bit(type: str, target: str) -> None:
    """All numbers of the type are widened, and numbers between, at and beyond them narrowed, in lanes: by
    instructions where the set has them (F16C, AVX-512, NEON's f16), else in integers (bf16; f16 on RVV, whose Zvfh
    is not asked for)."""
    if not everywhere.runs_here(target):
        pytest.skip(f"{target} does not run here")
    kernel = dojoir.parse(NARROW.format(type=type))
    every = np.arange(1 << 16, dtype=np.uint16)
    a = every if type == "bf16" else every.view(np.float16)
    with np.errstate(invalid="ignore"):  # NaNs that signal
        wide = to_floats(a, DTYPES[type]).astype(np.float32)
    bits = wide[np.isfinite(wide)].view(np.uint32)[::7, None]
    half = np.uint32(1 << (15 if type == "bf16" else 12))
    near = np.concatenate([bits, bits + half - 1, bits + half, bits + half + 1], axis=1).ravel()
    special = np.array([0, 1 << 31, 1, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F7FFFFF, 0x477FF000], np.uint32)
    b = np.concatenate([near, special]).view(np.float32)
    with np.errstate(invalid="ignore"):
        given = dojoir.compile(kernel, target).run({"a": a, "b": b})
        expected = dojoir.interpret(kernel, {"a": a, "b": b})
        for name in ("x", "y"):
            dtype = kernel.buffer(name).dtype
            found, wanted = to_floats(given[name], dtype), to_floats(expected[name], dtype)
            same = (found == wanted) & (np.signbit(found) == np.signbit(wanted))
            assert (same | (np.isnan(found) & np.isnan(wanted))).all(), name


# -- the tables --------------------------------------------------------------------------------------------
def every_row() -> Iterator[tuple[str, DialectRow]]:
    for name, isa in ISAS.items():
        yield from ((name, row) for row in isa.table)


def test_every_word_of_every_spelling_is_known() -> None:
    for name, row in every_row():
        isa = ISAS[name]
        dtypes = {dtype.name: dtype for dtype in (*DTYPES.values(), *MASKS.values())}
        type = Type(dtypes[row.dtype], 4)
        source = Type(dtypes[row.source], 4) if row.source else None
        known = {*isa.words(type), "list", "reversed", "wide"}
        known |= {f"from_{word}" for word in isa.words(source)} if source else set()
        assert set(re.findall(r"<(\w+)>", row.spelling)) <= known, (name, row)


# -- the page ----------------------------------------------------------------------------------------------
PAGE = ROOT / "docs" / "targets.md"


def test_the_page_shows_what_is_printed() -> None:
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert [language for language, _ in blocks] == [
        "dojo", "text", "c", "dojo", "c", "dojo", "c", "text", "cuda", "text", "cuda",
    ]  # fmt: skip
    tile, moves, in_avx512, softmax, in_rvv, energy, in_sve, *_ = (text for _, text in blocks)
    trace = dojoir.Trace(dojoir.parse(tile))
    for element in dojoir.parse_pipeline(moves):
        trace.apply(element)
    default = dojoir.PASSES["default_schedule"].given("rvv").on(kernels.load("softmax")).kernel
    assert default == dojoir.parse(softmax)
    shown_on = (
        (trace.kernel, "avx512", in_avx512),
        (default, "rvv", in_rvv),
        (dojoir.parse(energy), "sve", in_sve),
    )
    for kernel, target, shown in shown_on:
        printed = dojoir.emit(kernel, target)
        assert printed[printed.index("\nint32_t ") + 1 :].strip() == shown.strip()


# -- libraries ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("target", ISAS)
def test_a_library_is_told_what_its_target_needs(target: str, tmp_path: Path) -> None:
    trace = dojoir.Trace(kernels.load("relu"))
    if target not in NATIVE:
        with pytest.raises(dojoir.ToolchainError, match=f"built on a {ISAS[target].architecture} machine"):
            dojoir.write_library([trace], tmp_path / "lib", target=target)
        return
    runs(target)
    dojoir.write_library([trace], tmp_path / "lib", target=target, check=False)
    for option in ISAS[target].options:
        assert f" {option} " in (tmp_path / "lib" / "CMakeLists.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("target", sorted(ISAS))
def test_narrow_types_of_one_width_have_functions_of_their_own(target: str) -> None:
    """A kernel that rounds to f16 and to bf16, both of 16 bits: two functions, by two names."""
    header = "kernel both(N)\nin x: f32[N]\nout y: f16[N]\nout z: bf16[N]\n\n"
    text = dojoir.emit(dojoir.parse(f"{header}N : v\n| y[{{0}}] = x[{{0}}]\n| z[{{0}}] = x[{{0}}]\n"), target)
    made = re.findall(r"static inline \w+ (\w*_to_b?f16\w*)\(", text)
    assert len(made) == len(set(made))
    assert any("_to_bf16" in name for name in made)


def test_a_scalar_that_a_shared_scope_adds_to_stays_in_memory() -> None:
    """A scope of one iteration may be shared out: its code cannot reach variables of the code around it."""
    text = """kernel f(N)
in  x: f32[N]
out y: f32
tmp s: f32

s = 0
1 : p
| s += x[{0}]
N
| s += x[{0}]
y = s
"""
    for target in ("avx512", "avx2", "neon", "sve", "rvv"):
        assert "s[0] +=" in dojoir.emit(dojoir.parse(text), target)


def test_parts_of_a_vector_are_named_as_no_part_of_another() -> None:
    """The parts of t_at, and of t_at_, were both called t_at_0."""
    kernel = dojoir.parse(
        "kernel k(N)\nin x: i64[N]\nout y: i64[N]\nout z: i64[N]\ntmp t1: i64[N~] reg\ntmp t1_: i64[N~] reg\n\n"
        "N : v\n| if {0} < 1\n| | t1[{0}] = x[{0}]\n| | t1[{0}] max= i64(i8(x[{0}])) + 1\n| | y[{0}] = t1[{0}]\n"
        "| if {0} >= 1\n| | t1_[{0}] = x[{0}]\n| | t1_[{0}] max= i64(i8(x[{0}])) - 1\n| | y[{0}] = t1_[{0}]\n"
        "| z[{0}] = i64(i8(x[{0}]))\n"
    )
    text = str(dojoir.emit(kernel, "avx512"))
    declared = re.findall(r"__m512i (t1\w*) =", text)
    assert len(declared) > 2
    assert len(set(declared)) == len(declared)
