"""The library of kernels: text, proof, meaning against NumPy, and the compiled targets against the meaning."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest
from references import CASES, REFERENCES, Arrays, Case, expected, inputs

import dojoir
from dojoir import ArgumentError, KernelError, RunError, kernels
from dojoir.ir.nodes import Scope


def compare(got: Arrays, want: Arrays) -> None:
    """Equal to f32 rounding of a short sum; integers exactly."""
    assert got.keys() == want.keys()
    for name, array in want.items():
        assert got[name].shape == array.shape, name
        np.testing.assert_allclose(np.asarray(got[name], np.float64), array, rtol=3e-5, atol=3e-5, err_msg=name)


def test_every_kernel_has_a_reference_and_cases() -> None:
    assert kernels.names() == sorted(REFERENCES)
    assert {case.kernel for case in CASES} == set(REFERENCES)


@pytest.mark.parametrize("name", kernels.names())
def test_text_round_trips(name: str) -> None:
    kernel = kernels.load(name)
    assert kernel.name == name
    for names in (False, True):
        again = dojoir.parse(dojoir.to_text(kernel, names=names))
        assert again == kernel
        assert again.hash == kernel.hash


@pytest.mark.parametrize("name", kernels.names())
def test_header_states_the_formula_and_labels_are_places(name: str) -> None:
    kernel = kernels.load(name)
    assert kernel.source is not None
    comment = [line for line in kernel.source.text.splitlines() if line.startswith("#")]
    assert len(comment) >= 3
    assert any("=" in line for line in comment)
    scopes = [(path, node) for path, node in kernel.walk() if isinstance(node, Scope)]
    for path, scope in scopes:
        assert kernel.path(f"@{scope.label}") == path


@pytest.mark.parametrize("name", kernels.names())
def test_well_formed_at_all_sizes(name: str) -> None:
    dojoir.prove(kernels.load(name))


@pytest.mark.parametrize(
    ("name", "part", "instead", "code"),
    [
        ("transpose", "y[{j}, {i}]", "y[{i}, {j}]", "out-of-bounds"),
        ("conv2d", "where H + 2*pad >= dilation*(KH - 1) + 1,", "where", "empty-dimension"),
        ("jacobi2d", "| N - 2 @i", "| N - 1 @i", "out-of-bounds"),
        ("attention", "{i} + 1 @t", "T @t", "read-before-write"),
        ("softmax", "| M @l", "| M - 1 @l", "unwritten-output"),
    ],
)
def test_the_proof_refuses_a_kernel_with_a_slip(name: str, part: str, instead: str, code: str) -> None:
    source = kernels.load(name).source
    assert source is not None
    assert part in source.text
    with pytest.raises(KernelError) as error:
        dojoir.prove(dojoir.parse(source.text.replace(part, instead)))
    assert error.value.diagnostic.code == code


@pytest.mark.parametrize("case", CASES, ids=str)
def test_meaning_is_the_formula(case: Case) -> None:
    kernel = case.load()
    given = inputs(kernel, case.sizes)
    compare(dojoir.interpret(kernel, given, **case.sizes), expected(case, given))


# -- special values ----------------------------------------------------------------------------------------
def test_argmax_takes_the_first_of_equals_and_the_first_nan() -> None:
    x = np.array([[1, 3, 3], [2, np.nan, np.nan], [-np.inf] * 3, [np.inf, 0, np.inf]], np.float32)
    got = dojoir.interpret(kernels.load("argmax"), {"x": x})["y"]
    assert got.tolist() == x.argmax(axis=1).tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_large_scores_do_not_overflow(name: str) -> None:
    x = np.array([[1e4, 1e4 - 1, -1e4], [-1e4, -1e4, -1e4]], np.float32)
    case = Case(name, {"N": 2, "M": 3})
    got = dojoir.interpret(case.load(), {"x": x})
    assert np.isfinite(got["y"]).all()
    compare(got, expected(case, {"x": x}))


def test_reduce_max_propagates_nan() -> None:
    x = np.array([[1, np.nan], [np.nan, 1], [1, 2]], np.float32)
    got = dojoir.interpret(kernels.load("reduce_max"), {"x": x})["y"]
    np.testing.assert_array_equal(got, np.array([np.nan, np.nan, 2], np.float32))


def test_int8_matmul_accumulates_in_i32() -> None:
    k = 2000
    extreme = np.full((1, k), -128, np.int8)
    one = np.ones(1, np.float32)
    given = {"a": extreme, "b": extreme.T.copy(), "sa": one, "sb": one}
    assert dojoir.interpret(kernels.load("matmul_int8"), given)["y"].item() == 128 * 128 * k


# -- load --------------------------------------------------------------------------------------------------
def test_fixed_sizes_change_and_runtime_sizes_are_fixed() -> None:
    kernel = kernels.load("conv2d", stride=2, KH=3, KW=3)
    assert {s.name: s.value for s in kernel.sizes if s.value is not None} == {
        "KH": 3, "KW": 3, "stride": 2, "pad": 0, "dilation": 1,
    }  # fmt: skip
    assert kernel.runtime_sizes == ("N", "C", "O", "H", "W")
    assert kernels.load("conv2d", stride=1) == kernels.load("conv2d")
    assert kernels.load("softmax", M=8) == kernels.load("softmax").specialize(M=8)


def test_unknown_kernel_names_the_nearest() -> None:
    with pytest.raises(ArgumentError, match=r"no kernel 'sofmax'; did you mean 'softmax'\?") as error:
        kernels.load("sofmax")
    assert error.value.diagnostic.code == "unknown-kernel"


def test_unknown_size_names_the_nearest() -> None:
    with pytest.raises(ArgumentError, match=r"no size 'strid'; did you mean 'stride'\?") as error:
        kernels.load("conv2d", strid=2)
    assert error.value.diagnostic.code == "unknown-size"


@pytest.mark.parametrize("value", [True, 2.0, "2", -1])
def test_a_size_that_is_no_natural_number(value: Any) -> None:
    with pytest.raises(ArgumentError, match="an integer"):
        kernels.load("conv2d", stride=value)


def test_a_stride_of_zero_is_refused() -> None:
    with pytest.raises(dojoir.DojoError):
        kernels.load("conv2d", stride=0)


# -- compiled ----------------------------------------------------------------------------------------------
HAS_COMPILER = any(shutil.which(name) for name in ("cc", "gcc", "clang"))
TARGETS = ["llvm", pytest.param("c", marks=pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler"))]


def variants() -> list[list[Case]]:
    """The cases of each kernel, those with the same fixed sizes together: one compilation serves them all."""
    groups: dict[tuple[str, tuple[tuple[str, int], ...]], list[Case]] = {}
    for case in CASES:
        groups.setdefault((case.kernel, tuple(case.fixed.items())), []).append(case)
    return list(groups.values())


def variant_name(cases: list[Case]) -> str:
    return str(Case(cases[0].kernel, {}, cases[0].fixed))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("cases", variants(), ids=variant_name)
def test_compiled_code_is_the_formula(cases: list[Case], target: str) -> None:
    kernel = cases[0].load()
    compiled = dojoir.compile(kernel, target)
    for case in cases:
        given = inputs(kernel, case.sizes)
        compare(compiled.run(given, **case.sizes), expected(case, given))


def first_variants() -> list[list[Case]]:
    """Those of `variants` with the first fixed sizes of each kernel."""
    return list({cases[0].kernel: cases for cases in reversed(variants())}.values())


@pytest.mark.parametrize("cases", variants(), ids=variant_name)
def test_compiled_code_is_the_meaning(cases: list[Case]) -> None:
    """Against the interpreter, with guard pages and poisoned outputs, within what rounding explains."""
    verify(cases, "llvm")


@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler")
@pytest.mark.parametrize("cases", first_variants(), ids=variant_name)
def test_compiled_c_is_the_meaning(cases: list[Case]) -> None:
    """At other fixed sizes it has the bits of LLVM, as `test_the_targets_agree_to_the_bit` shows."""
    verify(cases, "c")


def verify(cases: list[Case], target: str) -> None:
    report = dojoir.verify(cases[0].load(), target=target, sizes=[case.sizes for case in cases], seeds=1)
    assert report.ok, str(report)
    assert {tuple(case.sizes.items()) for case in report.cases} >= {tuple(c.sizes.items()) for c in cases}


@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler")
@pytest.mark.parametrize("cases", variants(), ids=variant_name)
def test_the_targets_agree_to_the_bit(cases: list[Case]) -> None:
    """Without vector lanes both do the same operations in the same order."""
    kernel = cases[0].load()
    llvm, c = (dojoir.compile(kernel, target) for target in ("llvm", "c"))
    for case in cases:
        given = inputs(kernel, case.sizes, seed=1)
        left, right = (compiled.run(given, **case.sizes) for compiled in (llvm, c))
        for name, array in left.items():
            assert array.tobytes() == right[name].tobytes(), name


@pytest.mark.parametrize("target", TARGETS)
def test_a_token_outside_the_table_is_an_error(target: str) -> None:
    given = {"ids": np.array([0, 3]), "w": np.zeros((3, 2), np.float32)}
    for run in (dojoir.compile(kernels.load("embedding"), target).run, interpret_embedding):
        with pytest.raises(RunError, match=r"ids\["):
            run(given)


def interpret_embedding(given: Arrays) -> Arrays:
    return dojoir.interpret(kernels.load("embedding"), given)
