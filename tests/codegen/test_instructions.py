"""Instructions as text: each does what its body says, and stands only where the text does just that."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from able import runs

import dojoir
from dojoir import instructions
from dojoir.codegen.emission import lower
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.walk import statements
from dojoir.errors import ArgumentError, DojoError, KernelError, ParseError, ToolchainError
from dojoir.ir.dtypes import F64
from dojoir.ir.instruction import Instruction, Use
from dojoir.ir.nodes import Kernel, Scope
from dojoir.runtime.build import c_toolchain, host_targets

NAMES = [name for name in instructions.names() if instructions.load(name).group == 1]
"""Those of one thread: what a warp executes together is tested in `test_matrix_units`."""


def used(instruction: Instruction) -> Kernel:
    """A kernel that is the instruction alone."""
    scope = replace(instruction.scope, hints=(Use(instruction),))
    return instruction.body.evolve(name="alone", body=(scope,))


def machine_has(instruction: Instruction) -> bool:
    return instruction.needs <= host_targets.features()


def toolchain() -> c_toolchain.Toolchain:
    try:
        return c_toolchain.find()
    except ToolchainError as error:
        pytest.skip(error.diagnostic.message)


# -- executed against their bodies -------------------------------------------------------------------------
def data(instruction: Instruction) -> Iterator[dict[str, np.ndarray]]:
    """Random and extreme operands."""
    random = np.random.default_rng(7)
    for round_ in range(24):
        inputs: dict[str, np.ndarray] = {}
        for name, buffer in instruction.operands.items():
            if buffer.role == "out":
                continue
            shape = tuple(dim.extent.offset for dim in buffer.dims)
            if buffer.dtype.is_integer:
                kind = np.dtype({"i": "int", "u": "uint"}[buffer.dtype.kind] + str(buffer.dtype.bits))
                limits = np.iinfo(kind)
                edges = np.array([limits.min, limits.max, 0, 1, limits.max // 2], kind)
                values = random.integers(limits.min, limits.max, shape, endpoint=True, dtype=kind)
                values = np.where(random.random(shape) < round_ % 3 / 2, random.choice(edges, shape), values)
                inputs[name] = values.astype(kind)
            else:
                scale = (1.0, 1e-30, 1e15, 1e-38)[round_ % 4]
                values = (random.standard_normal(shape) * scale).astype(np.float32)
                # What takes subnormals for zero makes a NaN of them and infinity: the two do not come together.
                small = [0.0, -0.0, 1e-45, -1e-39, 1.0]
                huge = [0.0, -0.0, np.inf, np.nan, 1.0]
                both = instruction.body.fp != "fast"
                special = np.array(small + huge if both else huge if scale == 1.0 else small, np.float32)
                pick = random.random(shape) < (0.0, 0.1)[round_ // 4 % 2]
                values = np.where(pick, random.choice(special, shape), values).astype(np.float32)
                if buffer.dtype.name == "bf16":
                    bits = values.view(np.uint32)
                    values = (bits >> 16).astype(np.uint16)
                inputs[name] = values
        yield inputs


def widened(values: np.ndarray) -> np.ndarray:
    """bf16 bits, or f32, as f64."""
    return (
        (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        if values.dtype == np.uint16
        else (values.astype(np.float64))
    )


def magnitude(kernel: Kernel, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The body on the absolute values, in f64: what the rounding errors of a sum are a share of."""
    made = {b.name: np.abs(widened(np.asarray(inputs[b.name]))) for b in kernel.buffers}
    wide = kernel.evolve(buffers=tuple(replace(b, dtype=F64) for b in kernel.buffers))
    return dojoir.interpret(wide, made)


