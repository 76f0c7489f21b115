"""The options of `dojoir-opt`: one table, the fields of `Options`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn

import dojoir
from dojoir.cli.arguments import ARGUMENTS, Argument
from dojoir.cli.hints import hint_for_option, nearest_target
from dojoir.cli.option_values import seconds

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
    "training", "playing",
)  # fmt: skip
"""The schemas of --schema: of what --json prints, of files in the bundle of a run, of tasks and rollouts, and of
what stands in data sets."""

FORMS = ("asm", "llvm-opt", "ptx", "sass", "lib")
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


def _emit_format(text: str) -> str:
    """The forms of --emit."""
    if text not in FORMS:
        _check_target(text.partition("@")[0], (*dojoir.TARGETS, *FORMS))
    return text


def _check_target(name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        known_ones = f"the targets are {', '.join(known)}"
        raise argparse.ArgumentTypeError(f"there is no target '{name}'{nearest_target(name, known)}; {known_ones}")


def _option(help: str, metavar: str | None = None, group: str = "", **rest: Any) -> Any:
    """A field of `Options` that an option of its name sets, or one of other `flags`."""
    return field(metadata={"argument": Argument(help, metavar, group=group, **rest)})


def _shared(name: str, help: str = "", **rest: Any) -> Any:
    """One that `dojoir` has as well."""
    return field(metadata={"argument": ARGUMENTS[name].but(help, **rest)})


def _switch(help: str, group: str = "", **rest: Any) -> Any:
    """One that is there or not."""
    return _option(help, None, group, more={"action": "store_true"}, **rest)


def _several(help: str, metavar: str, group: str = "", **rest: Any) -> Any:
    """One that may be repeated, and is a tuple."""
    return _option(f"{help}; may be repeated", metavar, group, default=[], more={"action": "append"}, **rest)


WAYS = ("shortcuts", "core")
"""The checkers that prove moves."""

JOINING, MOVING, ASKING, LISTING, CODE, TESTING = (
    "joining kernels", "applying moves", "questions", "lists", "code", "testing"
)  # fmt: skip
"""The groups of options in --help."""


@dataclass(frozen=True)
class Options:
    """The options of the command line. The order is that of --help."""

    input: str = _shared("kernel", metavar="FILE", default="-", more={"nargs": "?"})
    pipeline: str | None = _option(
        "moves and passes to apply, or @FILE to read them from", "PIPELINE", flags="-p --pipeline")  # fmt: skip
    optimize: bool = _switch(
        "first the stored schedule that fits kernel, sizes and machine, else "
        "the default one", flags="-O --optimize")  # fmt: skip
    db: str | None = _shared("db",
        "for -O: the database of dojoir tune, whose fastest verified trace for kernel, machine and sizes goes"
        " before the stored schedules")  # fmt: skip
    why: bool = _switch("say on stderr which schedule -O took, and for what machine")
    measure: bool = _switch(
        "for -O: what the model says is near the best is timed here, at the sizes of -s, and the fastest "
        "taken")  # fmt: skip
    load: tuple[str, ...] = _several("passes of yours, from a Python file", "FILE")
    structure: tuple[str, ...] = _several(
        "for -O and --plan: a pass of --load that takes the place of a nest; tried on each", "NAME")  # fmt: skip
    output: str | None = _shared("output", "write the result there, whole or not at all (an .npz with --run)")
    sizes: tuple[tuple[str, int], ...] = _shared("sizes",
        "a runtime size for --run, --check, --time, --cost, --plan and -O; may be repeated")  # fmt: skip
    fp: str | None = _shared("fp", "what rewrites may do to floating point, for the header")
    names: bool = _switch("write iterators by name, not by depth")
    canonical: bool = _switch("write the text that the hash is of: no labels, no comments")
    json: bool = _shared("json", "answers and errors as JSON; --schema prints what they look like")

    chain: tuple[str, ...] = _several(
        "run the kernel of FILE after that of the input, as one kernel joined by the "
        "names of arguments", "FILE", JOINING)  # fmt: skip
    rename: tuple[tuple[str, str], ...] = _several(
        "another name for a size or buffer of the "
        "kernels of --chain", "OLD=NEW", JOINING, type=_renaming)  # fmt: skip
    keep: tuple[str, ...] = _several(
        "return this output of one kernel, though a later one reads it", "NAME", JOINING)  # fmt: skip

    verify_each: bool = _switch("prove the kernel well-formed again after every move", MOVING)
    print_after_all: bool = _switch(
        "print the kernel after every move, to stderr", MOVING, flags="--print-ir-after-all")  # fmt: skip
    print_after_change: bool = _switch(
        "the same, where a move changed something", MOVING, flags="--print-ir-after-change")  # fmt: skip
    print_lir: bool = _switch(
        "print what --emit lowers after every pass of the "
        "lowering, to stderr", MOVING, flags="--print-lir-after-all")  # fmt: skip
    print_diff: bool = _switch("print what each move changed as a diff, to stderr", MOVING)
    timing: bool = _switch("print how long each step took, to stderr", MOVING)
    save_trace: str | None = _shared("save_trace", "write the kernel and the moves as a trace", group=MOVING)
    replay: str | None = _option(
        "take kernel and moves from a trace instead of FILE, each checked again", "FILE", MOVING)  # fmt: skip
    check_with: str | None = _option(
        "how moves are proved: with all there is for speed, or by the trusted core alone, more slowly "
        "(shortcuts, unless DOJOIR_CHECK says core)", group=MOVING, choices=WAYS)  # fmt: skip
    unsafe: bool = _switch("apply moves unchecked, and replay a trace of such; marks the trace", MOVING)

    moves: bool = _switch("every legal move here, one a line", ASKING)
    explain: str | None = _option("whether a move is legal, and if not why, with a witness", "MOVE", ASKING)
    find: str | None = _option("the places that a query matches, one a line", "QUERY", ASKING)
    cost: bool = _switch("operations and bytes as formulas in the sizes", ASKING)
    plan: bool = _switch("what -O chooses from: the time of each by the model, and why others do not fit", ASKING)

    list_passes: bool = _switch("all passes and moves, by what they change", LISTING)
    help_pass: str | None = _option("what a pass or move does, with an example", "NAME", LISTING)
    list_targets: bool = _switch("the targets, and what each gives", LISTING)
    list_kernels: bool = _switch("the kernels of the library; load one with library:NAME", LISTING)
    doctor: bool = _switch(
        "what there is here to compile and run kernels with, and what this machine reaches", LISTING)  # fmt: skip
    schema: str | None = _option(
        f"the JSON Schema of what --json prints; by name that of a file of a run: {', '.join(SCHEMAS[1:])}", "NAME",
        LISTING, choices=SCHEMAS, more={"nargs": "?", "const": "answers"})  # fmt: skip

    emit: str | None = _option(
        "the source of the kernel for a target; llvm-opt: LLVM IR after LLVM's passes; asm: the machine code "
        "as text; ptx, sass: that of a GPU (sass@sm_80); lib: a compiled library, in the folder of -o", "TARGET",
        CODE, type=_emit_format)  # fmt: skip
    run: bool = _switch("run the kernel and describe what it returns", CODE)
    inputs: tuple[str, ...] = _several(
        "inputs for --run and --check: NAME=FILE.npy, or an .npz; random ones otherwise", "FILE", CODE)  # fmt: skip
    seed: int = _shared("seed", "the seed of random inputs (0)", group=CODE)
    check: bool = _switch(
        "compare with the reference on several inputs; status 3 if it differs or is undecided", CODE)  # fmt: skip
    time: bool = _switch("how fast the kernel is, beside what it was before the moves", CODE)
    target: str = _shared("target",
        "the target of -O, -p, --run, --check and --time: that of --emit by "
        "default, else llvm", group=CODE, type=_target, default=None)  # fmt: skip
    emulated: bool = _switch(
        "for --run and --check: the code for a GPU (cuda, hip) on the CPU, slowly, checked", CODE)  # fmt: skip
    cpu: str | None = _option(
        "the processor that llvm and c are for, by LLVM's name (znver3); this "
        "one by default", "NAME", CODE)  # fmt: skip
    threads: int | None = _shared("threads", "cores for scopes marked p (all)", group=CODE, default=None)
    time_limit: float = _option("for --check and --time", "SECONDS", CODE, type=seconds, default=60.0)

    split_input_file: bool = _switch("process each part between lines of # ----- by itself", TESTING)
    verify_diagnostics: bool = _switch(
        "hold the errors against comments: # expected-error @above {{text}} (or @below, @+2)", TESTING)  # fmt: skip

    @property
    def asks(self) -> bool:
        """Whether something else than the text of the kernel is asked for on stdout."""
        questions = self.moves, self.explain, self.find is not None, self.cost, self.plan
        return bool(any(questions) or self.emit or self.run or self.check or self.time)

    @property
    def conflicts(self) -> Iterator[str]:
        """The conflict between options, with its cure."""
        optimizes = self.optimize or re.search(r"\boptimize\b", self.pipeline or "")
        from_trace, lib = "--replay takes the kernel from the trace", self.emit == "lib"
        found = {
            f"{from_trace}: leave FILE out": self.replay and self.input != "-",
            f"{from_trace}, and its fp mode: leave --fp out": self.replay and self.fp,
            f"{from_trace}: leave --chain out": self.replay and self.chain,
            "--replay brings its moves: leave -O out": self.replay and self.optimize,
            "--replay and --split-input-file do not go together": self.replay and self.split_input_file,
            "--save-trace writes one trace: not with --split-input-file": self.save_trace and self.split_input_file,
            "--emit lib writes a folder: name it with -o DIR": lib and self.output in {None, "-"},
            "--emit lib goes with --check and --time only": lib and (self.run or self.moves or self.explain),
            "--rename and --keep are for --chain": (self.rename or self.keep) and not self.chain,
            "--why is for -O and -p optimize": self.why and not optimizes,
            "--db is for -O and -p optimize": self.db and not optimizes,
            "--measure is for -O and -p optimize": self.measure and not optimizes,
            "--structure is for -O, --plan and -p optimize": self.structure and not (self.plan or optimizes),
            "--structure names a pass of a file: give the file with --load": self.structure and not self.load,
            "--print-lir-after-all shows what --emit lowers: name a target with it": self.print_lir
            and not self.emit,
            "--inputs is for --run and --check": self.inputs and not (self.run or self.check),
            "--canonical is the text in depth style: leave --names out": self.names and self.canonical,
        }
        return (text for text, is_so in found.items() if is_so)


class _OptParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        if message.startswith("argument -O"):
            message = "-O takes no level: it takes the best schedule that there is; write -O alone"
        self.exit(2, f"dojoir-opt: error[usage]: {message}\nsee dojoir-opt --help\n")


def parser() -> argparse.ArgumentParser:
    """The parser of the command line; it also makes --help, and the files for completion."""
    made = _OptParser(
        prog="dojoir-opt",
        usage="dojoir-opt [FILE] [-p PIPELINE] [-o FILE] [OPTION ...]",
        description="Reads a kernel, proves it well-formed, applies moves that keep its meaning, and writes it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    groups: dict[str, argparse._ArgumentGroup | argparse.ArgumentParser] = {"": made}
    for option in fields(Options):
        one: Argument = option.metadata["argument"]
        if one.group not in groups:
            groups[one.group] = made.add_argument_group(one.group)
        one.add(groups[one.group], option.name)
    made.add_argument("--version", action="version", version=f"dojoir {dojoir.__version__}")
    return made


def parse_options(arguments: list[str]) -> Options:
    """The options, or the end of the process with status 2 (0 for --help and --version)."""
    reader = parser()
    given, unknown = reader.parse_known_args(arguments)
    if unknown:
        hints = "".join(hint_for_option(word, reader._option_string_actions) for word in unknown)
        if not any(word.startswith("-") for word in unknown):
            hints = f"; one FILE is read: --chain {unknown[0]} joins another, and -p takes moves"
        reader.error(f"unrecognized arguments: {' '.join(unknown)}{hints}")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in vars(given).items()
    }
    if values["target"] is None:
        form = values["emit"]
        is_gpu = (form or "").partition("@")[0] in ("ptx", "sass")
        values["target"] = "cuda" if is_gpu else "llvm" if form in {None, *FORMS} else form
    options = Options(**values)
    for conflict in options.conflicts:
        reader.error(conflict)
    return options
