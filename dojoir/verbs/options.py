"""The verbs of `dojoir`, and the options of each."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

import dojoir
from dojoir.cli.hints import hint_for_option, nearest
from dojoir.cli.values import positive, seconds, seed, size
from dojoir.verbs import evidence
from dojoir.verbs.arguments import (
    dataset_options,
    know_options,
    mcp_options,
    model_options,
    run_options,
    task_options,
)
from dojoir.verbs.arguments.values import cost_model, device

EPILOG = """\
exit status: 0 fine; 1 the input is wrong or a move is illegal; 2 usage; 3 results differ;
4 a package, toolchain or device is missing; 5 time limit; 70 a bug in dojoir.

examples:
  dojoir tune library:softmax -s N=4096 -s M=4096 --seconds 300 --db tuned.db --store schedules
  dojoir play library:softmax
  dojoir learn agent --kernel softmax --kernel layernorm -o agent.safetensors
  dojoir tune library:rmsnorm -s N=1024 -s M=1024 --strategy maxq:agent.safetensors
  dojoir tune library:softmax -s N=4096 -s M=4096 --strategy llm:openai/MODEL --tokens 100000 --runs runs
  dojoir bench library:softmax -s N=4096 -s M=1024,4096 --beside text,numpy,torch
  dojoir runs; dojoir show last --section lineage; dojoir view last -o softmax.html
  dojoir export last -o softmax.zip; dojoir check softmax.zip
  dojoir tasks held-out; dojoir rollout beam held-out -o beam
  dojoir dataset export --runs runs beam -o data; dojoir dataset check data; dojoir dataset sft data -o chats.jsonl
  dojoir know "rows bound by memory" --runs runs; dojoir know --like library:groupnorm
  dojoir mcp --folder schedules
  dojoir lsp
  dojoir db top softmax --db tuned.db; dojoir db runs --db tuned.db; dojoir db show last --db tuned.db
  dojoir worker tcp://10.0.0.1:8786 --device cuda:0
"""

GROUPS = {
    "make": "tune learn library",
    "measure": "bench gate profile compare",
    "keep": "runs show view replay export check db dataset know",
    "play": "play tasks rollout",
    "serve": "worker mcp lsp",
}
"""The verbs by what they are for, as `--help` shows them."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        wrong = re.fullmatch(r"argument (\w+): invalid choice: '(.*)' \(choose from (.*)\)", message)
        if wrong is not None:
            known = re.findall(r"[\w-]+", wrong[3])
            hint = nearest(wrong[2], known) or f": write one of {', '.join(known)}"
            message = f"there is no {wrong[1].lower()} '{wrong[2]}'{hint}"
        self.exit(2, f"dojoir: error[usage]: {message}\nsee {self.prog} --help\n")


def parse(arguments: list[str]) -> argparse.Namespace:
    """The parsed command line, with the function of the verb as `run`; or the end of the process with status 2 (0
    for --help and --version)."""
    reader = parser()
    options, unknown = reader.parse_known_args(arguments)
    if unknown:
        flags = options.reader._option_string_actions
        hints = "".join(dict.fromkeys(hint_for_option(word, flags) for word in unknown))
        options.reader.error(f"unrecognized arguments: {' '.join(unknown)}{hints}")
    return options


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = _Parser(
        prog="dojoir",
        usage="dojoir [-h] [--version] VERB ...",
        description="Tunes kernels, and what goes with it. dojoir-opt reads, rewrites and checks them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"dojoir {dojoir.__version__}")
    verbs = made.add_subparsers(prog="dojoir", metavar="VERB", required=True, help=argparse.SUPPRESS)
    _tune(verbs)
    _play(verbs)
    _learn(verbs)
    _worker(verbs)
    _db(verbs)
    evidence.add(verbs, _verb)
    run_options.add(verbs, _verb)
    task_options.add(verbs, _verb)
    dataset_options.add(verbs, _verb)
    know_options.add(verbs, _verb)
    mcp_options.add(verbs, _verb)
    lsp = _verb(verbs, "lsp", "serves an editor: Language Server Protocol on stdio", "lsp:lsp")
    lsp.add_argument("--stdio", action="store_true", help="as it always does; editors give it")
    about = {verb.dest: verb.help for verb in verbs._choices_actions}
    for title, names in GROUPS.items():
        made.add_argument_group(title, "\n".join(f"{name:9}{about[name]}" for name in names.split()))
    return made


def _verb(verbs: Any, name: str, about: str, run: str) -> argparse.ArgumentParser:
    """A verb that `module:function` does, which is imported when it is."""
    made: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=about, allow_abbrev=False)
    module, _, function = run.partition(":")
    made.set_defaults(run=lambda options: _done(module, function)(options), reader=made)
    made.add_argument("--json", action="store_true", help="answers, progress and errors as lines of JSON")
    return made


