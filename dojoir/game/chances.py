"""How likely a move is to be legal that nobody has proved: the share of its family that was, in random walks.

Drawn on 13 kernels of the library (10,850 candidates, 70 % of them legal), each family with four more of the whole.
On ten others (8,386 candidates) the mean square of what the share is off by is 0.127, where that of one number for
all is 0.199. What was said to be legal with less than 0.2, from 0.4 to 0.6, and with 0.8 or more was so for 18, 52
and 93 of a hundred. Of choices for CPUs (1,024 on eight other kernels) it is 0.152 and 0.220.
"""

from __future__ import annotations

from collections.abc import Mapping

OTHERS = 0.7
"""The chance of a family that was hardly ever drawn."""

SHARES: Mapping[str, float] = {
    "set_extent": 0.04, "delete_temporary": 0.04, "remove_guard": 0.06, "join_scopes": 0.07, "unpeel": 0.07,
    "drop_condition": 0.09, "inline": 0.12, "recompute": 0.12, "share_buffer": 0.13, "unshare_buffer": 0.14,
    "place": 0.19, "hoist": 0.2, "sink_scope": 0.22, "swap_siblings": 0.22, "unroll": 0.31, "unstage": 0.34,
    "join_ranges": 0.35, "merge_reduction": 0.41, "stage": 0.42, "reuse_dims": 0.52, "parallelize": 0.58,
    "swap_scopes": 0.6, "lift_scope": 0.6, "tile": 0.61, "vectorize": 0.65, "split_dim": 0.69, "split_scopes": 0.71,
    "split_reduction": 0.76, "peel": 0.77, "unsplit": 0.82, "reverse_scope": 0.82, "extract_subexpression": 0.86,
    "remove_scope": 0.86, "split": 0.89, "skew": 0.91, "cut": 0.91, "pad_dims": 0.92, "unmark": 0.93,
    "unprefetch": 0.96, "shift": 0.97, "reorder_dims": 0.97, "to_fma": 0.97, "stream": 0.97, "stream_large": 0.98,
    "add_scope": 0.99, "prefetch": 0.99,
    "register_tile": 0.9, "blocks": 0.9, "lanes": 0.86, "without": 0.65, "default_schedule": 0.89, "simplify": 0.31,
    "join_all": 0.1, "arrange": 0.5, "structure": 0.2,
}  # fmt: skip
"""By family; the last lines are choices, those for a GPU by a guess."""


def chance(name: str) -> float:
    """The chance that what is offered can be made without a proof before: of the family of a move or a choice, or
    of a choice by its text."""
    return SHARES.get(name, OTHERS)
