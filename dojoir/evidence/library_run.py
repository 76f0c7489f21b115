"""A library in one command: each kernel tuned for each target and size, gated, and written with what it gained.

What is done stands in the manifest, which is written after each of them: a second run goes on where one was
stopped. Each search leaves its bundle in `runs`, and one that was under way goes on by that.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dojoir
from dojoir.cli.output import writing
from dojoir.evidence.benching import raced
from dojoir.evidence.bundle import BENCH, ENDINGS, GATES
from dojoir.evidence.figures import sizes_in_words
from dojoir.evidence.gates import Gates
from dojoir.evidence.writing import begun_or_resumed, store_of
from dojoir.passes import Versions
from dojoir.records.plain_data import from_data, to_data
from dojoir.search.memory import check_same
from dojoir.support.files import write_file

FORMAT, VERSION = "dojoir-made", 1
MANIFEST, TABLE, RUNS = "library.json", "library.md", "runs"
DONE, FAILED, UNAVAILABLE = "done", "failed", "unavailable"

Gated = Callable[[dojoir.Trace, str, Mapping[str, int], int], Gates]
"""Asks the gates of a trace for a target, sizes and threads."""

LONGEST = 60
"""How many characters the name of a wish has at most."""

Tune = Callable[..., dojoir.search.Tuned]
Say = Callable[[str], object]


@dataclass(frozen=True)
class Wish:
    """A request: a kernel for a target at some sizes."""

    kernel: dojoir.Kernel
    target: str
    sizes: Mapping[str, int]

    @property
    def name(self) -> str:
        """A name for its files, the same for the same wish."""
        sizes = "-".join(f"{name}{value}" for name, value in sorted(self.sizes.items()))
        words = [self.kernel.name, self.target, sizes, self.kernel.hash[:8]]
        name = re.sub(r"[^\w-]+", "_", "-".join(word for word in words if word))
        if len(name) <= LONGEST:
            return name
        return f"{name[: LONGEST - 13]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class RequestOutcome:
    """The outcome of a request: `done`, `failed`, or `unavailable` where a compiler or a device is missing, with
    the reason. `ratio` is how many times as fast it is as the text, with its interval, `to_optimize` as what the
    rules give; None where nothing was timed. `gates` has the status of each gate; none where none was asked."""

    name: str
    kernel: str
    start: str
    target: str
    sizes: Mapping[str, int]
    status: str
    reason: str = ""
    result: str = ""
    moves: tuple[str, ...] = ()
    ratio: tuple[float, float, float] | None = None
    to_optimize: tuple[float, float, float] | None = None
    gates: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether it was made, and no gate says otherwise."""
        return self.status == DONE and all(status == "pass" for status in self.gates.values())


@dataclass(frozen=True)
class Shelf:
    """A library that was made: all that became of it, and the folders of compiled ones with what was written, or
    why they were not."""

    folder: Path
    made: tuple[RequestOutcome, ...]
    libraries: Mapping[str, str]
    settings: Mapping[str, Any]

    @property
    def passed(self) -> bool:
        return all(one.passed for one in self.made)

    def to_json(self) -> dict[str, Any]:
        """The manifest: what was made, and the digests of all files beside it."""
        return {
            "format": FORMAT, "version": VERSION, "dojoir": dojoir.__version__, "settings": dict(self.settings),
            "made": to_data(self.made), "libraries": dict(self.libraries),
            "files": {name: _digest(self.folder / name) for one in self.made for name in one.files},
        }  # fmt: skip

    def __str__(self) -> str:
        """A table of what each gained."""
        head = ["kernel", "target", "sizes", "moves", "times as fast as the text", "as the rules", "gates"]
        rows = [head, ["---"] * len(head), *map(_row, self.made)]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join([*lines, "", *(f"- `{name}`: {said}" for name, said in self.libraries.items())])


def _row(one: RequestOutcome) -> list[str]:
    sizes = sizes_in_words(one.sizes)
    if one.status != DONE:
        return [one.kernel, one.target, sizes, "", f"{one.status}: {one.reason.replace('|', '/')}", "", ""]
    wrong = [f"{name} {status}" for name, status in one.gates.items() if status != "pass"]
    gates = "not asked" if not one.gates else ", ".join(wrong) or "all pass"
    ratios = ["" if r is None else f"{r[0]:.3g} ({r[1]:.3g} to {r[2]:.3g})" for r in (one.ratio, one.to_optimize)]
    return [one.kernel, one.target, sizes, str(len(one.moves)), *ratios, gates]


