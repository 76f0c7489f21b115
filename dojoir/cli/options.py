"""The options of `dojoir-opt`: one table, the fields of `Options`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn

import dojoir
from dojoir.cli.hints import hint_for_option, nearest_target
from dojoir.cli.values import positive, seconds, seed, size

EPILOG = """\
A pipeline is a list of moves and passes separated by ; , or line ends: 'join_scopes(0, 1); vectorize(@j)'.
A pass, such as simplify, optimize or default_schedule(avx2), picks moves itself; try(...), repeat(...) and
each(<QUERY>, ...) put moves and passes together.
A place is a path of child indices (0.1), a label (@j), or a query for the one place that it matches, in <>:
'vectorize(<innermost writes y in @i>)'. Only the result goes to stdout.

A query is conditions, one after the other, that must all hold; `not`, `or` and brackets combine them:
  scope guard statement innermost outermost unmarked   what it is
  @i  @tile_*  0.1  0.*  0.**                          its label, its path (* one child index, ** any)
  marked v   extent M   extent (N - 1)                 its mark, its extent
  writes y   accumulates s   reads x   uses t*         what the statements in it do
  "s[...] += ..."                                      how its line reads
  in @i   under @i   has Q   after Q   before Q        where it stands: in, a child of, around, after, before
  first Q   last Q   number 1 Q                        one of those that match Q

exit status: 0 fine; 1 the input is wrong or a move is illegal; 2 usage; 3 results differ;
4 a toolchain or device is missing; 5 time limit; 70 a bug in dojoir.

examples:
  dojoir-opt kernel.dojo                          check and format
  dojoir-opt kernel.dojo --moves                  every legal move here
  dojoir-opt kernel.dojo --find 'innermost writes y'
  dojoir-opt kernel.dojo -p 'split(@j, 16)' --emit c
  dojoir-opt kernel.dojo -p default_schedule --save-trace kernel.json
  dojoir-opt library:matmul --chain library:softmax --rename x=c -p 'join_scopes(0, 1)'
  dojoir-opt kernel.dojo -p @schedule.moves --check --time -s N=4096 -s M=4096
