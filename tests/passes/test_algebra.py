"""The rules of algebra are true, and a use of one is nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
import symbolic
import sympy
from drawing.embedded import ROOM, embedded
from folders import ROOT
from inverses import taken_back

import dojoir
from dojoir import rules
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import BOOL, DTYPES, DType
from dojoir.ir.nodes import Access, Const, Extent, Kernel, Scope, Statement, format_path
from dojoir.ir.text import to_text
from dojoir.proof.check import compare, is_exact
from dojoir.proof.core.same_sums import adds_the_same
from dojoir.rules.rule import Rule, RuleUse

RULES = [rules.load(name) for name in rules.names()]
all_rules = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


# -- what a rule is ------------------------------------------------------------------------------------------
@all_rules
def test_both_sides_are_kernels_of_one_kind(rule: Rule) -> None:
    for side in (rule.left, rule.right):
        dojoir.prove(side)
        assert side.fp in {"reassoc", "fast"}
    assert rule.left.fp == rule.right.fp
    for side in (rule.left, rule.right):
        assert {b.dtype.name for b in side.buffers} == {"f32"}
    assert (rule.left.name, rule.left.sizes, rule.left.arguments) == (
        rule.name, rule.right.sizes, rule.right.arguments)  # fmt: skip
    assert all(b in rule.right.buffers for b in rule.left.buffers)
    for name in rule.fresh:  # of extents that are the same in all iterations around a use
        dims = [str(dim.extent) for dim in rule.right.buffer(name).dims]
        assert all(rule.reach[dim] == 0 for dim in dims)
    for side in (rule.left, rule.right):
        read = {access.buffer for site in side.sites for access in site.statement.reads}
        assert read.issuperset(rule.inputs)
        assert {str(s.extent.bounds[0]) for _, s in side.walk() if isinstance(s, Scope)} == {
            s.name for s in rule.left.sizes
        }
    for buffer in rule.left.buffers:  # an extent that depends on iterators says so of those before it
        names = [str(dim.extent) for dim in buffer.dims]
        assert all(rule.reach[name] in (0, at) for at, name in enumerate(names))
    assert rules.source(rule.name).startswith("# ")


def test_the_reference_names_every_rule() -> None:
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert [name for name in rules.names() if f"`{name}`" not in page] == []


def some_sizes(rule: Rule) -> Iterator[symbolic.Sizes]:
    """Sizes from 0 (1 where a statement uses them) to 2 or 3, and uneven ones where a rule allows them."""
    names = [size.name for size in rule.left.sizes]
    for values in product(range(4 if len(names) < 3 else 3), repeat=len(names)):
        chosen = dict(zip(names, values, strict=True))
        if all(chosen[name] for name in rule.numbers):
            yield {name: (lambda at, value=value: value) for name, value in chosen.items()}
    for uneven in ((0, 2, 1), (2, 0, 1), (0, 0, 2), (1, 2, 0)) if any(rule.reach.values()) else ():
        sizes: dict[str, Any] = {name: (lambda at: 2) for name in names} | {names[0]: lambda at: 3}
        yield sizes | {name: lambda at, uneven=uneven: uneven[at[-1]] for name in names if rule.reach[name]}


def equal(left: Any, right: Any) -> bool:
    """Whether two formulas are equal for all real values of their symbols."""
    if left == right:
        return True
    if isinstance(right, sympy.Max) and sympy.Integer(0) in right.args:  # max(r, 0) is r where r is not negative
        (rest,) = (arg for arg in right.args if arg != 0)
        return bool(left.is_nonnegative) and equal(left, rest)
    return bool(sympy.simplify(sympy.expand(left - right)) == 0)


@all_rules
def test_a_rule_holds_over_the_real_numbers(rule: Rule) -> None:
    count = 0
    for sizes in some_sizes(rule):
        left, right = symbolic.run(rule.left, sizes), symbolic.run(rule.right, sizes)
        for place in left:
            if place[0] in rule.results:
                count += 1
                assert equal(left[place], right[place]), f"{place}: {left[place]} is not {right[place]}"
        written = [{place for place in side if place[0] in rule.results} for side in (left, right)]
        assert written[0] == written[1]
    assert count > 0


def test_a_wrong_rule_does_not_hold() -> None:
    rule = rules.load("online_softmax_blocks")
    wrong = dojoir.parse(to_text(rule.right).replace("s = s * exp(m - z)", "s = s * exp(z - m)"))
    sizes: symbolic.Sizes = {"K": lambda at: 2, "B": lambda at: 1}
    left, right = symbolic.run(rule.left, sizes), symbolic.run(wrong, sizes)
    assert not equal(left["s", ()], right["s", ()])


def in_f64(kernel: Kernel) -> Kernel:
    return dojoir.parse(to_text(kernel).replace("f32", "f64"))


def some_inputs(kernel: Kernel, sizes: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Random values; large ones; all equal; and, for exponentials, a first half of -inf."""
    random = np.random.default_rng(sum(sizes.values()))
    shapes = {b.name: [d.extent.evaluate(sizes) for d in b.dims] for b in kernel.arguments if b.role != "out"}
    for scale in (1.0, 50.0):
        yield {
            name: scale * random.standard_normal(shape) if shape else random.uniform(-0.5, 0.5) + 1 / scale
            for name, shape in shapes.items()
        }
    yield {name: np.full(shape, 1.5) for name, shape in shapes.items()}
    if "exp(" in to_text(kernel):
        yield {name: _beginning_with_nothing(random.standard_normal(shape), name) for name, shape in shapes.items()}