@pytest.mark.parametrize("target", ["llvm", "c", "avx512"])
@pytest.mark.parametrize("name", NAMES)
def test_an_instruction_does_what_its_body_says(name: str, target: str) -> None:
    """Bit for bit under `fp strict`. Else the error is a share of the sum of the absolute values: a unit in the
    last place for each addition; under `fp fast` each operand and result may also be flushed to zero."""
    instruction = instructions.load(name)
    if target != "llvm":
        toolchain()
    runs(target)
    if not machine_has(instruction):
        pytest.skip(f"this machine has no {' '.join(sorted(instruction.needs))}")
    kernel = used(instruction)
    assert dojoir.parse(dojoir.to_text(kernel)) == kernel
    run = dojoir.compile(kernel, target)
    terms = len(kernel.sites) * 40
    for inputs in data(instruction):
        expected = dojoir.interpret(instruction.body, {k: v.copy() for k, v in inputs.items()})
        found = run.run({k: v.copy() for k, v in inputs.items()})
        for operand, values in expected.items():
            result = np.asarray(found[operand])
            if instruction.body.fp == "strict":
                assert np.array_equal(result, values, equal_nan=result.dtype.kind == "f"), operand
                continue
            with np.errstate(all="ignore"):
                scale = np.asarray(magnitude(instruction.body, inputs)[operand])
                allowed = terms * 2.0**-24 * scale + (
                    2.0**-126 * (4 + 4 * max_abs(inputs)) if instruction.body.fp == "fast" else 0.0
                )
                close = np.abs(result.astype(np.float64) - values) <= allowed
            special = ~np.isfinite(values)
            assert np.all(close | special), operand
            assert np.array_equal(result[special], values[special], equal_nan=True), operand


def max_abs(inputs: dict[str, np.ndarray]) -> float:
    wide = [np.abs(widened(np.asarray(values))) for values in inputs.values()]
    return float(max(values[np.isfinite(values)].max(initial=0.0) for values in wide))


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("neon_")])
def test_an_instruction_of_arm_does_what_its_body_says_in_an_emulator(name: str) -> None:
    kernel = used(instructions.load(name))
    try:
        run = dojoir.compile(kernel, "neon")
    except dojoir.ToolchainError as error:
        pytest.skip(error.diagnostic.message)
    assert "arm_neon.h" in dojoir.emit(kernel, "neon")
    for inputs in data(instructions.load(name)):
        expected = dojoir.interpret(kernel, {k: v.copy() for k, v in inputs.items()})
        found = run.run({k: v.copy() for k, v in inputs.items()})
        for operand, values in expected.items():
            result = np.asarray(found[operand])
            assert np.array_equal(result, values, equal_nan=result.dtype.kind == "f"), operand


