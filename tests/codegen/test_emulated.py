"""NEON, SVE and RVV in an emulator: every library kernel scheduled and after random legal moves, and random
kernels, in one program each; SVE and RVV with vectors of three lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import everywhere
import numpy as np
import pytest
from agreement import small_sizes
from drawing import draw
from emulated import LENGTHS, machine

import dojoir
from dojoir import kernels
from dojoir.runtime.build import emulation

RANDOM_KERNELS = 24


@pytest.fixture(scope="session")
def zig_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of the cross compiler for these tests alone."""
    folder = tmp_path_factory.mktemp("zig")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZIG_GLOBAL_CACHE_DIR", str(folder))
        patch.setenv("ZIG_LOCAL_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(params=LENGTHS)
def target(request: pytest.FixtureRequest, zig_cache: Path) -> str:
    """A target of another processor, where it can be built and run."""
    name = str(request.param)
    try:
        machine(name)
    except dojoir.ToolchainError as error:
        pytest.skip(error.diagnostic.message)
    return name


def test_an_instruction_of_another_processor_runs_as_its_text(target: str, tmp_path: Path) -> None:
    """Beside a kernel that has none, in one program: the condition stays around its header."""
    text = "kernel f(N)\nin x: f32[N, 16]\nin w: f32[16]\ninout y: f32[N, 16]\n\n"
    kernel = dojoir.parse(text + "N\n| 16\n| | y[{0}, {1}] = fma(x[{0}, {1}], w[{1}], y[{0}, {1}])\n")
    used = dojoir.apply(kernel, "use_instr(0.0, avx512_fmadd_ps)")
    trials = everywhere.calls(kernel, Random(1))
    found = [everywhere.Subject("an instruction", k, trials) for k in (used, kernel)]
    assert not list(everywhere.differences(target, found, tmp_path, Counter()))


def test_library_kernels(target: str, tmp_path: Path) -> None:
    """Each kernel as scheduled for the target, and after random moves."""
    counts: Counter[str] = Counter()
    found = list(everywhere.subjects(kernels.names(), Random(target), [target]))
    wrong = list(everywhere.differences(target, found, tmp_path, counts))
    assert not wrong, "\n\n".join(wrong)
    assert len(counts) == len(LENGTHS[target])
    assert min(counts.values()) >= 4 * len(kernels.names())


def test_random_kernels(target: str, tmp_path: Path) -> None:
    random = Random(len(target))
    found = []
    for _ in range(RANDOM_KERNELS):
        exact = random.random() < 0.5
        kernel = draw("runnable", random, exact=exact, strided=True)
        trials = tuple(everywhere.trial(kernel, small_sizes(kernel, random), random) for _ in range(2))
        found.append(everywhere.Subject("a random kernel", kernel, trials, exact=exact))
    wrong = list(everywhere.differences(target, found, tmp_path, Counter()))
    assert not wrong, "\n\n".join(wrong)


def test_compile_verify_and_measure(target: str) -> None:
    kernel = dojoir.PASSES["default_schedule"].on(kernels.load("softmax")).kernel
    compiled = dojoir.compile(kernel, target)
    assert (compiled.target, compiled.threads) == (target, 1)
    report = dojoir.verify(kernel, target=target, seeds=1, sizes={"N": 3, "M": 37}, distributions=["normal"])
    assert report.ok, str(report)


FAULTY = """\
#include <stdint.h>
int32_t call(int64_t kernel, void **a)
{
    if (kernel == 0)
        *(volatile int *)a[0] = *(volatile int *)1;
    for (volatile int n = 0;; n++) {
    }
}
"""


def test_a_crash_and_a_hang_in_the_emulator_are_errors(target: str, tmp_path: Path) -> None:
    out = tmp_path / "faulty"
    machine(target).build([FAULTY, emulation.program_sources([])[-1]], out)
    with pytest.raises(dojoir.RunError, match="the emulated program ended with status"):
        machine(target).run(out, [emulation.EmulatedCall(0, (b"1234",))])
    with pytest.raises(dojoir.RunError, match="hung"):
        machine(target).run(out, [emulation.EmulatedCall(1, (b"1234",))], limit=0.3)


def test_the_index_check_of_a_gather(target: str) -> None:
    compiled = dojoir.compile(kernels.load("embedding"), target)
    ids, weights = np.array([0, 99], np.int64), np.ones((3, 4), np.float32)
    with pytest.raises(dojoir.RunError, match="out of range"):
        compiled.run({"ids": ids, "w": weights})
    ids[1] = 2
    assert compiled.run({"ids": ids, "w": weights})["y"].tolist() == [[1.0] * 4] * 2


GUARDED_SUM = """\
kernel guarded_sum(N, M)
in  x: f32[N, M]
out y: f32[N]
tmp s: f32[N~] reg

(N + 7) // 8
| min(8, N - 8*{0})
| | s[8*{0} + {1}] = 0
| | (M + 127) // 128
| | | min(129, M - 128*{2} + 1) : v
| | | | if {3} >= 1
| | | | | s[8*{0} + {1}] += x[8*{0} + {1}, 128*{2} + {3} - 1]
| | y[8*{0} + {1}] = s[8*{0} + {1}]
"""


def test_a_sum_of_some_lanes(target: str) -> None:
    """A scalar that is summed up inside a loop over vectors is no vector."""
    report = dojoir.verify(dojoir.parse(GUARDED_SUM), target=target, seeds=1, sizes={"N": 3, "M": 37})
    assert report.ok, str(report)
