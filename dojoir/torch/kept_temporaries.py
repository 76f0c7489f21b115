"""Temporaries that an operator keeps of a call for its gradients, instead of computing them again.

Those are numbers of rows (maxima, sums, means) and products of matrices of the shape of an argument. They are
results of the kernel of the call then, and arguments of that of the gradients. Gradients of gradients compute them
again, since they depend on the arguments.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import dojoir
from dojoir.torch.operator_on_gpu import Given, last
from dojoir.torch.thread_count import threads_now
from dojoir.torch.variants import WIDE


def worth_keeping(kernel: dojoir.Kernel) -> tuple[str, ...]:
    """The temporaries of a text that are smaller than an argument, or that are sums as large as one."""
    inputs = [Counter(map(str, b.dims)) for b in kernel.arguments if b.role == "in"]
    arguments = [Counter(map(str, b.dims)) for b in kernel.arguments]
    found = []
    for buffer in kernel.buffers:
        if buffer.role != "tmp" or not buffer.dims or buffer.storage != "heap" or buffer.dtype.name not in WIDE:
            continue
        if any(dim.collapsed for dim in buffer.dims):
            continue
        own = Counter(map(str, buffer.dims))
        if any(own < one for one in inputs) or (_is_sum(kernel, buffer.name) and any(own <= a for a in arguments)):
            found.append(buffer.name)
    return tuple(found)


def _is_sum(kernel: dojoir.Kernel, name: str) -> bool:
    return any(site.statement.accumulation and site.statement.target.buffer == name for site in kernel.sites)


def with_results(given: Given, names: tuple[str, ...], threads: int | None) -> Given:
    """What computes the temporaries `names` as results, after those that there are. Raises KernelError where a
    text may not have them so."""
    trace = given if isinstance(given, dojoir.Trace) else None
    start = last(given) if isinstance(given, dojoir.Kernel) else given.start
    buffers = [replace(b, role="out") if b.name in names else b for b in start.buffers]
    order = {"in": 0, "inout": 1, "out": 2, "tmp": 4}
    buffers.sort(key=lambda b: 3 if b.name in names else order[b.role])
    made = dojoir.parse(dojoir.to_text(start.evolve(buffers=tuple(buffers))))
    dojoir.prove(made)
    if isinstance(given, dojoir.Kernel):
        return made
    if trace is not None:
        own = dojoir.Trace(made)
        try:
            for move in trace.moves:
                own.apply(str(move))
            return own
        except dojoir.DojoError:
            pass
    return dojoir.optimize(made, threads=threads_now(threads)())