def _beginning_with_nothing(values: Any, name: str) -> Any:
    values = np.array(np.abs(values))
    if name == "x" and values.size > 1:
        values.reshape(-1)[: (values.size + 1) // 2] = -np.inf
        values.reshape(-1)[-1] = 1.0
    return values


@all_rules
def test_a_rule_holds_when_it_is_run(rule: Rule) -> None:
    names = [size.name for size in rule.left.sizes]
    left, right = in_f64(rule.left), in_f64(rule.right)
    for values in [*product((1, 2), repeat=len(names)), (3,) * len(names), (7, 5, 4)[: len(names)]]:
        sizes = dict(zip(names, values, strict=True))
        for inputs in some_inputs(left, sizes):
            old, new = (dojoir.interpret(side, inputs, **sizes) for side in (left, right))
            largest = max(float(np.max(np.abs(v), where=np.isfinite(v), initial=1.0)) for v in inputs.values())
            for name, value in old.items():
                assert np.all(np.isfinite(value)), (sizes, inputs)
                room = 1e-14 * (largest * np.prod(values, initial=1)) ** 2  # of the squares that cancel
                assert np.allclose(value, new[name], rtol=1e-12, atol=room), (sizes, inputs, value, new[name])


# -- uses ----------------------------------------------------------------------------------------------------
USES = {
    "softmax": [
        "join_scopes(@i, @r)", "split_scopes(@k, 1)", "inline(0.4.0, e)", "inline(0.5.0, e)",
        "delete_temporary(e)", "use_rule(0.0, online_softmax, n, z)", "use_rule(@l, reciprocal, r)",
    ],
    "log_softmax": ["use_rule(0.0, online_softmax, n, z)"],
    "cross_entropy": ["split(@j, 4)", "split(@k, 4)", "use_rule(1.0, online_softmax_blocks, n, z)"],
    "layernorm": ["use_rule(0.0, one_pass_moments)"],
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_a_rule_on_a_kernel_of_the_library(name: str) -> None:
    start = dojoir.kernels.load(name).with_fp("fast")
    trace = dojoir.Trace(start)
    for move in USES[name]:
        before = trace.kernel
        trace.apply(move)
        if "rule" in move:
            assert taken_back(before, trace.moves[-1]) == "use_rule"
    assert dojoir.certify(trace)
    report = dojoir.verify(trace.kernel, start, seeds=(0,))
    assert report.ok, str(report)


@all_rules
def test_a_rule_inside_random_kernels(rule: Rule) -> None:
    for seed in range(3 if rule.scratch else 10):
        random = Random(f"{rule.name} {seed}")
        kernel, path = embedded(rule, random)
        dojoir.prove(kernel)
        assert dojoir.parse(to_text(kernel)) == kernel
        listed = (
            m for m in dojoir.candidates(kernel) if str(m).startswith(f"use_rule({format_path(path)}, {rule.name}")
        )
        step = dojoir.parse_move(f"use_rule({format_path(path)}, {rule.name})")
        move = step if rule.is_step else next(listed)  # a step is listed only in a scope that takes it on
        verdict = dojoir.check(kernel, move)
        assert verdict, f"{kernel}\n{verdict}"
        assert taken_back(kernel, move) == "use_rule"
        values = np.random.default_rng(seed)
        given = {b.name: values.uniform(0.5, 2.0, [ROOM] * len(b.dims)) for b in kernel.arguments}
        old, new = (dojoir.interpret(k, given) for k in (kernel, dojoir.apply(kernel, move)))
        for name, value in old.items():
            assert np.allclose(value, new[name], rtol=1e-10, atol=1e-12), f"{kernel}\n{move}\n{name}"


NUMBERS = [dtype for dtype in DTYPES.values() if dtype != BOOL]


@all_rules
def test_a_rule_in_every_type_gives_a_text_that_is_read_again(rule: Rule) -> None:
    """What is legal is well typed, and the same to the bit where nothing rounds."""
    legal: set[str] = set()
    for seed, dtype in product(range(2), NUMBERS):
        random = Random(f"{rule.name} {seed} {dtype}")
        kernel, path = embedded(rule, random, dtype)
        try:
            dojoir.prove(kernel)
        except dojoir.KernelError as error:  # of four bits, or integers under exp
            assert error.diagnostic.code in {"type-operand", "type-mismatch", "bad-packing", "number-range"}, error
            continue
        names = ", ".join((format_path(path), rule.name, *(f"fresh{n}" for n, _ in enumerate(rule.fresh))))
        move = f"use_rule({names})"
        verdict = dojoir.check(kernel, move)
        if not verdict:
            known = {"type-mismatch", "number-range", "no-match"} if dtype.is_integer or dtype.bits < 32 else set()
            assert verdict.code in known, f"{kernel}\n{move}\n{verdict}"
            continue
        legal.add(dtype.name)
        after = dojoir.apply(kernel, move)
        again = dojoir.parse(to_text(after))
        dojoir.prove(again)
        assert again == after, f"{kernel}\n{after}"
        if dtype.is_integer:
            values = np.random.default_rng(seed)
            given = {b.name: any_integers(values, dtype, [ROOM] * len(b.dims)) for b in kernel.arguments}
            old, new = (dojoir.interpret(k, given) for k in (kernel, after))
            assert all(np.array_equal(value, new[name]) for name, value in old.items()), f"{kernel}\n{move}"
    assert {"f32", "f64"} <= legal
    assert rule.fp == "fast" or {"u8", "i8", "u64", "i64"} <= legal


def any_integers(values: np.random.Generator, dtype: DType, shape: list[int]) -> Any:
    return values.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype.stored).reshape(shape)


HEAD = """kernel f(N, M)
fp fast
in  x: f32[N, M]
in  d: f32[N]
in  h: f64[N, M]
in  ids: i32[M]
inout y: f32[N, M]
inout s: f32[N]
"""

ONLINE = """N
| s[{0}] = -inf
| M
| | s[{0}] max= x[{0}, {1}]
| t[{0}] = 0
| M
| | t[{0}] += exp(x[{0}, {1}] - s[{0}])
"""


@pytest.mark.parametrize(
    ("text", "move", "code"),
    [
        pytest.param("N\n| M\n| | y[{0}, {1}] = x[{0}, {1}] / d[{0}]\n", "use_rule(0.0, reciprocal, r)", "legal",
                     id="a quotient of a row"),
        pytest.param("N\n| M\n| | y[{0}, {1}] = x[{0}, {1}] / d[{0}]\n", "use_rule(0, reciprocal, r)", "no-match",
                     id="another place"),
        pytest.param("N\n| M\n| | y[{0}, {1}] = x[{0}, {1}] / x[{0}, {1}]\n", "use_rule(0.0, reciprocal, r)",
                     "no-match", id="a divisor that differs"),
        pytest.param("N\n| M\n| | y[{0}, {1}] = x[{0}, {1}] / y[{0}, 0]\n", "use_rule(0.0, reciprocal, r)",
                     "written-inside", id="a divisor that is overwritten"),
        pytest.param("N\n| M\n| | y[{0}, {1}] = y[{0}, {1}] / d[{0}]\n", "use_rule(0.0, reciprocal, r)",
                     "written-inside", id="in place"),
        pytest.param("N\n| M\n| | y[{0}, 0] = x[{0}, {1}] / d[{0}]\n", "use_rule(0.0, reciprocal, r)",
                     "shared-element", id="one element for all results"),
        pytest.param("N\n| M\n| | y[{0}, {1}] = h[{0}, {1}] / d[{0}]\n", "use_rule(0.0, reciprocal, r)",
                     "type-mismatch", id="operands wider than the result"),
        pytest.param("N\n| M\n| | y[{0}, {1}] = x[{0}, {1}] / x[{0}, ids[0]]\n", "use_rule(0.0, reciprocal, r)",
                     "gathered", id="a divisor at an index from data"),
        pytest.param("N\n| M : v\n| | y[{0}, {1}] = x[{0}, {1}] / d[{0}]\n", "use_rule(0.0, reciprocal, r)",
                     "no-match", id="a scope in lanes"),
        pytest.param("N\n| M\n| | y[{0}, {1}] = x[{0}, {1}] / d[{0}]\n", "use_rule(0.0, reciprocal)", "bad-names",
                     id="too few names"),
        pytest.param("N\n| M\n| | y[{0}, {1}] = x[{0}, {1}] / d[{0}]\n", "use_rule(0.0, reciprocal, x)",
                     "name-taken", id="a name that is taken"),
        pytest.param("N\n| M\n| | y[{0}, {1}] = x[{0}, {1}] / d[{0}]\n", "use_rule(0.0, reciprocals, x)",
                     "unknown-rule", id="no such rule"),
        pytest.param("N\n| s[{0}] = 0\n| M - 1\n| | s[{0}] += d[{0}] * x[{0}, {1}]\n", "use_rule(0.0, factor)",
                     "legal", id="a sum that may be empty"),
        pytest.param("N\n| s[{0}] = 0\n| M\n| | s[{0}] += s[0] * x[{0}, {1}]\n", "use_rule(0.0, factor)",
                     "written-inside", id="a factor that is the sum"),
        pytest.param("tmp t: f32[N]\n" + ONLINE, "use_rule(0.0, online_softmax, n, z)", "legal", id="online"),
        pytest.param("tmp t: f64[N]\n" + ONLINE, "use_rule(0.0, online_softmax, n, z)", "type-mismatch",
                     id="a sum of another type"),
        pytest.param(ONLINE.replace("t[", "s["), "use_rule(0.0, online_softmax, n, z)", "same-buffer",
                     id="the sum where the maximum is"),
        pytest.param(
            "tmp t: f32[N]\ntmp q: f32[N]\nN\n| t[{0}] = 0\n| M - 1\n| | t[{0}] += x[{0}, {1}]\n"
            "| s[{0}] = t[{0}] / (M - 1)\n| q[{0}] = 0\n"
            "| M - 1\n| | q[{0}] += (x[{0}, {1}] - s[{0}]) * (x[{0}, {1}] - s[{0}])\n",
            "use_rule(0.0, one_pass_moments)", "may-not-run", id="the mean of nothing"),
    ],
)  # fmt: skip
def test_what_a_use_of_a_rule_needs(text: str, move: str, code: str) -> None:
    kernel = dojoir.parse(HEAD + text)
    verdict = dojoir.check(kernel, move)
    assert verdict.code == code, str(verdict)
    if code == "legal":
        assert taken_back(kernel, dojoir.parse_move(move)) == "use_rule"
    slower = dojoir.check(kernel.with_fp("reassoc"), move)
    assert not slower
    if code == "legal":
        assert slower.code == "needs-fast"
        assert "`fp fast`" in slower.reason


SCAN = """kernel f(N, M)
in  x: f32[N, M]
inout y: f32[N, M]
out z: f32[N]
tmp s: f32[N]
N
| s[{0}] = 0
| (M + 15) // 16
| | min(16, M - 16*{1})
| | | s[{0}] += x[{0}, 16*{1} + {2}]
| | | y[{0}, 16*{1} + {2}] = s[{0}]
N
| z[{0}] = s[{0}]
"""

USE = "use_rule(0.0, blocked_scan, t, p, r)"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        pytest.param("", "", "legal", id="as it is"),
        pytest.param("in  x", "fp fast\nin  x", "legal", id="where algebra is allowed"),
        pytest.param("in  x", "fp strict\nin  x", "needs-reassoc", id="where order counts"),
        pytest.param("s[{0}] = 0", "s[{0}] = 1", "legal", id="that begins with something"),
        pytest.param("s[{0}] = 0", "s[{0}] = x[{0}, 0]", "legal", id="that begins with an element"),
        pytest.param("s[{0}] = 0", "s[{0}] = y[{0}, 0]", "written-inside", id="that begins with what it writes"),
        pytest.param("s[{0}] = 0", "s[{0}] = 0\n| s[{0}] = 1 if x[{0}, 0] > 0", "no-match",
                     id="that begins with something under a condition"),
        pytest.param("y[{0}, 16*{1} + {2}]", "y[{0}, 16*{1}]", "shared-element", id="into a few elements"),
        pytest.param("| (M + 15) // 16", "| min((M + 15) // 16, {0} + 1)",
                     "dependent-extent", id="of as many blocks as the row says"),
    ],
)  # fmt: skip
def test_what_a_blocked_scan_needs(old: str, new: str, code: str) -> None:
    kernel = dojoir.parse(SCAN.replace(old, new))
    verdict = dojoir.check(kernel, USE)
    assert verdict.code == code, str(verdict)
    if code == "legal":
        assert taken_back(kernel, dojoir.parse_move(USE)) == "use_rule"
        trace = dojoir.Trace(kernel)
        trace.apply(USE)
        assert dojoir.certify(trace)
        assert "tmp t: f32[(M + 15) // 16]" in dojoir.to_text(trace.kernel)


