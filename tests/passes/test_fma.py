"""Products that are added and rounded once: to_fma, its inverse, and accumulations that are fused."""

from __future__ import annotations

import re
import subprocess
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from inverses import taken_back

import dojoir
from dojoir.backends.host import native
from dojoir.ir.nodes import Kernel, Scope, Statement
from dojoir.ir.text import canonical_text
from dojoir.proof.check import compare, identity, is_exact
from dojoir.runtime.build import c_toolchain

MATMUL = """kernel matmul(N, M, K)
in  a: f32[N, K]
in  b: f32[K, M]
out c: f32[N, M]
N @i
| M @j
| | c[{0}, {1}] = 0
| | K @k
| | | c[{0}, {1}] = fma(a[{0}, {2}], b[{2}, {1}], c[{0}, {1}])
"""

HEAD = """kernel f(N)
in  a: f32[N]
in  b: f32[N]
in  c: f32[N]
in  d: f64[N]
in  g: i32[N]
inout x: f32[N]
inout z: f64[N]
inout n: i32[N]
inout h: f16[N]
N
"""


def kernel(statement: str, fp: str = "reassoc") -> Kernel:
    made = dojoir.parse(HEAD + f"| {statement}\n").with_fp(fp)
    dojoir.prove(made)
    return made


# -- the statement -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "accumulation", "term"),
    [
        ("x[{0}] = fma(a[{0}], b[{0}], x[{0}])", "+=", "a[{0}] * b[{0}]"),
        ("x[{0}] += a[{0}] * b[{0}]", "+=", "a[{0}] * b[{0}]"),
        ("x[{0}] max= a[{0}]", "max=", "a[{0}]"),
        ("x[{0}] = fma(a[{0}], b[{0}], c[{0}])", None, "fma(a[{0}], b[{0}], c[{0}])"),
        ("x[{0}] = fma(x[{0}], b[{0}], c[{0}])", None, "fma(x[{0}], b[{0}], c[{0}])"),
        ("x[0] = fma(a[{0}], b[{0}], x[{0}])", None, "fma(a[{0}], b[{0}], x[{0}])"),
    ],
)
def test_what_a_statement_accumulates(text: str, accumulation: str | None, term: str) -> None:
    statement = kernel(text).sites[0].statement
    assert statement.accumulation == accumulation
    shown = str(kernel(f"x[{{0}}] = {term}")).splitlines()[-1]
    assert dojoir.to_text(kernel("x[{0}] = 0").replace_node(
        (0, 0), Statement(kernel("x[{0}] = 0").sites[0].statement.target, "=", statement.term)
    )).splitlines()[-1] == shown  # fmt: skip


# -- the moves -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("before", "part", "after"),
    [
        ("x[{0}] += a[{0}] * b[{0}]", 0, "x[{0}] = fma(a[{0}], b[{0}], x[{0}])"),
        ("x[{0}] += 2 * x[{0}]", 0, "x[{0}] = fma(2, x[{0}], x[{0}])"),
        ("h[{0}] += h[{0}] * a[{0}]", 0, "h[{0}] = fma(h[{0}], a[{0}], h[{0}])"),
        ("z[{0}] += d[{0}] * a[{0}]", 0, "z[{0}] = fma(d[{0}], a[{0}], z[{0}])"),
        ("x[{0}] = a[{0}] * b[{0}] + c[{0}]", 0, "x[{0}] = fma(a[{0}], b[{0}], c[{0}])"),
        ("x[{0}] = c[{0}] + a[{0}] * b[{0}]", 0, "x[{0}] = fma(a[{0}], b[{0}], c[{0}])"),
        ("x[{0}] = a[{0}] * b[{0}] - c[{0}]", 0, "x[{0}] = fma(a[{0}], b[{0}], -c[{0}])"),
        ("x[{0}] = c[{0}] - a[{0}] * b[{0}]", 0, "x[{0}] = fma(-a[{0}], b[{0}], c[{0}])"),
        ("x[{0}] = c[{0}] - 2 * b[{0}]", 0, "x[{0}] = fma(-2, b[{0}], c[{0}])"),
        ("x[{0}] = a[{0}] * b[{0}] + b[{0}] * c[{0}]", 0, "x[{0}] = fma(a[{0}], b[{0}], b[{0}] * c[{0}])"),
        ("x[{0}] += c[{0}] + a[{0}] * b[{0}]", 0, "x[{0}] += fma(a[{0}], b[{0}], c[{0}])"),
        ("x[{0}] = exp(1 + a[{0}] * b[{0}])", 1, "x[{0}] = exp(fma(a[{0}], b[{0}], 1))"),
        ("x[{0}] = a[{0}] * b[{0}] + 1 + c[{0}]", 1, "x[{0}] = fma(a[{0}], b[{0}], 1) + c[{0}]"),
    ],
)
def test_to_fma(before: str, part: int, after: str) -> None:
    start = kernel(before)
    made = dojoir.apply(start, f"to_fma(0.0, {part})")
    assert canonical_text(made) == canonical_text(kernel(after))
    assert taken_back(start, dojoir.parse_move(f"to_fma(0.0, {part})")) == "to_fma"
    assert f"to_fma(0.0, {part})" in map(str, dojoir.moves(start))
    assert not is_exact(start, made, identity(start))
    strict = dojoir.check(start.with_fp("strict"), f"to_fma(0.0, {part})")
    assert strict.code == "needs-reassoc"
    assert not compare(start.with_fp("strict"), made.with_fp("strict"), identity(start))


