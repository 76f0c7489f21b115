"""`dojoir dataset`: data sets of runs, chats and pairs of them, and their proof."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import dojoir
from dojoir.cli.error_report import DIFFERS, FINE
from dojoir.cli.streams import say
from dojoir.verbs.kernel_options import answered, check_writable, told


def export(options: argparse.Namespace) -> int:
    """Writes a data set of runs. Raises DojoError."""
    from dojoir.data import Filters
    from dojoir.data import export as exported
    from dojoir.records.plain_data import to_data

    filters = Filters(
        tuple(options.kernels), tuple(options.targets), tuple(options.splits), tuple(options.labels),
        options.protocol, options.least, tuple(options.families),
    )  # fmt: skip
    found = exported(
        [Path(one) for one in options.places], Path(options.output), filters=filters, cards=options.cards,
        say=told(options),
    )  # fmt: skip
    lines = [f"{options.output}: {found.counts['steps']} steps and {found.counts['episodes']} episodes of "
             f"{len(found.runs)} runs, {found.duplicates} duplicates left out"]  # fmt: skip
    for name, counts in (("splits", found.splits), ("labels", found.labels)):
        lines.append(f"{name}: {', '.join(f'{count} {word}' for word, count in counts.items())}")
    lines += [f"left out: {one}" for one in found.left_out]
    answer = {"dataset": {**to_data(found), "starts": len(found.starts)}}
    return answered(options, answer, "".join(f"{one}\n" for one in lines))


def sft(options: argparse.Namespace) -> int:
    """Writes chats."""
    from dojoir.data import chats

    return _lines(options, chats, "chats")


def pairs(options: argparse.Namespace) -> int:
    """Writes pairs."""
    from dojoir.data import pairs as paired

    return _lines(options, paired, "pairs")


def _lines(options: argparse.Namespace, make: object, what: str) -> int:
    from dojoir.data import Filters, read_about, read_steps
    from dojoir.data.dataset_lines import ABOUT, EPISODES, STEPS
    from dojoir.data.exporting import lines_written

    check_writable(options.output)
    folder = Path(options.folder)
    read_about(folder)
    if Path(options.output).resolve() in [(folder / name).resolve() for name in (STEPS, EPISODES, ABOUT)]:
        message = f"{options.output} is a file of the data set itself: write to another one"
        raise dojoir.ArgumentError(message, "cannot-write")
    splits = options.splits or ["train"]
    assert callable(make)
    given = Filters(tuple(options.kernels), tuple(options.targets), tuple(splits), (), options.protocol)
    answers = Filters(labels=tuple(options.labels), families=tuple(options.families))
    made = [*make(filter(given.takes, read_steps(folder)), answers.takes)]
    if not made:
        raise dojoir.ArgumentError(f"{folder} has no {what} of the split {' or '.join(splits)}", "empty-dataset")
    written = lines_written(Path(options.output), made)
    said = {what: written.lines, "file": options.output, "sha256": written.sha256}
    text = f"{options.output}: {written.lines} {what} of the split {' and '.join(splits)}\n"
    return answered(options, {"written": said}, text)


def check(options: argparse.Namespace) -> int:
    """Proves a data set again; status 3 where something is wrong."""
    from dojoir.data import check as checked
    from dojoir.records.plain_data import to_data

    def note(count: int) -> None:
        if count % 100 == 0:
            say(json.dumps({"progress": count}) if options.json else f"{count} steps proved again")

    found = checked(Path(options.folder), options.sample, options.seed, note)
    data = {"check": {**to_data(found), "ok": found.ok}}
    return answered(options, data, f"{found}\n", FINE if found.ok else DIFFERS)
