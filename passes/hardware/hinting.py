"""Hints put on scopes and taken off them, which changes no result."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TypeVar

from dojoir.ir.hints import Hint
from dojoir.ir.nodes import Scope
from dojoir.passes.base.about import Here
from dojoir.passes.base.move import Rewrite
from dojoir.proof.core.hint_rules import hint_error

H = TypeVar("H", bound=Hint)


def hinted(at: Here[Scope], hint: Hint) -> Rewrite:
    """The scope with one hint more. Raises Refusal where that does not fit it."""
    used = replace(at.node, hints=(*at.node.hints, hint))
    done = at.unmoved(used)
    wrong = hint_error(done.kernel, at.path, used)
    if wrong is not None:
        raise at.refusal(wrong.code, re.split("[:;] take (?:one|it) ", wrong.message)[0])
    return done


def hint_of(at: Here[Scope], kind: type[H], about: str, absent: str) -> H:
    """The hint of a scope on a subject. Raises Refusal, with what is said of a scope that has none."""
    for hint in at.node.hints:
        if isinstance(hint, kind) and hint.about == about:
            return hint
    raise at.refusal("no-hint", absent)


def without_hint(at: Here[Scope], gone: Hint) -> Rewrite:
    """The scope without one of its hints."""
    return at.changed(hints=tuple(hint for hint in at.node.hints if hint != gone))