@pytest.mark.parametrize(
    ("before", "move", "code"),
    [
        ("n[{0}] += g[{0}] * g[{0}]", "to_fma(0.0, 0)", "no-product"),
        ("z[{0}] += a[{0}] * b[{0}]", "to_fma(0.0, 0)", "no-product"),
        ("z[{0}] = d[{0}] + a[{0}] * b[{0}]", "to_fma(0.0, 0)", "no-product"),
        ("x[{0}] = a[{0}] + b[{0}]", "to_fma(0.0, 0)", "no-product"),
        ("x[{0}] = a[{0}] * b[{0}] + c[{0}]", "to_fma(0.0, 9)", "no-product"),
        ("x[{0}] = a[{0}] * b[{0}] + x[{0}]", "to_fma(0.0, 0)", "accumulates"),
        ("x[{0}] = a[{0}]", "to_fma(0, 0)", "not-a-statement"),
        ("x[{0}] = a[{0}]", "from_fma(0.0, 0, product_first)", "no-fma"),
        ("x[{0}] = fma(a[{0}], b[{0}], c[{0}])", "from_fma(0.0, 0, accumulate)", "no-accumulation"),
        ("x[{0}] = fma(a[{0}], b[{0}], c[{0}])", "from_fma(0.0, 0, backwards)", "unknown-form"),
        ("z[{0}] = fma(a[{0}], b[{0}], d[{0}])", "from_fma(0.0, 0, product_first)", "another-form"),
        ("z[{0}] = fma(a[{0}], b[{0}], z[{0}])", "from_fma(0.0, 0, accumulate)", "another-form"),
        ("x[{0}] = fma({0}, 2, c[{0}])", "from_fma(0.0, 0, product_first)", "another-form"),
        ("x[{0}] = fma(a[{0}], b[{0}], c[{0}] * c[{0}])", "from_fma(0.0, 0, product_last)", "another-form"),
    ],
)
def test_what_to_fma_refuses(before: str, move: str, code: str) -> None:
    assert dojoir.check(kernel(before), move).code == code


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("x[{0}] += a[{0}] * b[{0}]", "x[{0}] = fma(a[{0}], c[{0}], x[{0}])", id="another factor"),
        pytest.param("x[{0}] += a[{0}] * b[{0}]", "x[{0}] = fma(a[{0}], b[{0}], c[{0}])", id="another sum"),
        pytest.param("x[{0}] += a[{0}] * b[{0}]", "x[0] = fma(a[{0}], b[{0}], x[0])", id="another element"),
        pytest.param("x[{0}] = c[{0}] - a[{0}] * b[{0}]", "x[{0}] = fma(a[{0}], b[{0}], c[{0}])", id="a sign"),
        pytest.param("x[{0}] = a[{0}] * b[{0}] - c[{0}]", "x[{0}] = fma(a[{0}], b[{0}], c[{0}])", id="sign of c"),
        pytest.param("x[{0}] = a[{0}] + b[{0}] * c[{0}]", "x[{0}] = fma(a[{0}], b[{0}], c[{0}])", id="a product"),
        pytest.param("z[{0}] += a[{0}] * b[{0}]", "z[{0}] = fma(a[{0}], b[{0}], z[{0}])", id="a wider type"),
        pytest.param("x[{0}] *= a[{0}] * b[{0}]", "x[{0}] = fma(a[{0}], b[{0}], x[{0}])", id="another operator"),
    ],
)
def test_the_checker_refuses_another_meaning(old: str, new: str) -> None:
    before, after = kernel(old), kernel(new)
    assert compare(before, after, identity(before)).status == "illegal"
    assert compare(after, before, identity(after)).status == "illegal"