@pytest.mark.parametrize("name", NAMES)
def test_the_compiler_gets_to_see_it(name: str, tmp_path: Path) -> None:
    instruction = instructions.load(name)
    if not machine_has(instruction):
        pytest.skip(f"this machine has no {' '.join(sorted(instruction.needs))}")
    found = toolchain()
    source = tmp_path / "alone.c"
    source.write_text(dojoir.emit(used(instruction), "c"))
    command = [*found.command, "-march=native", "-std=c11", "-E", "-P", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert instruction.c is not None
    spelled = next(
        word for word in instruction.c.replace("(", " ").split() if word.startswith(("_mm512", "_mm256"))
    )
    body = done.stdout[done.stdout.index("int32_t alone(") :]
    assert spelled in body
    assert "for (" not in body
    subprocess.run(
        [*found.command, "-march=native", "-std=c11", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror", "-c", "-o",
         str(tmp_path / "alone.o"), str(source)], check=True)  # fmt: skip


def test_without_the_instruction_the_body_is_lowered() -> None:
    instruction = instructions.load("avx512_fmadd_ps")
    source = dojoir.emit(used(instruction), "c")
    assert "#if defined(__AVX512F__)" in source
    assert "fmaf(" in source
    plain = lower(used(replace(instruction, llvm=None)), "llvm")
    assert not any(isinstance(stmt, lir.Instruct) for stmt in statements(plain.body))


def test_llvm_calls_what_the_machine_has() -> None:
    instruction = instructions.load("avx512_dpbusd")
    if not machine_has(instruction):
        pytest.skip("this machine has no VNNI")
    program = dojoir.emit(used(instruction), "llvm")
    assert "call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(" in program


# -- where they stand --------------------------------------------------------------------------------------
MATMUL = """kernel f(N, K)
in    x: f32[N, K]
in    w: f32[K, 32]
inout y: f32[N, 32]

N
| K
| | 16 @j
| | | y[{0}, {2}] = fma(x[{0}, {1}], w[{1}, {2} + 16], y[{0}, {2}])
"""


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"fma(x[{0}, {1}], w[{1}, {2} + 16], y[{0}, {2}])": "fma(w[{1}, {2} + 16], x[{0}, {1}], y[{0}, {2}])"},
        {"16 @j": "16 : v @j"},
        {"16 @j": "16 : u @j"},
        {"in    w: f32[K, 32]": "in    w: f32[K, 32] pad(0, 3)"},
        {"in    w: f32[K, 32]": "in    w: f32[32, K] order(1, 0)", "w[{1}, {2} + 16]": "w[{2} + 16, {1}]"},
        {
            "y[{0}, {2}] =": "y[N - 1 - {0}, {2} + 3] =",
            ", y[{0}, {2}])": ", y[N - 1 - {0}, {2} + 3])",
        },
    ],
)
def test_a_scope_that_does_just_that_is_recognised(changes: dict[str, str]) -> None:
    text = MATMUL
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    kernel = dojoir.parse(text)
    assert [str(m) for m in dojoir.moves(kernel) if m.name == "use_instr"] == ["use_instr(0.0.0, avx512_fmadd1_ps)"]
    after = dojoir.apply(kernel, "use_instr(@j, avx512_fmadd1_ps)")
    assert "use(avx512_fmadd1_ps)" in dojoir.to_text(after)
    assert dojoir.apply(after, "unuse_instr(@j)") == kernel
    assert not [m for m in dojoir.candidates(after) if m.name == "use_instr"]
    assert dojoir.parse(dojoir.to_text(after)) == after


FMA = "fma(x[{0}, {1}], w[{1}, {2} + 16], y[{0}, {2}])"

NEAR_MISSES = {
    "extent": ({"16 @j": "8 @j"}, "runs 8 times"),
    "open extent": ({"16 @j": "min(16, N) @j"}, "runs min(16, N) times"),
    "type of an operand": ({"in    w: f32": "in    w: f16"}, "f16"),
    "type of all": ({"f32": "f64"}, "f64"),
    "stride 2": ({"w[{1}, {2} + 16]": "w[{1}, 2*{2}]"}, "moves 2 elements"),
    "stride -1": ({"w[{1}, {2} + 16]": "w[{1}, 31 - {2}]"}, "moves -1 elements"),
    "column of a matrix": (
        {"in    w: f32[K, 32]": "in    w: f32[32, 32]", "w[{1}, {2} + 16]": "w[{2}, 0]"},
        "moves 32 elements",
    ),
    "padded": (
        {"in    w: f32[K, 32]": "in    w: f32[32, 1] pad(0, 1)", "w[{1}, {2} + 16]": "w[{2}, 0]"},
        "moves 2 elements",
    ),
    "open stride": (
        {"in    w: f32[K, 32]": "in    w: f32[32, K]", "w[{1}, {2} + 16]": "w[{2}, {1}]"},
        "not constant",
    ),
    "the same element": ({"w[{1}, {2} + 16]": "w[{1}, 3]"}, "moves 0 elements"),
    "a vector for a scalar": ({"x[{0}, {1}]": "w[{1}, {2}]"}, "moves 1 element"),
    "aliased operand": ({"w[{1}, {2} + 16]": "y[0, {2} + 16]"}, "`y` would be both"),
    "aliased scalar": ({"x[{0}, {1}]": "y[0, 20]"}, "`y` would be both"),
    "other element": ({", y[{0}, {2}])": ", y[{0}, {2} + 1])"}, "y"),
    "other operation": ({f"= {FMA}": "= x[{0}, {1}] * w[{1}, {2}]"}, "operation"),
    "rounded twice": ({f"= {FMA}": "+= x[{0}, {1}] * w[{1}, {2}]"}, "operation"),
    "one more statement": ({"16 @j\n": "16 @j\n| | | y[{0}, {2}] += 1\n"}, "2 children"),
    "a guard": ({"| | | y[": "| | | if {2} < K\n| | | | y["}, "guard"),
    "lanes around": ({"N\n| K": "N : v\n| K"}, "inside another one marked `v`"),
    "gather": (
        {"in    w: f32[K, 32]": "in    w: f32[K, 32]\nin    i: i32[16]", "w[{1}, {2} + 16]": "w[{1}, i[{2}]]"},
        "gather",
    ),
    "quasi-affine": ({"w[{1}, {2} + 16]": "w[{1}, {2} % 8]"}, "does not grow"),
    "cores inside": ({"16 @j": "16 : p @j"}, "marked `p`"),
}  # fmt: skip


