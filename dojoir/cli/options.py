"""The options of `dojoir-opt`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import NoReturn

import dojoir

EPILOG = """\
A pipeline is a list of moves and passes separated by ; , or line ends: 'join_scopes(0, 1); vectorize(@j)'.
A pass, such as simplify or default_schedule(avx2), picks moves itself; try(...), repeat(...) and
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


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    input: str
    pipeline: str | None
    load: tuple[str, ...]
    output: str | None
    fp: str | None
    names: bool
    sizes: tuple[tuple[str, int], ...]
    chain: tuple[str, ...]
    rename: tuple[tuple[str, str], ...]
    keep: tuple[str, ...]
    verify_each: bool
    split_input_file: bool
    verify_diagnostics: bool
    print_after_all: bool
    print_after_change: bool
    print_diff: bool
    timing: bool
    list_passes: bool
    list_targets: bool
    list_kernels: bool
    doctor: bool
    help_pass: str | None
    moves: bool
    explain: str | None
    find: str | None
    emit: str | None
    run: bool
    inputs: tuple[str, ...]
    seed: int
    check: bool
    time: bool
    cost: bool
    target: str
    threads: int | None
    time_limit: float
    save_trace: str | None
    replay: str | None
    unsafe: bool
    json: bool

    @property
    def asks(self) -> bool:
        """Whether something else than the text of the kernel is asked for on stdout."""
        questions = self.moves, self.explain, self.find is not None, self.cost
        return bool(any(questions) or self.emit or self.run or self.check or self.time)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"dojoir-opt: error[usage]: {message}\nsee dojoir-opt --help\n")


def _size(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier() and value.isascii() and value.isdigit() and int(value) >= 1):
        raise argparse.ArgumentTypeError(f"'{text}' is not a size: write NAME=INTEGER, such as N=4096")
    return name, int(value)


def _renaming(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (equals and old and new):
        raise argparse.ArgumentTypeError(f"'{text}' is not a renaming: write OLD=NEW, such as x=y")
    return old, new


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"'{text}' is not an integer of at least 1")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds above 0")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dojoir-opt",
        description="Reads a kernel, proves it well-formed, applies moves that keep its meaning, and writes it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("input", nargs="?", default="-", metavar="FILE", help="a .dojo file, or - for stdin (the default)")
    add("-p", "--pipeline", metavar="PIPELINE", help="moves and passes to apply, or @FILE to read them from")
    add("--load", action="append", default=[], metavar="FILE", help="passes of yours, from a Python file")
    add("-o", "--output", metavar="FILE", help="write the result there, whole or not at all (an .npz with --run)")
    add("-s", "--size", dest="sizes", action="append", default=[], type=_size, metavar="NAME=INT",
        help="a runtime size for --run, --check, --time and --cost; may be repeated")  # fmt: skip
    add(
        "--fp", choices=("strict", "reassoc", "fast"), help="what rewrites may do to floating point, for the header"
    )
    add("--names", action="store_true", help="write iterators by name, not by depth")
    add("--json", action="store_true", help="answers and errors as JSON")
    add("--version", action="version", version=f"dojoir {dojoir.__version__}")

    group = parser.add_argument_group("joining kernels")
    add = group.add_argument
    add("--chain", action="append", default=[], metavar="FILE",
        help="run the kernel of FILE after that of the input, as one kernel joined by the names of arguments; "
        "may be repeated")  # fmt: skip
    add("--rename", action="append", default=[], type=_renaming, metavar="OLD=NEW",
        help="another name for a size or buffer of the kernels of --chain; may be repeated")  # fmt: skip
    add("--keep", action="append", default=[], metavar="NAME",
        help="return this output of one kernel, though a later one reads it; may be repeated")  # fmt: skip

    group = parser.add_argument_group("applying moves")
    add = group.add_argument
    add("--verify-each", action="store_true", help="prove the kernel well-formed again after every move")
    add("--print-ir-after-all", action="store_true", help="print the kernel after every move, to stderr")
    add("--print-ir-after-change", action="store_true", help="the same, where a move changed something")
    add("--print-diff", action="store_true", help="print what each move changed as a diff, to stderr")
    add("--timing", action="store_true", help="print how long each step took, to stderr")
    add("--save-trace", metavar="FILE", help="write the kernel and the moves as a trace")
    add("--replay", metavar="FILE", help="take kernel and moves from a trace instead of FILE, each checked again")
    add("--unsafe", action="store_true", help="apply moves without the checker; marks the trace")

    group = parser.add_argument_group("questions")
    add = group.add_argument
    add("--moves", action="store_true", help="every legal move here, one a line")
    add("--explain", metavar="MOVE", help="whether a move is legal, and if not why, with a witness")
    add("--find", metavar="QUERY", help="the places that a query matches, one a line")
    add("--cost", action="store_true", help="operations and bytes as formulas in the sizes")
    add("--list-passes", action="store_true", help="the names of all passes and moves")
    add("--help-pass", metavar="NAME", help="what a pass or move does, with an example")
    add("--list-targets", action="store_true", help="the targets")
    add("--list-kernels", action="store_true", help="the kernels of the library; load one with library:NAME")
    add("--doctor", action="store_true",
        help="what there is here to compile and run kernels with, and what this machine reaches")  # fmt: skip

    group = parser.add_argument_group("code")
    add = group.add_argument
    add("--emit", metavar="TARGET",
        help="the source of the kernel for a target; lib: a compiled library, in the folder of -o")  # fmt: skip
    add("--run", action="store_true", help="run the kernel and describe what it returns")
    add("--inputs", action="append", default=[], metavar="FILE",
        help="inputs for --run: NAME=FILE.npy, or an .npz; random ones otherwise")  # fmt: skip
    add("--seed", type=int, default=0, metavar="INT", help="the seed of random inputs (0)")
    add("--check", action="store_true", help="compare with the reference on several inputs; status 3 if it differs")
    add("--time", action="store_true", help="how fast the kernel is, beside what it was before the moves")
    add("--target", default="llvm", metavar="TARGET", help="the target of --run, --check and --time (llvm)")
    add("--threads", type=_positive, metavar="INT", help="cores for scopes marked p (all)")
    add("--time-limit", type=_seconds, default=60.0, metavar="SECONDS", help="for --check and --time (60)")

    group = parser.add_argument_group("testing")
    add = group.add_argument
    add("--split-input-file", action="store_true", help="process each part between lines of # ----- by itself")
    add("--verify-diagnostics", action="store_true",
        help="hold the errors against comments: # expected-error @above {{text}} (or @below, @+2)")  # fmt: skip
    return parser


