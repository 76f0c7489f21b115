"""The check that no two elements of a `distinct` argument are equal, made at each call before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Buffer
from dojoir.ir.text import format_buffer


def check_distinct(buffers: Iterable[Buffer], array: Callable[[str], npt.NDArray[np.generic]]) -> None:
    """Raises ArgumentError where two elements of a `distinct` one among `buffers` are equal, naming both and the
    value. `array` gives the contents of one by its name. Takes a sort: about 3 ms for 1,000,000 elements of i32."""
    for buffer in buffers:
        if not buffer.distinct:
            continue
        given = array(buffer.name)
        flat = given.ravel()
        ordered = np.sort(flat)
        if not (ordered[1:] == ordered[:-1]).any():
            continue
        order = np.argsort(flat, kind="stable")
        first = int(np.argmax(flat[order][1:] == flat[order][:-1]))
        one, other = (
            f"{buffer.name}[{', '.join(str(int(i)) for i in np.unravel_index(order[at], given.shape))}]"
            for at in (first, first + 1)
        )
        raise ArgumentError(
            f"{one} and {other} are both {flat[order[first]]}, and the kernel declares '{format_buffer(buffer)}': "
            f"pass numbers of which no two are equal, or take `distinct` away, so that writes stay in order",
            "not-distinct",
        )