@pytest.mark.parametrize("what", NEAR_MISSES)
def test_a_near_miss_is_refused_with_the_reason(what: str) -> None:
    changes, reason = NEAR_MISSES[what]
    text = MATMUL
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    kernel = dojoir.parse(text)
    move = dojoir.parse_move("use_instr(0.0.0, avx512_fmadd1_ps)")
    with pytest.raises(DojoError) as caught:
        dojoir.apply(kernel, move)
    message = caught.value.diagnostic.message
    assert reason in message
    assert "avx512_fmadd1_ps" in message
    hint = "use(avx512_fmadd1_ps)"
    hinted = text.replace(" : p @j", f" : p, {hint}").replace(" @j", f" : {hint}")
    with pytest.raises(KernelError):
        dojoir.prove(dojoir.parse(hinted))


def test_the_hint_of_a_wrong_scope_is_an_error_with_its_place_and_cure() -> None:
    text = MATMUL.replace("16 @j", "8 : use(avx512_fmadd1_ps)")
    with pytest.raises(KernelError) as caught:
        dojoir.prove(dojoir.parse(text))
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "not-this-instruction"
    assert "unuse_instr(0.0.0)" in diagnostic.message
    assert diagnostic.span is not None
    assert diagnostic.source is not None
    line = diagnostic.source.line(diagnostic.span.line)
    assert line[diagnostic.span.column - 1 : diagnostic.span.end - 1] == "use(avx512_fmadd1_ps)"


def test_values_that_live_in_the_scope_alone_have_no_place() -> None:
    text = """kernel f()
in  a: f32[16]
in  b: f32[16]
out y: f32
tmp d: f32[16]
y = 0
16
| d[{0}] = fma(a[{0}], b[{0}], d[{0}])
"""
    kernel = dojoir.parse(text)
    verdict = dojoir.check(kernel.evolve(body=kernel.body[:1]), "use_instr(0, avx512_fmadd_ps)")
    assert not verdict
    assert not [m for m in dojoir.candidates(kernel) if m.name == "use_instr"]


@pytest.mark.parametrize("fp", ["strict", "reassoc", "fast"])
def test_an_instruction_takes_no_more_freedom_than_the_kernel_gives(fp: str) -> None:
    order = ["strict", "reassoc", "fast"]
    for name in NAMES:
        instruction = instructions.load(name)
        kernel = instruction.body.evolve(name="f", fp=fp)
        allowed = order.index(instruction.body.fp) <= order.index(fp)
        verdict = dojoir.check(kernel, f"use_instr(0, {name})")
        assert bool(verdict) == allowed, name
        if not allowed:
            assert f"as `fp {instruction.body.fp}` allows" in str(verdict)


