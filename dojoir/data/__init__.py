"""Data sets of what was played: steps, episodes, chats and pairs of the runs that searches, games and rollouts
left.

`docs/data.md` says what stands in a line, and how what is there is proved again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dojoir.support.lazily import lazily

if TYPE_CHECKING:
    from dojoir.data.chat_examples import chats, pairs
    from dojoir.data.checking import check
    from dojoir.data.dataset_lines import Dataset, Pair, RecordedEpisode, RecordedStep, TrainingChat
    from dojoir.data.exporting import Filters, export, read_about, read_episodes, read_steps
    from dojoir.data.recorded import Recorded
    from dojoir.data.splitting import split_of
    from dojoir.data.training import Trained, Training, check_training, read_training, smoke, train

__all__ = [
    "Dataset", "Filters", "Pair", "Recorded", "RecordedEpisode", "RecordedStep", "Trained", "Training",
    "TrainingChat", "chats", "check", "check_training", "export", "pairs", "read_about", "read_episodes",
    "read_steps", "read_training", "smoke", "split_of", "train",
]  # fmt: skip
__getattr__, __dir__ = lazily(
    __name__, Chat="dojoir.data.TrainingChat", Episode="dojoir.data.RecordedEpisode",
    Step="dojoir.data.RecordedStep",
)  # fmt: skip