def parse_options(arguments: list[str]) -> Options:
    """The options, or the end of the process with status 2 (0 for --help and --version)."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.replay and given.input != "-":
        parser.error("--replay takes the kernel from the trace: leave FILE out")
    if given.replay and given.fp:
        parser.error("--replay takes the kernel from the trace, and its fp mode: leave --fp out")
    if given.replay and given.split_input_file:
        parser.error("--replay and --split-input-file do not go together")
    if given.save_trace and given.split_input_file:
        parser.error("--save-trace writes one trace: not with --split-input-file")
    if given.emit == "lib" and given.output in {None, "-"}:
        parser.error("--emit lib writes a folder: name it with -o DIR")
    if given.emit == "lib" and (given.run or given.moves or given.explain):
        parser.error("--emit lib goes with --check and --time only")
    if (given.rename or given.keep) and not given.chain:
        parser.error("--rename and --keep are for --chain")
    if given.replay and given.chain:
        parser.error("--replay takes the kernel from the trace: leave --chain out")
    if given.inputs and not given.run:
        parser.error("--inputs is for --run")
    return Options(
        input=given.input,
        pipeline=given.pipeline,
        load=tuple(given.load),
        output=given.output,
        fp=given.fp,
        names=given.names,
        sizes=tuple(given.sizes),
        chain=tuple(given.chain),
        rename=tuple(given.rename),
        keep=tuple(given.keep),
        verify_each=given.verify_each,
        split_input_file=given.split_input_file,
        verify_diagnostics=given.verify_diagnostics,
        print_after_all=given.print_ir_after_all,
        print_after_change=given.print_ir_after_change,
        print_diff=given.print_diff,
        timing=given.timing,
        list_passes=given.list_passes,
        list_targets=given.list_targets,
        list_kernels=given.list_kernels,
        doctor=given.doctor,
        help_pass=given.help_pass,
        moves=given.moves,
        explain=given.explain,
        find=given.find,
        emit=given.emit,
        run=given.run,
        inputs=tuple(given.inputs),
        seed=given.seed,
        check=given.check,
        time=given.time,
        cost=given.cost,
        target=given.target,
        threads=given.threads,
        time_limit=given.time_limit,
        save_trace=given.save_trace,
        replay=given.replay,
        unsafe=given.unsafe,
        json=given.json,
    )
