"""`dojoir play`: a person plays the game that agents play."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import dojoir
from dojoir.cli.output import write_result
from dojoir.cli.report import report
from dojoir.cli.screen import progress
from dojoir.verbs.given import kernel_of, sizes_of

HELP = """\
list [WORD]   the legal moves here, by number (those with WORD in them)
NUMBER        make the move of that number
MOVE          make a move by its text, such as split(@i, 16)
undo          take the last move back
time          how fast it is, beside the start
hint          a few moves that may be good, by an estimate from the text
show          the kernel
moves         what was done so far
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

    def show(self) -> str:
        return str(self.trace.kernel)

    def answer(self, word: str) -> str:
        """What a command prints. Raises DojoError for one that cannot be done."""
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
                self.trace.undo()
                return self.show()
            case "time":
                return self._timed()
            case "hint":
                return self._hint()
        if word.isdigit():
            moves = self._legal()
            if not 1 <= int(word) <= len(moves):
                raise dojoir.ArgumentError(f"there are moves 1 to {len(moves)} here, not {word}", "bad-arguments")
            self.trace.apply(moves[int(word) - 1])
            return self.show()
        if "(" not in word:
            raise dojoir.ArgumentError(f"there is no command '{word}': type help", "bad-arguments")
        self.trace.apply(word)
        return self.show()

    def _legal(self) -> list[dojoir.Move]:
        text = self.show()
        if self.listed[0] != text:
            with progress("looking for legal moves"):
                self.listed = text, list(dojoir.moves(self.trace.kernel, self.options.target))
        return self.listed[1]

    def _estimate(self, kernel: dojoir.Kernel) -> float:
        return dojoir.estimate(kernel, self.sizes, self.options.target, self.options.threads)

    def _timed(self) -> str:
        start, now = self.trace.start, self.trace.kernel
        if self.options.timer == "static":
            first, seconds = self._estimate(start), self._estimate(now)
            about = f"an estimate: {dojoir.format_seconds(seconds)}, {first / seconds:.2f}x as fast as the start"
            return f"{about}\n"
        with progress("timing"):
            together = dojoir.measure_together(
                [now, start], self.options.target, threads=self.options.threads, sizes=self.sizes
            )
        ratio = dojoir.ratio_of(together.measurements[1], together.measurements[0])
        seconds = together.measurements[0].seconds
        interval = dojoir.search.Gain(ratio.median, ratio.low, ratio.high)
        return f"{dojoir.format_seconds(seconds)}, {interval} as fast as the start\n"

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
