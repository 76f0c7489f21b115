"""Iterations of a scope that surely conflict: the first two write one element. No isl."""

from __future__ import annotations

from dojoir.ir.nodes import Kernel, Path
from dojoir.ir.paths import is_inside
from dojoir.ir.places import is_uniform
from dojoir.proof.core.independence import private_buffers
from dojoir.proof.refute.first_iteration import runs_at
from dojoir.sets.kernel_sets import sets_of


def write_one_element(kernel: Kernel, path: Path, mark: str) -> bool:
    """Whether a statement surely runs in the first two iterations of the scope at `path` and writes one element in
    both, of a buffer that is not each iteration's own."""
    depth, private = kernel.depth_of(path), private_buffers(kernel, path, mark)
    for site in kernel.sites:
        target = site.statement.target
        if site.statement.apart is not None:
            continue  # no two instances change one element
        if is_inside(site.path, path) and target.buffer not in private and is_uniform(kernel, target, depth):
            first = (0,) * len(site.scopes)
            second = (*first[:depth], 1, *first[depth + 1 :])
            if any(all(runs_at(site, sizes, at) for at in (first, second)) for sizes in sets_of(kernel).some_sizes):
                return True
    return False
