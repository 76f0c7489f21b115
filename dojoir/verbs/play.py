"""`dojoir play`: a person plays the game that agents play."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator

import dojoir
from dojoir import runtime
from dojoir.cli.error_report import report
from dojoir.cli.output import write_result
from dojoir.cli.screen import progress
from dojoir.support.files import write_file
from dojoir.support.seconds import format_seconds
from dojoir.verbs.kernel_options import check_writable, kernel_of, sizes_of

HELP = """\
list [WORD]   the legal moves here, by number (those with WORD in them)
NUMBER        make the move of that number, and show what it changed
MOVE          make a move by its text, such as split(@i, 16)
undo          take the last move back
explain       the meaning of the last error or refusal, and its cure
explain WHAT  why a move is legal or not; what a code, a move or a mark means
diff          what all moves changed
time          how fast it is, beside the start
hint          a few moves that may be good, by an estimate from the text
show          the kernel
moves         what was done so far
save FILE     write the moves as a trace, or the text to a file *.dojo
quit          the end
"""

HINTS = 5
TRIED = 40
"""How many moves are looked at for a hint: an estimate takes milliseconds, a rewrite more."""


def play(options: argparse.Namespace) -> int:
    """Reads commands from stdin until its end. A command that is wrong is told, and the game goes on; what is
    illegal is refused with its reason."""
    kernel = kernel_of(options)
    game = _Game(options, kernel, sizes_of(options, kernel))
    interactive = sys.stdin is not None and sys.stdin.isatty()
    write_result(f"{game.show()}type help for what you can do\n" if interactive else game.show(), None)
    for line in _lines(interactive):
        word = line.strip()
        if word in ("quit", "exit", "q"):
            break
        try:
            write_result(game.answer(word), None)
        except dojoir.DojoError as error:
            game.refused = error.diagnostic.code
            report(error, options.json)
    if options.save_trace:
        game.trace.save(options.save_trace)
    return 0


def _lines(interactive: bool) -> Iterator[str]:
    while sys.stdin is not None:
        if interactive:
            sys.stderr.write("dojoir> ")
            sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line


class _Game:
    """A trace, and what a person may do with it."""

    def __init__(self, options: argparse.Namespace, kernel: dojoir.Kernel, sizes: dict[str, int]) -> None:
        self.options, self.sizes, self.trace = options, sizes, dojoir.Trace(kernel)
        self.listed: tuple[str, list[dojoir.Move]] = ("", [])
        self.refused = ""  # the code of the last error

    def show(self) -> str:
        return str(self.trace.kernel)

    def answer(self, word: str) -> str:
        """The output of a command. Raises DojoError for one that cannot be done."""
        command, _, rest = word.partition(" ")
        match command:
            case "help" | "?":
                return HELP
            case "show":
                return self.show()
            case "moves":
                return "".join(f"{move}\n" for move in self.trace.moves) or "nothing yet\n"
            case "list" | "ls":
                moves = self._legal()
                chosen = [(i, move) for i, move in enumerate(moves, 1) if rest in str(move)]
                return "".join(f"{i:5}  {move}\n" for i, move in chosen) or "no such move\n"
            case "undo":
                before = self.trace.kernel
                self.trace.undo()
                return _diff(before, self.trace.kernel)
            case "diff":
                return _diff(self.trace.start, self.trace.kernel)
            case "save":
                return self._save(rest.strip())
            case "explain":
                return self._explain(rest.strip())
            case "time":
                return self._timed()
            case "hint":
                return self._hint()
        if word.isdigit():
            moves = self._legal()
            if not 1 <= int(word) <= len(moves):
                raise dojoir.ArgumentError(f"there are moves 1 to {len(moves)} here, not {word}", "bad-arguments")
            return self._made(moves[int(word) - 1])
        if "(" not in word:
            raise dojoir.ArgumentError(f"there is no command '{word}': type help", "bad-arguments")
        return self._made(word)

    def _made(self, move: dojoir.Move | str) -> str:
        before = self.trace.kernel
        self.trace.apply(move)
        return _diff(before, self.trace.kernel)

    def _save(self, name: str) -> str:
        if not name:
            raise dojoir.ArgumentError(
                "save is written with a file: save trace.json, save kernel.dojo", "bad-arguments"
            )
        check_writable(name)
        if name.endswith(".dojo"):
            write_file(name, self.show())
            return f"{name}: the kernel after {len(self.trace.moves)} moves\n"
        self.trace.save(name)
        return f"{name}: {len(self.trace.moves)} moves; dojoir-opt --replay {name} makes them again\n"

    def _explain(self, what: str) -> str:
        """The verdict on a move with the meaning of its code; for a word, what is known by that name."""
        if not what and not self.refused:
            raise dojoir.ArgumentError("nothing was refused yet: explain a move, such as explain split(@i, 16)",
                                       "bad-arguments")  # fmt: skip
        if "(" not in what:
            return _meaning(what or self.refused)
        verdict = dojoir.check(self.trace.kernel, what)
        return f"{verdict}\n" + ("" if verdict else _meaning(verdict.code))

    def _legal(self) -> list[dojoir.Move]:
        text = self.show()
        if self.listed[0] != text:
            with progress("looking for legal moves"):
                self.listed = text, list(dojoir.moves(self.trace.kernel, self.options.target))
        return self.listed[1]

    def _estimate(self, kernel: dojoir.Kernel) -> float:
        return dojoir.search.estimate(kernel, self.sizes, self.options.target, self.options.threads)

    def _timed(self) -> str:
        start, now = self.trace.start, self.trace.kernel
        if self.options.timer == "static":
            first, seconds = self._estimate(start), self._estimate(now)
            about = f"an estimate: {format_seconds(seconds)}, {first / seconds:.2f}x as fast as the start"
            return f"{about}\n"
        with progress("timing"):
            together = dojoir.measure_together(
                [now, start], self.options.target, threads=self.options.threads, sizes=self.sizes
            )
        ratio = runtime.ratio_of(together.measurements[1], together.measurements[0])
        seconds = together.measurements[0].seconds
        return f"{format_seconds(seconds)}, {ratio} as fast as the start\n"

    def _hint(self) -> str:
        moves = self._legal()
        step = max(1, len(moves) // TRIED)
        before = self._estimate(self.trace.kernel)
        found = []
        for number in range(0, len(moves), step):
            after = self._estimate(dojoir.apply(self.trace.kernel, moves[number]))
            found.append((before / after, number + 1))
        found.sort(reverse=True)
        lines = [f"{n:5}  {moves[n - 1]}  about {ratio:.2f}x\n" for ratio, n in found[:HINTS] if ratio > 1.001]
        return "".join(lines) or "no single move that was looked at promises more; try two in a row\n"


def _diff(before: dojoir.Kernel, after: dojoir.Kernel) -> str:
    """The lines that changed, with two around them."""
    lines = list(difflib.unified_diff(str(before).splitlines(), str(after).splitlines(), lineterm="", n=2))[2:]
    return "".join(f"{line}\n" for line in lines) or "nothing changed\n"


def _meaning(name: str) -> str:
    """The meaning of a code, a move, a pass or a mark of this name. Raises ArgumentError where there is none."""
    from dojoir.know import exact

    found = exact(name)
    if not found:
        raise dojoir.ArgumentError(f"there is no code, move, pass or mark '{name}': explain takes one, or a move",
                                   "bad-arguments")  # fmt: skip
    return f"{name}: {found[0].document.text}\n"
