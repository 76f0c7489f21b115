"""What `optimize` and `versions` give for a GPU was emitted once: a refusal takes the next, and is no error."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import dojoir

TEXT = """kernel nobody_has_stored(M, N, K)
in  a: f32[M, K]
in  b: f32[K, N]
out c: f32[M, N]

M
| N
| | c[{0}, {1}] = 0
| | K
| | | c[{0}, {1}] += a[{0}, {2}] * b[{2}, {1}]
"""


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[dojoir.Kernel], bool]], list[dojoir.Kernel]]:
    """Makes emission refuse some kernels; gives the list of those that it was asked for."""
    plain = dojoir.emit

    def refusing(unwanted: Callable[[dojoir.Kernel], bool]) -> list[dojoir.Kernel]:
        asked: list[dojoir.Kernel] = []

        def emit(kernel: dojoir.Kernel, target: str = "llvm", **rest: str | None) -> str:
            asked.append(kernel)
            if unwanted(kernel):
                raise dojoir.KernelError("there is no room", "register-size")
            return plain(kernel, target, **rest)

        monkeypatch.setattr(dojoir, "emit", emit)
        return asked

    return refusing


def is_shared(kernel: dojoir.Kernel) -> bool:
    return any(buffer.storage == "shared" for buffer in kernel.buffers)


def results(target: str) -> list[dojoir.Kernel]:
    """What the two give; by `choose`, which `optimize` asks, as that remembers its answers."""
    kernel = dojoir.parse(TEXT)
    versions = dojoir.schedules.versions(kernel, target).versions
    return [dojoir.schedules.choose(kernel, target).trace.kernel, *(version.trace.kernel for version in versions)]


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_a_schedule_is_emitted_once(target: str, refuse: Callable[..., list[dojoir.Kernel]]) -> None:
    asked = refuse(lambda kernel: False)
    found = results(target)
    assert asked and len(asked) == len(found) == 2
    assert all(map(is_shared, found))


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_a_refusal_takes_the_next(target: str, refuse: Callable[..., list[dojoir.Kernel]]) -> None:
    refuse(is_shared)
    for kernel in results(target):
        assert not is_shared(kernel)
        assert ": gx" in dojoir.to_text(kernel)


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_at_last_the_text_as_it_stands(target: str, refuse: Callable[..., list[dojoir.Kernel]]) -> None:
    refuse(lambda kernel: True)
    for kernel in results(target):
        assert "gx" not in dojoir.to_text(kernel)