# -- what a fused accumulation may do ------------------------------------------------------------------------
QUICK = {"seeds": (0,), "distributions": ("normal",)}

ORDERS = [
    ["vectorize(@k)"],
    ["split_scopes(@j, 1)", "split_scopes(@i, 1)", "swap_scopes(1.0)", "vectorize(1.0.0)"],
    ["split_reduction(@k, c, p, 4)"],
    ["stage(@k, c, t, inout)", "split(@k, 4)"],
    ["split_scopes(@j, 1)", "split_scopes(@i, 1)", "swap_scopes(1.0)", "swap_scopes(1)", "parallelize(1.0)"],
]


@pytest.mark.parametrize("moves", ORDERS, ids=lambda moves: moves[0])
def test_its_order_is_free(moves: list[str]) -> None:
    start = dojoir.parse(MATMUL)
    trace = dojoir.Trace(start)
    for move in moves:
        before = trace.kernel
        trace.apply(move)
        assert taken_back(before, trace.moves[-1]) == trace.moves[-1].name
    assert any(site.statement.fused for site in trace.kernel.sites)
    assert dojoir.certify(trace)
    plain = dojoir.apply(start, "from_fma(0.0.1.0, 0, accumulate)")
    for target in ("llvm", "c") if moves == ORDERS[0] else ("llvm",):
        report = dojoir.verify(trace.kernel, plain, target=target, **QUICK, sizes=[{"N": 3, "M": 37, "K": 20}])
        assert report.ok, str(report)


def test_its_order_counts_under_strict() -> None:
    strict = dojoir.parse(MATMUL).with_fp("strict")
    assert not dojoir.check(strict, "vectorize(@k)")
    assert not dojoir.check(strict, "split_reduction(@k, c, p, 4)")
    assert dojoir.check(strict, "split(@k, 4)")


def test_the_same_moves_are_legal_before_and_after() -> None:
    fused = dojoir.parse(MATMUL)
    plain = dojoir.apply(fused, "from_fma(0.0.1.0, 0, accumulate)")
    listed = {str(m): m for k in (plain, fused) for m in dojoir.candidates(k)}
    for text, move in listed.items():
        if text.startswith("extract_subexpression(0.0.1.0, 0,"):  # a fused product has no value of its own
            assert dojoir.check(plain, move)
            assert dojoir.check(fused, move).code == "changed-operation"
        elif "fma" not in move.name and move.name != "stream":  # the text of one reads what would bypass the caches
            assert bool(dojoir.check(plain, move)) == bool(dojoir.check(fused, move)), text


def test_it_needs_a_value_to_begin_with() -> None:
    text = "kernel f(N)\nin a: f32[N]\nout s: f32\nN\n| s = fma(a[{0}], 2, s)\n"
    with pytest.raises(dojoir.KernelError, match="`s = 0` before"):
        dojoir.prove(dojoir.parse(text))


def test_it_rounds_once() -> None:
    plain = kernel("x[{0}] += a[{0}] * b[{0}]")
    fused = dojoir.apply(plain, "to_fma(0.0, 0)")
    tiny = np.float32(2.0**-13)
    one = np.ones(1, np.float32)
    given = {"a": one + tiny, "b": one - tiny, "x": -one, "c": one, "d": np.ones(1), "g": np.ones(1, np.int32),
             "z": np.ones(1), "n": np.ones(1, np.int32), "h": np.ones(1, np.float16)}  # fmt: skip
    assert dojoir.interpret(plain, given)["x"][0] == 0
    assert dojoir.interpret(fused, given)["x"][0] == -(tiny**2)
    for target in ("llvm", "c"):
        assert dojoir.compile(fused, target).run(given)["x"][0] == -(tiny**2)


