"""What is around a node, as answers about its iterations are kept by it."""

from __future__ import annotations

from random import Random

import pytest
from drawing import draw

from dojoir.ir.paths import is_inside
from dojoir.proof.node_in_context import node_in_context


@pytest.mark.parametrize("seed", range(8))
def test_they_tell_who_else_uses_a_buffer(seed: int) -> None:
    kernel = draw("runnable" if seed % 2 else "tangled", Random(seed))
    for path, _ in kernel.walk():
        used = {True: set[str](), False: set[str]()}
        for site in kernel.sites:
            used[is_inside(site.path, path)] |= {access.buffer for access in site.statement.accesses}
        found = [(buffer.name, others) for buffer, others in node_in_context(kernel, path).buffers]
        assert found == [(name, name in used[False]) for name in sorted(used[True])]