def test_a_blocked_scan_of_a_blocked_scan() -> None:
    kernel = dojoir.kernels.load("cumsum")
    trace = dojoir.Trace(kernel)
    for move in (
        "split(@j, 4)", "use_rule(0.0, blocked_scan, t, p, r)",
        "split(0.2, 4)", "use_rule(0.1, blocked_scan_before, u, v, w)",
    ):  # fmt: skip
        done = dojoir.parse_move(move).rewrite(trace.kernel)
        assert is_exact(trace.kernel, done.kernel, done.instances) == ("rule" not in move)
        trace.apply(move)
    assert dojoir.certify(trace)
    values = np.random.default_rng(0).integers(-9, 9, (3, 37)).astype(np.float32)
    assert np.array_equal(dojoir.interpret(trace.kernel, {"x": values})["y"], np.cumsum(values, axis=1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("p[{0}] + r", "r", id="without the blocks before"),
        pytest.param("p[{0}] + r", "p[{0}] + p[{0}] + r", id="with the blocks before twice"),
        pytest.param("p[{0}] + r", "p[{0}] - r", id="a difference"),
        pytest.param("p[{0}] + r", "p[{0}] + r + 1", id="with something more"),
        pytest.param("p[{0}] + r", "p[{0}] + x[{0}, {1}]", id="an element in place of their sum"),
        pytest.param("r += x[{0}, {1}]", "r = x[{0}, {1}]", id="the last element alone"),
        pytest.param("r += x[{0}, {1}]", "r += x[{0}, {1}] * x[{0}, {1}]", id="squares"),
        pytest.param("| p[{0}] = s\n| s += t[{0}]", "| s += t[{0}]\n| p[{0}] = s", id="its own block twice"),
        pytest.param("| t[{0}] = 0\n| B", "| t[{0}] = 0\n| B - 1", id="all but the last of a block"),
        pytest.param("s = z\nK", "K", id="on top of what was there"),
        pytest.param("| r = 0\n", "", id="on top of what the block before had"),
        pytest.param("| s += t[{0}]", "| s = s + t[{0}]", id="in a circle"),
    ],
)
def test_a_rule_that_adds_up_something_else_is_none(old: str, new: str) -> None:
    rule = rules.load("blocked_scan")
    kernel = dojoir.parse(SCAN)
    use = dojoir.parse_move(USE).rewrite(kernel).instances.rule
    assert use is not None
    assert adds_the_same(kernel, rule, use)
    text = to_text(rule.right, names=False)
    assert old in text
    extents = dict(use.match.sizes)
    wrong = replace(rule, right=dojoir.parse(text.replace(old, new)))
    if "B - 1" in new:  # no size of a rule: its extent is written out
        extents["B - 1"] = Extent(tuple(bound - 1 for bound in extents["B"].bounds))
        use = replace(use, match=replace(use.match, sizes=tuple(extents.items())))
    assert not adds_the_same(kernel, wrong, use)


