"""The record of tried states and their speed: a database of kernels, states, builds, verifications and
measurements.

It stands on SQLAlchemy (`pip install 'dojoir[agents]'`), on a file of SQLite or on a PostgreSQL by its URL
(`pip install 'dojoir[db]'`). A search writes it state by state and reads from it what need not be done again;
`dojoir.optimize(..., db=database)` takes the fastest verified trace that it has for a kernel, a machine and sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dojoir.support.lazily import lazily

if TYPE_CHECKING:
    from dojoir.records.contexts import Context
    from dojoir.records.database import VARIABLE, Database
    from dojoir.records.exchange import RunLines, export_lines, import_lines, merge
    from dojoir.records.lines import states_in
    from dojoir.records.overview import RunSummary, find_state, run_summaries, state_results
    from dojoir.records.state import State, evaluation_of
    from dojoir.records.upkeep import check, prune

__all__ = [
    "VARIABLE", "Context", "Database", "RunLines", "RunSummary", "State", "check", "evaluation_of",
    "export_lines", "find_state", "import_lines", "merge", "prune", "run_summaries", "state_results",
    "states_in",
]  # fmt: skip
__getattr__, __dir__ = lazily(
    __name__, Known="dojoir.runtime.Evaluation", Result="dojoir.runtime.Evaluation",
    Ranked="dojoir.records.State", StateResult="dojoir.records.State",
)  # fmt: skip
