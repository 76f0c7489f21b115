"""Copies in several stages, which land later: right on the harness, taken by NVRTC, and planted faults found by the
proof, by the harness, or by both."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from gpu_compile import nvrtc_error
from narrow_products import agrees, drawn
from on_harness import run
from test_matrix_units import product, tiled, with_text

import dojoir
from dojoir.codegen.emission import gpu_program
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.waits.barriers import barriers_of
from dojoir.codegen.lower.waits.landing_proof import landed, unlanded
from dojoir.codegen.lower.waits.landings import NONE, landings_of, waiting_for_all
from dojoir.codegen.target import CUDA as TARGET

COPIED = """kernel copied(K = 7)
in  x: f16[K, 64]
out y: f32[2, 32]
tmp t: f16[3, 64] shared

2 : gx @b
| 32 : bx @j
| | y[{b}, {j}] = 0
| 2 @p
| | 32 : bx @j
| | | 2 : v @e
| | | | t[{p} % 3, 2*{j} + {e}] = x[{p}, 2*{j} + {e}]
| K @k
| | if {k} < K - 2
| | | 32 : bx @j
| | | | 2 : v @e
| | | | | t[({k} + 2) % 3, 2*{j} + {e}] = x[{k} + 2, 2*{j} + {e}]
| | 32 : bx @j
| | | y[{b}, {j}] += f32(t[{k} % 3, 63 - {j}])
"""

KERNELS = {
    f"{turned or 'plain'} {dtype} {out} of {sizes}": product(turned, dtype, out, sizes, begin)
    for turned, dtype, out, sizes, begin in (
        ("", "bf16", "bf16", (64, 64, 320), True),
        ("b", "f16", "f32", (70, 67, 300), True),  # 8 bytes at once
        ("a", "f16", "f16", (66, 80, 384), False),
        ("ab", "bf16", "bf16", (64, 72, 520), True),
        ("", "bf16", "f32", (40, 66, 322), True),  # 4 bytes at once
        ("b", "i8", "i32", (64, 64, 640), True),
        ("b", "i8 u8", "i32", (65, 48, 600), True),
        ("", "f64", "f64", (64, 64, 100), True),
        ("ab", "f64", "f64", (66, 34, 81), True),
    )
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_product_in_stages_is_right(name: str) -> None:
    kernel = KERNELS[name]
    scheduled, given = tiled(kernel), drawn(kernel)
    text = dojoir.emit(scheduled, "cuda")
    assert re.findall(r"land_copies<(\d)>\(\)", text) == ["1", "1"]
    assert "_ahead" not in text
    for order in ("forward", "backward"):
        assert agrees(kernel, run(scheduled, given, {}, order=order), given)  # type: ignore[arg-type]
    for architecture in ("sm_75", "sm_80", "sm_90a"):
        assert bool(nvrtc_error(text, architecture)) == (architecture == "sm_75")


@pytest.mark.parametrize("to", ["2*{j} + {e}", "{j} + 32*{e}", "63 - 2*{j} - {e}"])
@pytest.mark.parametrize("source", ["2*{j} + {e}", "{j} + 32*{e}", "62 - 2*{j} + {e}"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_elements_that_are_no_neighbours_are_copied_one_by_one(to: str, source: str, dtype: str) -> None:
    """Each copy is of the element that its iteration names, also where it is a word by itself."""
    text = (
        COPIED.replace("f16", dtype)
        .replace(", 2*{j} + {e}] =", f", {to}] =")
        .replace(", 2*{j} + {e}]\n", f", {source}]\n")
    )
    kernel = dojoir.parse(text)
    assert "start_copy" in dojoir.emit(kernel, "cuda")
    given = {"x": np.random.default_rng(0).standard_normal((7, 64)).astype(dtype.replace("f", "float"))}
    right = dojoir.interpret(kernel, given)["y"]
    for order in ("forward", "backward"):
        np.testing.assert_allclose(run(kernel, given, {}, order=order)["y"].reshape(right.shape), right, rtol=1e-5)  # type: ignore[arg-type]


def test_what_is_not_moved_in_words_has_no_stages() -> None:
    for turned, dtype, out, sizes in (("", "bf16", "f32", (64, 67, 301)), ("a", "i8", "i32", (65, 48, 600))):
        text = dojoir.emit(tiled(product(turned, dtype, out, sizes)), "cuda")
        assert "start_copy" not in text
        assert "commit_copies" not in text


def test_arguments_that_are_not_aligned_are_copied_at_once() -> None:
    kernel = tiled(KERNELS["plain bf16 bf16 of (64, 64, 320)"])
    program = gpu_program(kernel, "cuda", wide=False)
    for word in ("start_copy", "commit_copies", "land_copies"):
        assert word not in program.source
    given = drawn(kernel)
    assert agrees(kernel, run(kernel, given, {}, program=program), given)


# -- waits -----------------------------------------------------------------------------------------------------
def test_waits_are_counted_and_proved() -> None:
    """Of three stages one may be on its way, of four two; one more is not proved at any of the barriers."""
    for stages, left in ((3, 1), (4, 2)):
        text = COPIED.replace("% 3", f"% {stages}").replace("t: f16[3", f"t: f16[{stages}")
        kernel = dojoir.parse(text.replace("2 @p", f"{left + 1} @p").replace("- 2", f"- {left + 1}").replace(
            "{k} + 2", f"{{k}} + {left + 1}"))  # fmt: skip
        found = landings_of(Threads(kernel, 32), barriers_of(Threads(kernel, 32)))
        assert set(found.waits.values()) == {left}
        assert len(found.copies) == len(found.commits) == 2
        assert landed(kernel, 32, found) == found
        for at in found.waits:
            late = replace(found, waits={**found.waits, at: left + 1})
            assert {pair.buffer for pair in unlanded(kernel, 32, late)} == {"t"}
            never = replace(found, waits={place: n for place, n in found.waits.items() if place != at})
            assert any(unlanded(kernel, 32, never))
        for commit in found.commits:
            assert any(unlanded(kernel, 32, replace(found, commits=found.commits - {commit})))


def test_where_fewer_stages_are_used_threads_wait_for_all() -> None:
    """A text with a stage too few reads what was copied just before: nothing may be on its way then."""
    kernel = dojoir.parse(COPIED.replace("% 3", "% 2").replace("t: f16[3", "t: f16[2"))
    found = landings_of(Threads(kernel, 32), barriers_of(Threads(kernel, 32)))
    assert found == NONE
    assert "start_copy" not in dojoir.emit(kernel, "cuda")
    with pytest.raises(dojoir.IllegalMove, match="reuse_dims"):
        dojoir.apply(
            dojoir.parse(COPIED.replace("% 3", "% 4").replace("t: f16[3", "t: f16[4")).evolve(), "reuse_dims(t, 0)"
        )


def test_a_source_that_the_launch_writes_is_copied_at_once() -> None:
    text = COPIED.replace("in  x", "inout x").replace("2 : gx", "1 : gx").replace("y: f32[2", "y: f32[1")
    kernel = dojoir.parse(text + "| | | x[0, {j}] = 1\n")
    assert "start_copy" not in dojoir.emit(kernel, "cuda")
    right = dojoir.parse(COPIED)
    found = landings_of(Threads(right, 32), barriers_of(Threads(right, 32)))
    assert {pair.buffer for pair in unlanded(kernel, 32, found)} >= {"x"}


def test_a_wrong_count_falls_back_to_what_is_proved() -> None:
    kernel = dojoir.parse(COPIED)
    found = landings_of(Threads(kernel, 32), barriers_of(Threads(kernel, 32)))
    wrong = replace(found, waits=dict.fromkeys(found.waits, 2))
    assert landed(kernel, 32, wrong) == waiting_for_all(found)
    assert landed(kernel, 32, replace(wrong, waits={})) == NONE


def test_one_thread_that_reads_what_it_copies_waits_too() -> None:
    """Barriers are for other threads; a landing is for its own as well."""
    kernel = dojoir.parse(COPIED.replace("63 - {j}", "2*{j}"))
    given = dojoir.testing.random_inputs(kernel, seed=0)
    want = dojoir.interpret(kernel, given)["y"]
    for order in ("forward", "backward"):
        found = run(kernel, given, {}, order=order)["y"].reshape(want.shape)  # type: ignore[arg-type]
        np.testing.assert_allclose(found, want, rtol=1e-6)


# -- planted faults --------------------------------------------------------------------------------------------
FAULTS = {
    "a wait one group too late": (r"land_copies<1>\(\);", "land_copies<2>();", "not-landed"),
    "no wait": (r"land_copies<1>\(\);", "", "not-landed"),
    "no commits": (r"commit_copies\(\);", "", "not-landed"),
    "a stage too few": (r"% 3", "% 2", "not-landed|race|uninitialised"),
    "a copy that goes further ahead": (r"\((i\d|\w+) \+ 2\) % 3", r"(\1 + 3) % 3", "not-landed|race"),
    "no barrier behind a wait": (r"__syncthreads\(\);", "", "race|uninitialised|not-landed"),
}


@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize("name", ["copied", "plain bf16 bf16 of (64, 64, 320)"])
def test_a_fault_in_the_text_is_found_by_the_harness(what: str, name: str) -> None:
    pattern, instead, code = FAULTS[what]
    kernel = dojoir.parse(COPIED) if name == "copied" else tiled(KERNELS[name])
    given = dojoir.testing.random_inputs(kernel, seed=0) if name == "copied" else drawn(kernel)

    def change(text: str) -> str:
        start = text.index('extern "C"')
        return text[:start] + re.sub(pattern, instead, text[start:])

    program = with_text(gpu_program(kernel, "cuda"), change)
    with pytest.raises(dojoir.RunError) as told:
        run(kernel, given, {}, program=program)
    assert re.search(code, told.value.diagnostic.code), told.value


def test_a_target_without_such_copies_runs_the_text() -> None:
    kernel = dojoir.parse(COPIED)
    assert not replace(TARGET, lands_later=False).lands_later
    assert "start_copy" not in dojoir.emit(kernel, "hip")
    given = dojoir.testing.random_inputs(kernel, seed=0)
    want = dojoir.interpret(kernel, given)["y"]
    np.testing.assert_allclose(run(kernel, given, {}, "hip")["y"].reshape(want.shape), want, rtol=1e-6)
    np.testing.assert_allclose(dojoir.compile(kernel, "llvm").run(given)["y"], want, rtol=1e-6)
