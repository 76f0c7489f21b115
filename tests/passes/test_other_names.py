"""What moves are called elsewhere: each word leads to something that can be written."""

from __future__ import annotations

import dojoir
from dojoir.passes import COMBINATORS
from dojoir.passes.engine.other_names import _CALLED, OTHER_NAMES, meant_by


def test_every_word_leads_to_a_pipeline() -> None:
    words = [word for given in _CALLED.values() for word in given.split()]
    assert len(words) == len(set(words)) == len(OTHER_NAMES)
    ours = {kind.name for kind in dojoir.MOVES} | {*dojoir.PASSES, *COMBINATORS}
    assert not ours & set(words)
    for here in _CALLED:
        assert here == "optimize" or dojoir.parse_pipeline(here)


def test_what_is_said() -> None:
    assert meant_by("fuse", []) == "; did you mean join_scopes(0, 1), which others call fuse?"
    assert meant_by("splt", ["split"]) == "; did you mean 'split'?"
    assert meant_by("qqq", ["split"]) == ""
