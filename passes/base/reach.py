"""The reach of a move: the part of a kernel that may decide whether it is legal."""

from __future__ import annotations

from enum import Flag, auto


class Reach(Flag):
    """The part of a kernel that decides the answers about a family of moves. It is a claim about `rewrite`:
    answers are kept by what they follow from, and given again for other kernels that agree in it. `KERNEL`, the
    default, claims nothing.

    Whatever the reach, a rewrite may look at the sizes, the facts and the fp mode, at its arguments, and at the
    declarations of the buffers that are used in what it looks at, and whether these are used elsewhere.
    """

    KERNEL = 0
    """All of the kernel."""

    NODE = auto()
    """The node at the first place, and the extents and conditions of what is around it: all other places are a nest
    below. It is rewritten in the same way wherever it stands."""

    CHILDREN = auto()
    """The children of the kernel from the first to the last that hold one of its places."""

    USERS = auto()
    """The same with those that use one of its buffers: only together with `CHILDREN`."""

    PANE = CHILDREN | USERS
    """The children from the first to the last that hold a place or a use of a buffer."""
