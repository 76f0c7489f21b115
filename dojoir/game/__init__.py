"""Scheduling as a game for learning agents: an environment of Gymnasium, encoders, and Max-Q.

A kernel is a state, a legal move an action, its time the score. `import dojoir.game` registers
`dojoir/Kernel-v0`, and so does `gymnasium.make("dojoir.game:dojoir/Kernel-v0")`. The environment needs `pip
install 'dojoir[agents]'`; what learns needs `pip install 'dojoir[learn]'` as well.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from dojoir.support.lazily import lazily

if TYPE_CHECKING:
    from dojoir.game.encoders import Encoder, HashEncoder, encoder
    from dojoir.game.environment import KernelEnv
    from dojoir.game.episodes import Episode, Validation
    from dojoir.game.language import train_encoder
    from dojoir.game.maxq import MaxQ
    from dojoir.game.strategy import MaxQStrategy
    from dojoir.game.suite import Suite, library
    from dojoir.game.vector import Shared, make_vec

__all__ = [
    "Encoder", "Episode", "HashEncoder", "KernelEnv", "MaxQ", "MaxQStrategy", "Shared", "Suite", "Validation",
    "encoder", "library", "make_vec", "train_encoder",
]  # fmt: skip
__getattr__, __dir__ = lazily(__name__)


if find_spec("gymnasium") is not None:
    from dojoir.game.registered import register

    register()