@pytest.mark.parametrize(
    ("move", "code"),
    [("split(@j, 4)", "hinted-scope"), ("swap_scopes(0.0)", "not-this-instruction"), ("unroll(@j)", "legal"),
     ("parallelize(@j)", "not-this-instruction"), ("cut(@j, 4)", "not-this-instruction"),
     ("peel(@j)", "not-this-instruction"), ("use_instr(@j, avx512_fmadd_ps)", "no-change"),
     ("prefetch(@j, w, 16)", "lost-hint"), ("vectorize(0.0)", "not-this-instruction"), ("swap_scopes(0)", "legal")],
)  # fmt: skip
def test_what_other_moves_do_to_it(move: str, code: str) -> None:
    kernel = dojoir.parse(MATMUL.replace("16 @j", "16 : use(avx512_fmadd1_ps) @j"))
    verdict = dojoir.check(kernel, move)
    assert verdict.code in {code, "shared-element" if code != "legal" else code}, str(verdict)


def test_an_unknown_instruction_is_told_with_the_nearest() -> None:
    verdict = dojoir.check(dojoir.parse(MATMUL), "use_instr(@j, avx512_fmad_ps)")
    assert verdict.code == "unknown-instruction"
    assert "did you mean 'avx512_fmadd_ps'" in str(verdict)
    with pytest.raises(KernelError, match="did you mean") as caught:
        dojoir.parse(MATMUL.replace("16 @j", "16 : use(avx512_fmad_ps)"))
    assert caught.value.diagnostic.code == "unknown-instruction"


def test_a_scalar_result_in_a_variable() -> None:
    text = """kernel f(N)
in  x: f32[N, 16]
out y: f32[N]
tmp s: f32[N~] reg

N : p
| s[{0}] = 0
| 16 : use(avx512_reduce_add_ps)
| | s[{0}] += x[{0}, {1}]
| y[{0}] = s[{0}]
"""
    kernel = dojoir.parse(text)
    x = np.random.default_rng(0).integers(-9, 9, (5, 16)).astype(np.float32)
    for target in ("llvm", "c"):
        if target == "c":
            toolchain()
        assert np.array_equal(dojoir.compile(kernel, target).run({"x": x})["y"], x.sum(1))


def test_words_of_an_instruction_are_no_names_of_the_program() -> None:
    text = str(instructions.load("avx512_dpbusd1").body).replace("a: u8", "four: u8").replace("a[", "four[")
    kernel = dojoir.apply(dojoir.parse(text.replace("avx512_dpbusd1()", "f()")), "use_instr(0, avx512_dpbusd1)")
    source = dojoir.emit(kernel, "c")
    assert "memcpy(&four, &four_[0], 4)" in source


# -- files -------------------------------------------------------------------------------------------------
OWN = """# A user's own.
needs    avx512f
c        mine({d}, {a})

kernel mine_add()
fp strict
in    a: f32[4]
inout d: f32[4]

4
| d[{0}] += a[{0}]
"""