def test_scratch_may_not_be_used_elsewhere() -> None:
    kernel = dojoir.parse(
        str(rules.load("online_attention_blocks").left)
        .replace("out a: f32[E]\n", "out a: f32[E]\nout w: f32\n")
        .replace("m = -inf", "m = -inf", 1)
        + "w = p[0, 0]\n"
    )
    verdict = dojoir.check(kernel, "use_rule(0, online_attention_blocks, n, z, r)")
    assert verdict.code == "used-outside"
    assert "`p` is used at 6 as well" in verdict.reason


def test_rules_are_listed_under_fast_only() -> None:
    kernel = dojoir.kernels.load("log_softmax")
    assert not any("rule" in move.name for move in dojoir.candidates(kernel))
    listed = [str(move) for move in dojoir.moves(kernel.with_fp("fast")) if "rule" in move.name]
    assert listed == ["use_rule(0.0, online_softmax, n, z)"]


def test_labels_stay() -> None:
    kernel = dojoir.kernels.load("log_softmax").with_fp("fast")
    after = dojoir.apply(kernel, "use_rule(0.0, online_softmax, n, z)")
    assert [line.partition("@")[2] for line in dojoir.to_text(after).splitlines() if "@" in line] == ["i", "j", "l"]


def test_a_mode_that_is_none() -> None:
    kernel = dojoir.kernels.load("relu")
    assert kernel.with_fp("strict").fp == "strict"
    with pytest.raises(ArgumentError, match="strict, reassoc or fast"):
        kernel.with_fp("loose")