"""


SCHEMAS = (
    "answers", "run", "bench", "gates", "profile", "task", "rollout", "dataset", "step", "episode", "chat", "pair",
)  # fmt: skip
"""The schemas of --schema: of what --json prints, of files in the bundle of a run, of tasks and rollouts, and of
what stands in data sets."""

FORMS = ("asm", "llvm-opt", "lib")
"""The forms of --emit besides the source for a target."""


def _renaming(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (equals and old and new):
        raise argparse.ArgumentTypeError(f"'{text}' is not a renaming: write OLD=NEW, such as x=y")
    return old, new


def _target(text: str) -> str:
    """A target that there is; `llvm@znver3` names a processor as well."""
    if text != "llvm":
        _check_target(text.partition("@")[0], tuple(dojoir.TARGETS))
    return text


def _form(text: str) -> str:
    """The forms of --emit."""
    if text not in FORMS:
        _check_target(text.partition("@")[0], (*dojoir.TARGETS, *FORMS))
    return text


def _check_target(name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        known_ones = f"the targets are {', '.join(known)}"
        raise argparse.ArgumentTypeError(f"there is no target '{name}'{nearest_target(name, known)}; {known_ones}")


def _option(*flags: str, help: str, group: str = "", default: object = None, **rest: object) -> Any:
    """A field of `Options` that flags on the command line set. One that may be repeated is a tuple."""
    return field(metadata={"flags": flags, "group": group, "more": {"help": help, "default": default, **rest}})


def _switch(*flags: str, help: str, group: str = "") -> Any:
    """One that is there or not."""
    return _option(*flags, help=help, group=group, default=False, action="store_true")


def _several(*flags: str, help: str, group: str = "", **rest: object) -> Any:
    """One that may be repeated."""
    return _option(*flags, help=f"{help}; may be repeated", group=group, default=(), action="append", **rest)


WAYS = ("shortcuts", "core")
"""The checkers that prove moves."""

JOINING, MOVING, ASKING, LISTING, CODE, TESTING = (
    "joining kernels", "applying moves", "questions", "lists", "code", "testing"
)  # fmt: skip
"""The groups of options in --help."""


@dataclass(frozen=True)
class Options:
    """The options of the command line. The order is that of --help."""

    input: str = _option("input", nargs="?", default="-", metavar="FILE",
        help="a .dojo file, - for stdin (the default), or library:NAME")  # fmt: skip
    pipeline: str | None = _option("-p", "--pipeline", metavar="PIPELINE",
        help="moves and passes to apply, or @FILE to read them from")  # fmt: skip
    optimize: bool = _switch("-O", "--optimize",
        help="first the stored schedule that fits kernel, sizes and machine, else the default one")  # fmt: skip
    db: str | None = _option("--db", metavar="URL",
        help="for -O: the database of dojoir tune, whose fastest verified trace for kernel, machine and sizes goes "
        "before the stored schedules")  # fmt: skip
    why: bool = _switch("--why", help="say on stderr which schedule -O took, and for what machine")
    measure: bool = _switch("--measure",
        help="for -O: what the model says is near the best is timed here, at the sizes of -s, and the fastest "
        "taken")  # fmt: skip
    load: tuple[str, ...] = _several("--load", metavar="FILE", help="passes of yours, from a Python file")
    structure: tuple[str, ...] = _several("--structure", metavar="NAME",
        help="for -O and --plan: a pass of --load that takes the place of a nest; tried on each")  # fmt: skip
    output: str | None = _option("-o", "--output", metavar="FILE",
        help="write the result there, whole or not at all (an .npz with --run)")  # fmt: skip
    sizes: tuple[tuple[str, int], ...] = _several("-s", "--size", type=size, metavar="NAME=INT",
        help="a runtime size for --run, --check, --time, --cost, --plan and -O")  # fmt: skip
    fp: str | None = _option("--fp", choices=("strict", "reassoc", "fast"),
        help="what rewrites may do to floating point, for the header")  # fmt: skip
    names: bool = _switch("--names", help="write iterators by name, not by depth")
    canonical: bool = _switch("--canonical", help="write the text that the hash is of: no labels, no comments")
    json: bool = _switch("--json", help="answers and errors as JSON; --schema prints what they look like")

    chain: tuple[str, ...] = _several("--chain", metavar="FILE", group=JOINING,
        help="run the kernel of FILE after that of the input, as one kernel joined by the names of "
        "arguments")  # fmt: skip
    rename: tuple[tuple[str, str], ...] = _several("--rename", type=_renaming, metavar="OLD=NEW", group=JOINING,
        help="another name for a size or buffer of the kernels of --chain")  # fmt: skip
    keep: tuple[str, ...] = _several("--keep", metavar="NAME", group=JOINING,
        help="return this output of one kernel, though a later one reads it")  # fmt: skip

    verify_each: bool = _switch("--verify-each", group=MOVING,
        help="prove the kernel well-formed again after every move")  # fmt: skip
    print_after_all: bool = _switch("--print-ir-after-all", group=MOVING,
        help="print the kernel after every move, to stderr")  # fmt: skip
    print_after_change: bool = _switch("--print-ir-after-change", group=MOVING,
        help="the same, where a move changed something")  # fmt: skip
    print_lir: bool = _switch("--print-lir-after-all", group=MOVING,
        help="print what --emit lowers after every pass of the lowering, to stderr")  # fmt: skip
    print_diff: bool = _switch("--print-diff", group=MOVING,
        help="print what each move changed as a diff, to stderr")  # fmt: skip
    timing: bool = _switch("--timing", group=MOVING, help="print how long each step took, to stderr")
    save_trace: str | None = _option("--save-trace", metavar="FILE", group=MOVING,
        help="write the kernel and the moves as a trace")  # fmt: skip
    replay: str | None = _option("--replay", metavar="FILE", group=MOVING,
        help="take kernel and moves from a trace instead of FILE, each checked again")  # fmt: skip
    check_with: str | None = _option("--check-with", choices=WAYS, group=MOVING,
        help="how moves are proved: with all there is for speed, or by the trusted core alone, more slowly "
        "(shortcuts, unless DOJOIR_CHECK says core)")  # fmt: skip
    unsafe: bool = _switch("--unsafe", group=MOVING,
        help="apply moves unchecked, and replay a trace of such; marks the trace")  # fmt: skip

    moves: bool = _switch("--moves", group=ASKING, help="every legal move here, one a line")
    explain: str | None = _option("--explain", metavar="MOVE", group=ASKING,
        help="whether a move is legal, and if not why, with a witness")  # fmt: skip
    find: str | None = _option("--find", metavar="QUERY", group=ASKING,
        help="the places that a query matches, one a line")  # fmt: skip
    cost: bool = _switch("--cost", group=ASKING, help="operations and bytes as formulas in the sizes")
    plan: bool = _switch("--plan", group=ASKING,
        help="what -O chooses from: the time of each by the model, and why others do not fit")  # fmt: skip

    list_passes: bool = _switch("--list-passes", group=LISTING, help="all passes and moves, by what they change")
    help_pass: str | None = _option("--help-pass", metavar="NAME", group=LISTING,
        help="what a pass or move does, with an example")  # fmt: skip
    list_targets: bool = _switch("--list-targets", group=LISTING, help="the targets, and what each gives")
    list_kernels: bool = _switch("--list-kernels", group=LISTING,
        help="the kernels of the library; load one with library:NAME")  # fmt: skip
    doctor: bool = _switch("--doctor", group=LISTING,
        help="what there is here to compile and run kernels with, and what this machine reaches")  # fmt: skip

    schema: str | None = _option("--schema", nargs="?", const="answers", choices=SCHEMAS, metavar="NAME",
        group=LISTING, help="the JSON Schema of what --json prints; by name that of a file of a run: "
        f"{', '.join(SCHEMAS[1:])}")  # fmt: skip

    emit: str | None = _option("--emit", type=_form, metavar="TARGET", group=CODE,
        help="the source of the kernel for a target; llvm-opt: LLVM IR after LLVM's passes; asm: the machine code "
        "as text; lib: a compiled library, in the folder of -o")  # fmt: skip
    run: bool = _switch("--run", group=CODE, help="run the kernel and describe what it returns")
    inputs: tuple[str, ...] = _several("--inputs", metavar="FILE", group=CODE,
        help="inputs for --run and --check: NAME=FILE.npy, or an .npz; random ones otherwise")  # fmt: skip
    seed: int = _option("--seed", type=seed, default=0, metavar="INT", group=CODE,
        help="the seed of random inputs (0)")  # fmt: skip
    check: bool = _switch("--check", group=CODE,
        help="compare with the reference on several inputs; status 3 if it differs or is undecided")  # fmt: skip
    time: bool = _switch("--time", group=CODE, help="how fast the kernel is, beside what it was before the moves")
    target: str = _option("--target", type=_target, metavar="TARGET", group=CODE,
        help="the target of -O, -p, --run, --check and --time: that of --emit by default, else llvm")  # fmt: skip
    emulated: bool = _switch("--emulated", group=CODE,
        help="for --run and --check: the code for a GPU (cuda, hip) on the CPU, slowly, checked")  # fmt: skip
    cpu: str | None = _option("--cpu", metavar="NAME", group=CODE,
        help="the processor that llvm and c are for, by LLVM's name (znver3); this one by default")  # fmt: skip
    threads: int | None = _option("--threads", type=positive, metavar="INT", group=CODE,
        help="cores for scopes marked p (all)")  # fmt: skip
    time_limit: float = _option("--time-limit", type=seconds, default=60.0, metavar="SECONDS", group=CODE,
        help="for --check and --time (60)")  # fmt: skip

    split_input_file: bool = _switch("--split-input-file", group=TESTING,
        help="process each part between lines of # ----- by itself")  # fmt: skip
    verify_diagnostics: bool = _switch("--verify-diagnostics", group=TESTING,
        help="hold the errors against comments: # expected-error @above {{text}} (or @below, @+2)")  # fmt: skip

    @property
    def asks(self) -> bool:
        """Whether something else than the text of the kernel is asked for on stdout."""
        questions = self.moves, self.explain, self.find is not None, self.cost, self.plan
        return bool(any(questions) or self.emit or self.run or self.check or self.time)

    @property
    def conflicts(self) -> Iterator[str]:
        """The conflict between options, with its cure."""
        if self.replay:
            if self.input != "-":
                yield "--replay takes the kernel from the trace: leave FILE out"
            if self.fp:
                yield "--replay takes the kernel from the trace, and its fp mode: leave --fp out"
            if self.chain:
                yield "--replay takes the kernel from the trace: leave --chain out"
            if self.optimize:
                yield "--replay brings its moves: leave -O out"
            if self.split_input_file:
                yield "--replay and --split-input-file do not go together"
        if self.save_trace and self.split_input_file:
            yield "--save-trace writes one trace: not with --split-input-file"
        if self.emit == "lib" and self.output in {None, "-"}:
            yield "--emit lib writes a folder: name it with -o DIR"
        if self.emit == "lib" and (self.run or self.moves or self.explain):
            yield "--emit lib goes with --check and --time only"
        if (self.rename or self.keep) and not self.chain:
            yield "--rename and --keep are for --chain"
        if self.why and not (self.optimize or re.search(r"\boptimize\b", self.pipeline or "")):
            yield "--why is for -O and -p optimize"
        if self.db and not (self.optimize or re.search(r"\boptimize\b", self.pipeline or "")):
            yield "--db is for -O and -p optimize"
        if self.measure and not (self.optimize or re.search(r"\boptimize\b", self.pipeline or "")):
            yield "--measure is for -O and -p optimize"
        if self.structure and not (self.plan or self.optimize or re.search(r"\boptimize\b", self.pipeline or "")):
            yield "--structure is for -O, --plan and -p optimize"
        if self.structure and not self.load:
            yield "--structure names a pass of a file: give the file with --load"
        if self.print_lir and not self.emit:
            yield "--print-lir-after-all shows what --emit lowers: name a target with it"
        if self.inputs and not (self.run or self.check):
            yield "--inputs is for --run and --check"
        if self.names and self.canonical:
            yield "--canonical is the text in depth style: leave --names out"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        if message.startswith("argument -O"):
            message = "-O takes no level: it takes the best schedule that there is; write -O alone"
        self.exit(2, f"dojoir-opt: error[usage]: {message}\nsee dojoir-opt --help\n")


def parser() -> argparse.ArgumentParser:
    """The parser of the command line; it also makes --help, and the files for completion."""
    made = _Parser(
        prog="dojoir-opt",
        usage="dojoir-opt [FILE] [-p PIPELINE] [-o FILE] [OPTION ...]",
        description="Reads a kernel, proves it well-formed, applies moves that keep its meaning, and writes it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    groups: dict[str, argparse._ArgumentGroup | argparse.ArgumentParser] = {"": made}
    for option in fields(Options):
        title, flags, more = (option.metadata[key] for key in ("group", "flags", "more"))
        if title not in groups:
            groups[title] = made.add_argument_group(title)
        if flags[0].startswith("-"):
            more = {**more, "dest": option.name}
        if more.get("action") == "append":
            more = {**more, "default": []}  # argparse appends to it
        groups[title].add_argument(*flags, **more)
    made.add_argument("--version", action="version", version=f"dojoir {dojoir.__version__}")
    return made


def parse_options(arguments: list[str]) -> Options:
    """The options, or the end of the process with status 2 (0 for --help and --version)."""
    reader = parser()
    given, unknown = reader.parse_known_args(arguments)
    if unknown:
        flags = [flag for option in fields(Options) for flag in option.metadata["flags"] if flag[0] == "-"]
        hints = "".join(hint_for_option(word, [*flags, "--help", "--version"]) for word in unknown)
        if not any(word.startswith("-") for word in unknown):
            hints = f"; one FILE is read: --chain {unknown[0]} joins another, and -p takes moves"
        reader.error(f"unrecognized arguments: {' '.join(unknown)}{hints}")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in vars(given).items()
    }
    if values["target"] is None:
        values["target"] = "llvm" if values["emit"] in {None, *FORMS} else values["emit"]
    options = Options(**values)
    for conflict in options.conflicts:
        reader.error(conflict)
    return options