def _done(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    found: Callable[[argparse.Namespace], int] = getattr(import_module(f"dojoir.verbs.{module}"), function)
    return found


def _add_kernel(made: argparse.ArgumentParser) -> None:
    made.add_argument("kernel", metavar="KERNEL", help="a .dojo file, - for stdin, or library:NAME")
    made.add_argument(
        "-s", "--size", dest="sizes", action="append", default=[], type=size, metavar="NAME=INT",
        help="a runtime size; may be repeated",
    )  # fmt: skip
    made.add_argument("--fp", choices=("strict", "reassoc", "fast"), help="what rewrites may do to floating point")
    made.add_argument("--target", default="llvm", metavar="TARGET", help="the target (llvm)")
    made.add_argument("--threads", type=positive, default=1, metavar="INT", help="cores (1)")
    made.add_argument("--seed", type=seed, default=0, metavar="INT", help="the seed of all that is random (0)")
    made.add_argument(
        "--timer", choices=("measure", "static"), default="measure",
        help="measure on this machine, or estimate from the text alone (measure)",
    )  # fmt: skip


def _tune(verbs: Any) -> None:
    made = _verb(verbs, "tune", "searches for the fastest schedule of a kernel", "tune:tune")
    _add_kernel(made)
    add = made.add_argument
    add(
        "--strategy", default="beam", metavar="NAME",
        help="a strategy by name, MODULE:CLASS, maxq:FILE for an agent that learned, or a language model: "
        "llm:openai/MODEL, llm:anthropic/MODEL, llm:random (beam)",
    )  # fmt: skip
    add("--load", metavar="FILE", help="take the strategy from a Python file, by the name of its class")
    add(
        "--cost-model",
        type=cost_model,
        metavar="trees|FILE.py:CLASS",
        help="draw more than is tried, and choose by a model of what was measured: trees, or a class of your own "
        "with fit and predict",
    )
    add("--seconds", type=seconds, metavar="S", help="stop after this time (60 if nothing else is set)")
    for name in ("moves", "states", "builds", "measurements"):
        add(f"--{name}", type=positive, metavar="INT", help=f"stop after so many {name}")
    add("--workers", type=positive, default=1, metavar="INT", help="processes that build and verify (1)")
    add("--cluster", metavar="ADDRESS", help="evaluate on the workers of this Dask scheduler (see dojoir worker)")
    add("--db", metavar="URL", help="the database to read and write (the variable DOJOIR_DB)")
    add("--resume", metavar="RUN", help="go on with a run of the database, or begin one of this name")
    add("--store", metavar="DIR", help="write the answer there as a schedule that optimize finds")
    add("--list-moves", action="store_true", help="record all legal moves of each state as well; takes long")
    run_options.runs(made, "leave a bundle of the run there, as it goes; --resume goes on with one")
    add("--save-trace", metavar="FILE", help="write the answer as a trace")
    add("-o", "--output", metavar="FILE", help="write the text of the tuned kernel there")
    model_options.add(made, with_chat=True)


def _play(verbs: Any) -> None:
    made = _verb(verbs, "play", "a person plays: lists moves, makes them by number, takes them back", "play:play")
    _add_kernel(made)
    made.add_argument("--save-trace", metavar="FILE", help="write what was played as a trace at the end")


def _learn(verbs: Any) -> None:
    about = "trains an agent or an encoder"
    made = verbs.add_parser("learn", help=about, description=about)
    kinds = made.add_subparsers(title="what", metavar="WHAT", required=True)
    agent = _verb(kinds, "agent", "trains a Max-Q agent on kernels of the library", "learn:agent")
    add = agent.add_argument
    add("--operator", choices=("max", "sum"), help="max, or sum for Q-learning (max, or that of the agent there)")
    add("--encoder", metavar="NAME", help="hash, or lm:PATH (hash, or that of the agent there)")
    add("--timer", choices=("measure", "static"), default="static", help="(static)")
    add("--length", type=positive, default=20, metavar="INT", help="moves of an episode (20)")
    add("--db", metavar="URL", help="the database of what is measured")
    encoder = _verb(kinds, "encoder", "trains a small language model on walks over the library", "learn:encoder")
    encoder.add_argument("--width", type=positive, default=128, metavar="INT", help="length of its vectors (128)")
    for one, steps in ((agent, 2000), (encoder, 300)):
        one.add_argument(
            "--kernel", dest="kernels", action="append", default=[], metavar="NAME",
            help="a library kernel to learn from; may be repeated (all)",
        )  # fmt: skip
        one.add_argument("--steps", type=positive, default=steps, metavar="INT", help=f"of training ({steps})")
        one.add_argument("--seed", type=seed, default=0, metavar="INT", help="the seed of all that is random (0)")
        one.add_argument(
            "-o", "--output", required=True, metavar="PATH",
            help="where it is written; an agent that is there goes on learning",
        )  # fmt: skip


def _worker(verbs: Any) -> None:
    made = _verb(verbs, "worker", "evaluates what a search sends to a cluster", "worker:worker")
    made.add_argument("address", metavar="ADDRESS", help="the Dask scheduler, such as tcp://10.0.0.1:8786")
    made.add_argument(
        "--device", type=device, default="cpu", metavar="DEVICE", help="cpu, cuda:NUMBER or hip:NUMBER (cpu)"
    )


def _db(verbs: Any) -> None:
    made = verbs.add_parser("db", help="looks after a database", description="looks after a database")
    actions = made.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(name: str, about: str) -> argparse.ArgumentParser:
        one = _verb(actions, name, about, "db:import_" if name == "import" else f"db:{name}")
        one.add_argument("--db", metavar="URL", help="the URL of the database, or its file (DOJOIR_DB)")
        return one

    action("stats", "how many rows there are")
    top = action("top", "the fastest states of a kernel")
    top.add_argument("kernel", metavar="KERNEL", nargs="?", help="its name or hash; all by default")
    top.add_argument("--count", type=positive, default=10, metavar="INT", help="how many of each context (10)")
    runs = action("runs", "the runs, the latest first")
    runs.add_argument("kernel", metavar="KERNEL", nargs="?", help="its name or hash; all by default")
    show = action("show", "a run or a state: its moves, results and text")
    show.add_argument(
        "name", metavar="RUN|RUN:N|HASH", help="a run or last, its N-th state, or 4 digits or more of a hash"
    )
    show.add_argument(
        "--check", action="store_true", help="certify it and run it again: status 3 where it is wrong"
    )
    show.add_argument("--save-trace", metavar="FILE", help="write the moves as a trace")
    export = action("export", "all of it as lines of JSON")
    export.add_argument("-o", "--output", metavar="FILE", help="write there, whole or not at all")
    read = action("import", "reads lines of JSON, and proves every state again")
    read.add_argument("file", metavar="FILE", help="what export wrote; - for stdin")
    merge = action("merge", "takes over what another database has, proved again")
    merge.add_argument("other", metavar="URL", help="the other database")
    action("check", "proves every state again, and holds the tables to what they say")
    prune = action("prune", "leaves the fastest results and the way to them")
    prune.add_argument("--keep", type=positive, default=100, metavar="INT", help="of each context (100)")
