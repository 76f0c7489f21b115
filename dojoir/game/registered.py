"""`dojoir/Kernel-v0` in the registry of Gymnasium.

Before version 1.0 Gymnasium calls `register` as it is imported (entry point `gymnasium.envs`). Since then it
looks at no entry points: `gymnasium.make("dojoir.game:dojoir/Kernel-v0")` imports what registers it.
"""

from __future__ import annotations

NAME = "dojoir/Kernel-v0"


def register() -> None:
    """Registers the environment, once. Its module is imported when one is made."""
    from gymnasium.envs import registration

    if NAME not in registration.registry:
        registration.register(NAME, entry_point="dojoir.game.environment:KernelEnv")
