"""`dojoir know`: retrieval over what dojoir has written down."""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING

import dojoir
from dojoir.cli.chunks import display_name, read_input
from dojoir.verbs.kernel_options import answered, database_there

if TYPE_CHECKING:
    from dojoir.know import Document

SHOWN = 3
"""How many lines of a document are shown where several answer."""


def know(options: argparse.Namespace) -> int:
    """Answers a question of words, or of likeness. Raises DojoError."""
    question = " ".join(options.question).strip()
    if bool(question) == bool(options.like):
        options.refuse('ask either by words or by --like KERNEL, such as dojoir know "rows bound by memory"')
    words = ("kind", "notes", "runs", "db")
    for given, word in ((getattr(options, name), f"--{name}") for name in words):
        if options.like and given:
            options.refuse(f"{word} is for questions of words")
    if (options.sizes or options.measure) and not options.like:
        options.refuse(f"--{'size' if options.sizes else 'measure'} goes with --like")
    if options.measure and not options.sizes:
        options.refuse("--measure needs the sizes to measure at: -s NAME=INT")
    return _like(options) if options.like else _asked(options, question)


def _asked(options: argparse.Namespace, question: str) -> int:
    from dojoir.know import known

    hits = known(question, count=options.count, kind=options.kind, more=more_documents(options))
    text = ""
    for hit in hits:
        one = hit.document
        lines = one.text.splitlines()
        shown = lines if len(hits) == 1 else [line for line in lines if line.strip()][:SHOWN]
        text += f"{one.kind} {one.name} ({one.where}; {hit.score:.2f})\n"
        text += "".join(f"  {line}".rstrip() + "\n" for line in shown)
    return answered(options, {"know": [hit.to_json() for hit in hits]}, text)


def more_documents(options: argparse.Namespace) -> list[Document]:
    """The notes, runs and databases that are named, as documents. Raises DojoError."""
    from dojoir.know import notes_in

    more = notes_in(options.notes) if options.notes else []
    return [*more, *(_recorded(options) if options.runs or options.db else ())]


def _recorded(options: argparse.Namespace) -> list[Document]:
    """The moves that gained in the runs and databases that are named. Raises DojoError."""
    from dojoir.know import recorded

    with contextlib.ExitStack() as stack:
        databases = []
        for url in options.db:
            database = database_there(argparse.Namespace(db=url))
            databases.append(stack.enter_context(database))
        return recorded(options.runs, databases)


def _like(options: argparse.Namespace) -> int:
    from dojoir.game.environment_arguments import sizes_of
    from dojoir.know import like, race

    kernel = dojoir.parse(read_input(options.like), display_name(options.like))
    dojoir.prove(kernel)
    sizes = sizes_of(kernel, dict(options.sizes)) if options.sizes else None
    found = like(kernel, count=options.count, target=options.target, sizes=sizes, tried=options.tried)
    raced = race(kernel, found, sizes, options.target) if options.measure and sizes else None
    text = ""
    for one in found:
        text += f"{one.kernel}: alike {one.likeness:.2f} ({', '.join(one.common[:6])})\n"
        for tried in one.schedules:
            ratio = "" if tried.ratio is None else f"; about {tried.ratio:.2f}x as fast as default_schedule"
            text += f"  schedule {tried.shown}: {tried.made} of {tried.moves} moves are legal{ratio}\n"
    data: dict[str, object] = {"like": [one.to_json() for one in found]}
    if options.measure:
        said = "nothing but the default came out"
        said = said if raced is None else f"of {raced.timed} timed: {raced}\n{raced.text}"
        text += f"measured: {said}\n"
        data["measured"] = None if raced is None else raced.to_json()
    return answered(options, data, text)