# -- what it becomes -----------------------------------------------------------------------------------------
def tile() -> Kernel:
    """A product of matrices by tiles of 8 rows and 32 columns that stay in registers, each step one fma."""
    text = MATMUL.replace("kernel matmul(N, M, K)", "kernel matmul(N = 64, M = 64, K)")
    trace = dojoir.Trace(dojoir.apply(dojoir.parse(text), "from_fma(0.0.1.0, 0, accumulate)"))
    for move in (
        "split_scopes(@j, 1)", "split_scopes(@i, 1)", "tile(1, 1.0, 8, 32)", "swap_scopes(1.0.0.0)",
        "swap_scopes(1.0.0)", "stage(1.0.0, c, t, inout)", "place(t, reg)", "unroll(1.0.1.0)",
        "vectorize(1.0.1.0.0)", "to_fma(1.0.1.0.0.0, 0)",
    ):  # fmt: skip
        trace.apply(move)
    return trace.kernel


def inner_loop(assembly: str) -> str:
    """The lines between the first and the last fused operation."""
    lines = assembly.splitlines()
    found = [n for n, line in enumerate(lines) if "vfmadd" in line]
    assert found, assembly
    return "\n".join(lines[found[0] : found[-1] + 1])


def test_a_register_tile_is_fused_operations_in_llvm() -> None:
    binding = pytest.importorskip("llvmlite.binding")
    features = binding.get_host_cpu_features()
    if not (binding.get_default_triple().startswith("x86_64") and features.get("fma")):
        pytest.skip("the names of instructions are those of x86")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=features.flatten(), opt=3
    )
    assembly = machine.emit_assembly(binding.parse_assembly(dojoir.emit(tile(), "llvm")))
    body = inner_loop(assembly)
    assert len(re.findall(r"vfmadd\w*ps\b", body)) >= 16
    assert "vmulps" not in body


def test_a_register_tile_is_fused_operations_in_c(tmp_path: Path) -> None:
    compiler = c_toolchain.find()
    if f"-march={native()}" not in compiler.options:
        pytest.skip("the compiler knows no processor of its own")
    source, out = tmp_path / "tile.c", tmp_path / "tile.s"
    source.write_text(dojoir.emit(tile(), "c"))
    assert "fmaf(" in source.read_text()
    subprocess.run([*compiler.command, *compiler.options, "-S", str(source), "-o", str(out)], check=True)
    assembly = out.read_text()
    if "x86-64" not in assembly and "vmovups" not in assembly:
        pytest.skip("the names of instructions are those of x86")
    body = inner_loop(assembly)
    assert len(re.findall(r"vfmadd\w*ps\b", body)) >= 16
    assert "call" not in body


def test_the_tile_means_the_same() -> None:
    made = tile()
    assert any(isinstance(node, Scope) and "v" in node.marks for _, node in made.walk())
    plain = dojoir.parse(MATMUL.replace("kernel matmul(N, M, K)", "kernel matmul(N = 64, M = 64, K)"))
    report = dojoir.verify(made, plain, **QUICK, sizes=[{"K": 1}, {"K": 19}])
    assert report.ok, str(report)


def test_sums_of_products_are_the_same_only_where_they_are() -> None:
    """Every way to write a sum of a product and a third element, against every other."""
    forms = {"S + P * Q": 1, "P * Q + S": 1, "fma(P, Q, S)": 1, "S - P * Q": -1}
    meanings: dict[Kernel, tuple[str, frozenset[str], int]] = {}
    for form, sign in forms.items():
        for order in permutations("abc"):
            names = dict(zip("SPQ", order, strict=True))
            text = "".join(f"{names[letter]}[{{0}}]" if letter in names else letter for letter in form)
            meanings[kernel(f"x[{{0}}] = {text}")] = (order[0], frozenset(order[1:]), sign)
    legal = 0
    for old, what in meanings.items():
        for new, other in meanings.items():
            verdict = compare(old, new, identity(old))
            legal += bool(verdict)
            assert not verdict or what == other, f"{new} for {old}"
    assert len(meanings) == 24 and legal > 24  # more than each for itself