def make(
    wishes: Sequence[Wish],
    folder: Path,
    *,
    seconds: float = 60.0,
    states: int | None = None,
    threads: int = 1,
    seed: int = 0,
    timer: str = "measure",
    strategy: str = "beam",
    gate: Gated | None = None,
    tune: Tune = dojoir.tune,
    say: Say = lambda _: None,
) -> Shelf:
    """Makes what is wished for, or what is left of it, and writes it to a folder. A manifest `library.json`, a
    table `library.md`, `traces`, `schedules`, `sources` and `runs`, and a compiled library for each target in C.

    Each search lasts `seconds`, or takes `states`. What fails does not stop the others. Raises ArgumentError for no
    wishes, for two of one name, for a folder that cannot be written, and one that holds a library of other settings
    (`another-library`)."""
    if not wishes:
        raise dojoir.ArgumentError("there is nothing to make: name at least one kernel", "empty-library")
    names = [wish.name for wish in wishes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise dojoir.ArgumentError(f"{twice} is asked for twice: leave one out", "bad-arguments")
    settings = {"seconds": seconds, "states": states, "threads": threads, "seed": seed, "timer": timer,
                "strategy": strategy, "gated": gate is not None}  # fmt: skip
    known = _known_outcomes(folder, settings)
    _check_folder(folder)
    made: dict[str, RequestOutcome] = {}
    for wish in wishes:
        before = known.get(wish.name)
        if before is not None and before.status == DONE and _is_whole(folder, before):
            made[wish.name] = before
            say(f"{wish.name}: done before")
            continue
        say(f"{wish.name}: searching")
        try:
            made[wish.name] = _searched(wish, folder, settings, tune, gate)
        except dojoir.DojoError as error:
            status = UNAVAILABLE if isinstance(error, dojoir.ToolchainError) else FAILED
            made[wish.name] = _of(wish, status, error.diagnostic.message)
        say(f"{wish.name}: {made[wish.name].status} {made[wish.name].reason}".rstrip())
        _save(Shelf(folder, tuple(made.values()), {}, settings))
    shelf = Shelf(folder, tuple(made.values()), {}, settings)
    shelf = replace(shelf, libraries=dict(_libraries(wishes, shelf)))
    _save(shelf)
    return shelf


def _of(wish: Wish, status: str, reason: str = "") -> RequestOutcome:
    sizes = dict(wish.sizes)
    return RequestOutcome(wish.name, wish.kernel.name, wish.kernel.hash, wish.target, sizes, status, reason)


def _searched(
    wish: Wish, folder: Path, settings: Mapping[str, Any], tune: Tune, gate: Gated | None
) -> RequestOutcome:
    """Searches, in a bundle of its own, asks the gates, and writes what came out. Raises DojoError, and
    KeyboardInterrupt where the search was stopped."""
    runs, threads = folder / RUNS, settings["threads"]
    given = {name: settings[name] for name in ("threads", "seed", "timer", "strategy")}
    with store_of(runs) as database:
        around = begun_or_resumed(
            runs, wish.name, wish.kernel, database, target=wish.target, sizes=[wish.sizes], threads=threads,
            settings=settings,
        )  # fmt: skip
        with around as writer:
            tuned = tune(
                wish.kernel, wish.target, sizes=wish.sizes, db=database, run=writer.run.database, **given,
                budget=dojoir.Budget(seconds=settings["seconds"], states=settings["states"]),
                progress=lambda *_: writer.states(),
            )  # fmt: skip
            if tuned.stopped == "interrupted":
                raise KeyboardInterrupt
            writer.answer(tuned.trace)
            writer.machine()
            gates = None if gate is None else gate(tuned.trace, wish.target, wish.sizes, threads)
            for name, found in ((GATES, gates), (BENCH, raced(tuned, wish.target, threads))):
                if found is not None:
                    writer.data(name, found)
            writer.end("done", tuned.stopped)
    return _written(wish, tuned, folder, {} if gates is None else {one.name: one.status for one in gates.gates})


def _written(wish: Wish, tuned: dojoir.search.Tuned, folder: Path, gates: Mapping[str, str]) -> RequestOutcome:
    """Writes what a search came to."""
    trace, plain = tuned.trace, wish.target.partition("@")[0]
    files = [f"traces/{wish.name}.json", f"sources/{wish.name}.{ENDINGS.get(plain, 'c')}"]
    trace.save(folder / files[0])
    write_file(folder / files[1], dojoir.emit(trace.kernel, wish.target))
    if trace.moves and all(status == "pass" for status in gates.values()):
        when = [f"{name} == {value}" for name, value in sorted(wish.sizes.items())]
        path = dojoir.schedules.store(trace, plain, folder / "schedules", when=when)
        files.append(f"schedules/{path.name}")

    def plainly(gain: Any) -> tuple[float, float, float] | None:
        return None if gain is None else (gain.median, gain.low, gain.high)

    return replace(
        _of(wish, DONE), result=trace.kernel.hash, moves=tuple(str(move) for move in trace.moves),
        ratio=plainly(tuned.ratio), to_optimize=plainly(tuned.ratio_to_optimize), gates=dict(gates),
        files=tuple(files),
    )  # fmt: skip


def _libraries(wishes: Sequence[Wish], shelf: Shelf) -> Iterator[tuple[str, str]]:
    """Writes a compiled library for each target, of all kernels that passed; gives what it says, or why not."""
    passed = {one.name: one for one in shelf.made if one.passed}
    for target in dict.fromkeys(wish.target for wish in wishes):
        own = [wish for wish in wishes if wish.target == target and wish.name in passed]
        plain = target.partition("@")[0]
        in_c = "c" if plain == "llvm" else plain
        if not own:
            yield target, "no kernel passed"
            continue
        try:
            kernels = [
                _versions([wish for wish in own if wish.kernel == kernel], shelf.folder)
                for kernel in dict.fromkeys(wish.kernel for wish in own)
            ]
            written = dojoir.write_library(kernels, shelf.folder / in_c, name="kernels", target=in_c, check=False)
            yield target, f"{in_c}/: {', '.join(written.files)}"
        except dojoir.DojoError as error:
            yield target, f"not written: {error.diagnostic.message}"


def _versions(wishes: Sequence[Wish], folder: Path) -> Any:
    """The trace of a kernel, or what chooses one of several by the sizes of a call: the first at others."""
    traces = [dojoir.Trace.load(folder / f"traces/{wish.name}.json") for wish in wishes]
    if len(traces) == 1:
        return traces[0]
    lines = [", ".join(f"{name} == {value}" for name, value in sorted(wish.sizes.items())) for wish in wishes]
    return Versions([*zip(traces[1:], ([line] for line in lines[1:]), strict=True), traces[0]])


# -- the folder --------------------------------------------------------------------------------------------
def _check_folder(folder: Path) -> None:
    with writing(folder):
        for name in ("traces", "sources", "schedules"):
            (folder / name).mkdir(parents=True, exist_ok=True)


def _known_outcomes(folder: Path, settings: Mapping[str, Any]) -> dict[str, RequestOutcome]:
    """The results that are already in a folder, by name."""
    path = folder / MANIFEST
    if not path.exists():
        if folder.is_dir() and any(folder.iterdir()) and not (folder / RUNS).is_dir():
            raise dojoir.ArgumentError(f"{folder} holds something else: name another folder", "not-empty")
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT or data["version"] != VERSION:
            raise ValueError
        begun = data["settings"]
        found = [from_data(RequestOutcome, one, f"{path}.made") for one in data["made"]]
    except (OSError, ValueError, KeyError, TypeError):
        message = f"{path} is no manifest of version {VERSION} of a library: name another folder"
        raise dojoir.ArgumentError(message, "bad-record") from None
    code = "another-library"
    check_same(f"the library in {folder}", begun, settings, code)
    return {one.name: one for one in found}


def _is_whole(folder: Path, one: RequestOutcome) -> bool:
    """Whether the files of what was made are there, and their trace leads where it did."""
    if not all((folder / name).is_file() for name in one.files):
        return False
    try:
        return dojoir.Trace.load(folder / one.files[0]).kernel.hash == one.result
    except (dojoir.DojoError, IndexError):
        return False


def _save(shelf: Shelf) -> None:
    write_file(shelf.folder / MANIFEST, json.dumps(shelf.to_json(), indent=1) + "\n")
    write_file(shelf.folder / TABLE, f"{shelf}\n")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