def test_a_file_of_one_s_own_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_add.dojo").write_text(OWN)
    monkeypatch.setenv("DOJOIR_INSTRUCTIONS", str(tmp_path))
    assert "mine_add" in instructions.names()
    assert instructions.load("mine_add") == instructions.load(tmp_path / "mine_add.dojo")
    kernel = dojoir.parse("kernel f()\nin x: f32[4]\nout y: f32[4]\n4\n| y[{0}] = 0\n4\n| y[{0}] += x[{0}]\n")
    assert "use_instr(1, mine_add)" in [str(move) for move in dojoir.moves(kernel)]
    after = dojoir.apply(kernel, "use_instr(1, mine_add)")
    assert "mine(&y[0], &x[0]);" in dojoir.emit(after, "c")
    assert pickle.loads(pickle.dumps(after)) == after


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("c        mine({d}, {a})", "c        mine({d}, {b})", "{b} is no operand"),
        ("c        mine({d}, {a})", "c        mine({d}, {a}, {a.swizzle})", "{a.swizzle} is no operand"),
        ("c        mine({d}, {a})", "c        mine({d})", "{a} is not in this line"),
        ("c        mine({d}, {a})", "", "how it is spelled"),
        ("c        mine({d}, {a})", "cc       mine({d}, {a})", "no line 'cc' here"),
        ("c        mine({d}, {a})", "llvm     f({d}, {a})", "an LLVM call is written"),
        ("needs    avx512f", "needs    avx512f\nneeds    fma", "stands here twice"),
        ("kernel mine_add()", "kernel mine_add(N)", "sizes of an instruction are fixed"),
        ("4\n| d[{0}] +=", "4 : v\n| d[{0}] +=", "no marks"),
        ("4\n| d[{0}] +=", "4 : use(mine_add)\n| d[{0}] +=", "no hints"),
        ("4\n| d[{0}] +=", "3\n| d[{0}] +=", "does not use all elements"),
        ("inout d: f32[4]", "inout d: f32[4]\ntmp   t: f32[4]", "only operands"),
        ("| d[{0}] += a[{0}]", "| if {0} < 2\n| | d[{0}] += a[{0}]", "no guards"),
        ("| d[{0}] += a[{0}]", "| d[{0}] += a[{0}]\n4\n| d[{0}] += 1", "is one scope"),
        ("| d[{0}] += a[{0}]", "| d[{0}] += a[{0}", "']'"),
    ],
)
def test_a_file_that_is_wrong_is_told_with_the_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in OWN
    path = tmp_path / "mine_add.dojo"
    path.write_text(OWN.replace(old, new))
    with pytest.raises((ParseError, KernelError), match="error") as caught:
        instructions.load(path)
    assert message in caught.value.diagnostic.message
    assert caught.value.diagnostic.span is not None


def test_files_that_are_not_there() -> None:
    for name in ("nothing", "/nowhere/nothing.dojo"):
        with pytest.raises(ArgumentError):
            instructions.load(name)


def test_bodies_read_what_they_write_in_one_place() -> None:
    for name in NAMES:
        instruction = instructions.load(name)
        assert isinstance(instruction.scope, Scope)
        written = {site.statement.target.buffer for site in instruction.body.sites}
        read = {a.buffer for site in instruction.body.sites for a in site.statement.reads}
        assert written == {n for n, b in instruction.operands.items() if b.role != "in"}
        assert read | written == set(instruction.operands)


FAMILY = OWN.replace("mine_add", "mine_TYPE_add").replace("f32", "TYPE")


def test_a_file_of_several_instructions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOJOIR_INSTRUCTIONS", str(tmp_path))
    (tmp_path / "mine_TYPE_add.dojo").write_text(f"each TYPE f32 f64\n{FAMILY}")
    assert {"mine_f32_add", "mine_f64_add"} <= {
        *instructions.names()
    } and "mine_TYPE_add" not in instructions.names()
    for name in ("f32", "f64"):
        assert instructions.load(f"mine_{name}_add").operands["d"].dtype.name == name


@pytest.mark.parametrize(
    ("stem", "line", "message"),
    [
        ("mine_add", "each TYPE f32 f64", "a word that the name of the file has to have"),
        ("mine_TYPE_add", "each TYPE f32 f64", "load one by its name, of mine_f32_add, mine_f64_add"),
        ("mine_TYPE_add", "each TYPE", "is written `each WORD VALUE VALUE …`"),
    ],
)
def test_a_family_that_is_wrong_is_told(tmp_path: Path, stem: str, line: str, message: str) -> None:
    path = tmp_path / f"{stem}.dojo"
    path.write_text(f"{line}\n{FAMILY}")
    with pytest.raises(DojoError) as told:
        instructions.load(path)
    assert message in told.value.diagnostic.message