# -- the checker ---------------------------------------------------------------------------------------------
def test_a_use_is_not_exact() -> None:
    kernel = dojoir.kernels.load("log_softmax").with_fp("fast")
    done = dojoir.parse_move("use_rule(0.0, online_softmax, n, z)").rewrite(kernel)
    assert compare(kernel, done.kernel, done.instances)
    assert not is_exact(kernel, done.kernel, done.instances)


def planted() -> Iterator[Any]:
    """Rewrites by a rule with one thing wrong: the kernel after, or what is claimed of the match."""
    kernel = dojoir.kernels.load("log_softmax").with_fp("fast")
    done = dojoir.parse_move("use_rule(0.0, online_softmax, n, z)").rewrite(kernel)
    use, after = done.instances.rule, done.kernel
    assert use is not None
    match = use.match

    def param(name: str, to: Kernel, claim: RuleUse) -> Any:
        return pytest.param(kernel, to, replace(done.instances, rule=claim), id=name)

    def statement(path: str, **changes: Any) -> Kernel:
        node = after.at(path)
        assert isinstance(node, Statement)
        return after.replace_node(after.path(path), replace(node, **changes))

    yield param("a statement of the rule", statement("0.1", value=Const(1)), use)
    yield param("a statement elsewhere", statement("0.3.0", value=Const(1)), use)
    yield param("a lost statement", after.replace_node((0, 2, 3)), use)
    yield param(
        "another extent elsewhere", dojoir.parse(dojoir.to_text(after).replace("| M @l", "| M - 1 @l")), use
    )
    yield param("another rule", after, replace(use, rule="one_pass_moments"))
    yield param("another place", after, replace(use, path=(0, 1)))
    yield param("no such rule", after, replace(use, rule="wish"))
    yield param("another depth", after, replace(use, match=replace(match, depth=0)))
    yield param("a missing part", after, replace(use, match=replace(match, inputs=())))
    extent = Extent((Affine.size("M") - 1,))
    yield param("another size", after, replace(use, match=replace(match, sizes=(("M", extent),))))
    inner = Extent((Affine.iterator(1),))
    yield param("a size inside itself", after, replace(use, match=replace(match, sizes=(("M", inner),))))
    elements = tuple((name, Access("s", ()) if name == "n" else a) for name, a in match.elements)
    yield param("a temporary that is there", after, replace(use, match=replace(match, elements=elements)))


@pytest.mark.parametrize(("before", "after", "instances"), list(planted()))
def test_the_checker_trusts_no_use_of_a_rule(before: Kernel, after: Kernel, instances: Any) -> None:
    assert compare(before, after, instances).status == "illegal"
