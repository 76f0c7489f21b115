"""A trace stands for its last kernel wherever one is compiled, checked, timed, printed or scheduled."""

from __future__ import annotations

import numpy as np
import pytest

import dojoir


@pytest.fixture
def trace() -> dojoir.Trace:
    made = dojoir.Trace(dojoir.kernels.load("relu"))
    made.apply("split(@i, factor=16)")
    return made


def test_it_is_compiled_printed_and_costed_as_its_last_kernel(trace: dojoir.Trace) -> None:
    x = np.linspace(-1, 1, 37, dtype=np.float32)
    assert np.array_equal(dojoir.compile(trace).run({"x": x})["y"], np.maximum(x, 0))
    assert dojoir.emit(trace) == dojoir.emit(trace.kernel) != dojoir.emit(trace.start)


def test_it_is_verified_against_its_first_kernel(trace: dojoir.Trace) -> None:
    assert dojoir.verify(trace, sizes={"N": 37}, seeds=1).ok
    text = "kernel k(N)\nin x: f32[N]\nout y: f32[N]\nN @i\n| y[{i}] = x[{i}]\n| y[{i}] = x[{i}] + 1\n"
    wrong = dojoir.Trace(dojoir.parse(text))
    wrong.apply("swap_siblings(0.0)", unsafe=True)
    assert not dojoir.verify(wrong, sizes={"N": 5}, seeds=1).ok
    assert dojoir.verify(wrong, wrong.kernel, sizes={"N": 5}, seeds=1).ok


def test_it_is_measured(trace: dojoir.Trace) -> None:
    found = dojoir.measure(trace, N=64, budget=0.05, with_ceilings=False)
    assert found.name == "relu" and found.flops == 0 < found.other and found.all_gops > 0
    together = dojoir.measure_together([trace, trace.start], N=64, budget=0.05, with_ceilings=False)
    assert len(together.measurements) == 2


def test_one_more_move_leaves_it_alone(trace: dojoir.Trace) -> None:
    after = dojoir.apply(trace, "vectorize(0.0)")
    assert after == dojoir.apply(trace.kernel, "vectorize(0.0)") and len(trace.moves) == 1


def test_what_is_optimised_begins_with_its_moves(trace: dojoir.Trace) -> None:
    found = dojoir.optimize(trace)
    assert found.start == trace.start and found.moves[:1] == trace.moves and len(found.moves) > 1
    assert len(trace.moves) == 1


def test_sizes_are_given_by_name_or_as_a_mapping() -> None:
    kernel = dojoir.kernels.load("softmax")
    one, other = (
        dojoir.testing.random_inputs(kernel, N=2, M=3),
        dojoir.testing.random_inputs(kernel, sizes={"N": 2, "M": 3}),
    )
    assert np.array_equal(one["x"], other["x"])
    with pytest.raises(
        dojoir.ArgumentError, match=r"verify has no argument 'N'; sizes are given as sizes=\{'N': …\}"
    ):
        dojoir.verify(kernel, N=2)  # type: ignore[call-arg]


def test_a_call_without_elements_or_results_is_told_what_to_do() -> None:
    run, x = dojoir.compile(dojoir.kernels.load("relu")), np.ones(4, np.float32)
    with pytest.raises(dojoir.ArgumentError, match="where there are no elements, leave the call out"):
        run(x[:0], x[:0].copy())
    with pytest.raises(dojoir.ArgumentError, match=r"results are arrays of the caller, such as np\.empty"):
        run(x)
