"""The quantisers of the library on emulated processors and, for GPUs, on the harness: equal to the bit to their
references, as they are and scheduled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import on_harness
import pytest
from emulated import Trial, build, machine, run
from numpy.typing import NDArray
from quantised_references import expected, format_of
from test_quantised import BOTH, QUANTISERS, arguments, drawn, special_rows

import dojoir
from dojoir import kernels

CHOSEN = [(name, options) for name in QUANTISERS for options in (BOTH[0], BOTH[3])]
"""The definition `hw` with linear scales, and `soft` with tiles."""

FUSED: list[tuple[str, dict[str, str]]] = [
    ("add_rmsnorm_fp4quant", BOTH[0]),
    ("silu_mul_fp4quant", BOTH[0] | {"inputs": "packed", "product": "exact"}),
    ("silu_mul_mxfp8quant", BOTH[1] | {"inputs": "separate", "product": "rounded"}),
]


def trial(name: str, options: dict[str, str], x: NDArray[np.uint16]) -> tuple[dict[str, Any], dict[str, int]]:
    """The inputs of a call and its sizes."""
    given = arguments(name, options, x)
    sizes = {"M": x.shape[0], "B": x.shape[1] // format_of(name).block}
    return given, {"N": 2, **sizes} if options.get("inputs") == "packed" else sizes


def flat(found: Any, want: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(found).reshape(-1).view(want.dtype).reshape(want.shape)


@pytest.mark.parametrize(("target", "vlen"), [("neon", 128), ("sve", 256), ("rvv", 256)])
def test_quantisers_on_emulated_processors(target: str, vlen: int, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    schedule = dojoir.PASSES["default_schedule"].given(target)
    made = [kernels.load(name, **options) for name, options in CHOSEN]
    made += [schedule.on(kernel).kernel for kernel in made]
    trials, wanted = [], []
    for number, kernel in enumerate(made):
        name, options = CHOSEN[number % len(CHOSEN)]
        block = format_of(name).block
        for x in (special_rows(block), drawn(5, 19 * block)):
            given, sizes = trial(name, options, x)
            trials.append((number, Trial(kernel, given, sizes, {})))
            wanted.append(expected(name, options, given))
    results = run(target, build(target, made, tmp_path), trials, vlen)
    for (_, done), found, want in zip(trials, results, wanted, strict=True):
        for part, array in want.items():
            np.testing.assert_array_equal(flat(found[part], array), array, err_msg=f"{part} of\n{done.kernel}")


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize(("name", "options"), CHOSEN[:2] + CHOSEN[4:5])
def test_quantisers_on_the_harness(name: str, options: dict[str, str], target: str) -> None:
    kernel = dojoir.optimize(kernels.load(name, **options), target).kernel
    assert "bx" in dojoir.to_text(kernel)
    x = special_rows(format_of(name).block)
    given, sizes = trial(name, options, x)
    found = on_harness.run(kernel, given, sizes, target)
    for part, array in expected(name, options, given).items():
        np.testing.assert_array_equal(flat(found[part], array), array, err_msg=part)


@pytest.mark.parametrize(("name", "options"), FUSED)
def test_fused_quantisers_on_the_harness(name: str, options: dict[str, str]) -> None:
    """At most one code of 10,000 is another one."""
    kernel = dojoir.optimize(kernels.load(name, **options), "cuda").kernel
    assert "bx" in dojoir.to_text(kernel)
    given, sizes = trial(name, options, drawn(3, 3 * format_of(name).block))
    found = on_harness.run(kernel, given, sizes)
    for part, array in expected(name, options, given).items():
        different = np.count_nonzero(flat(found[part], array) != array)
        assert different <= max(1, 1e-4 * array.size), part
