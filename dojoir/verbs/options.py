"""The verbs of `dojoir`: what each is for, what does it, and which arguments it takes (`dojoir.cli.arguments`)."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

import dojoir
from dojoir.cli.arguments import argument
from dojoir.cli.hints import hint_for_option, nearest

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

PARENTS = {
    "db": ("looks after a database", "action"),
    "learn": ("trains an agent, an encoder or a language model; train is the same", "kind"),
    "dataset": ("data sets of what was played", "action"),
}
"""The verbs that have verbs of their own, and what these are."""

ALIASES = {"learn": ("train",)}
"""Other words for a verb."""

KERNEL = "kernel sizes fp target threads seed timer"
MODEL = "calls tokens money prices plans rounds model_timeout model_notes model_runs"
MEASURED = "shapes target threads beside torch cold runs_folder seconds"

VERBS = (
    ("tune", "searches for the fastest schedule of a kernel", "tune:tune",
     f"{KERNEL} strategy load cost_model seconds moves states builds measurements workers cluster db resume store "
     f"list_moves runs_folder save_trace output base_url chat replay_chat {MODEL}"),
    ("play", "a person plays: lists moves, makes them by number, takes them back", "play:play",
     f"{KERNEL} save_trace"),
    ("learn agent", "trains a Max-Q agent on kernels of the library", "learn:agent",
     "operator encoder timer length db kernels steps seed output"),
    ("learn chats", "tunes a language model on chats, as a file of settings says", "learn:chats", "settings"),
    ("learn check", "is such a file, or one of a rollout, right? Learns and plays nothing", "learn:check",
     "settings"),
    ("learn smoke", "the way of `learn chats`, for 20 steps of a tiny model that is made here", "learn:smoke",
     "settings"),
    ("learn encoder", "trains a small language model on walks over the library", "learn:encoder",
     "width kernels steps seed output"),
    ("worker", "evaluates what a search sends to a cluster", "serve:worker", "address device"),
    ("db stats", "how many rows there are", "db:stats", "db"),
    ("db top", "the fastest states of a kernel", "db:top", "db of_kernel count"),
    ("db runs", "the runs, the latest first", "db:runs", "db of_kernel"),
    ("db show", "a run or a state: its moves, results and text", "db:show", "db name check save_trace"),
    ("db export", "all of it as lines of JSON", "db:export", "db output"),
    ("db import", "reads lines of JSON, and proves every state again", "db:import_", "db file"),
    ("db merge", "takes over what another database has, proved again", "db:merge", "db other"),
    ("db check", "proves every state again, and holds the tables to what they say", "db:check", "db"),
    ("db prune", "leaves the fastest results and the way to them", "db:prune", "db keep"),
    ("bench", "times kernels beside others: right, and how much faster", "bench:bench",
     f"subjects {MEASURED} kernelbench samples check"),
    ("gate", "is it proved, built, right, the same each time, honest, faster?", "bench:gate",
     f"subject {MEASURED} seed sanitize"),
    ("runs", "the runs that there are, the latest first", "runs:runs", "runs_folder kernel target status"),
    ("show", "a run, or a part of it", "runs:show", "name runs_folder section"),
    ("compare", "two runs: relation, correctness, times, moves", "runs:compare", "first second runs_folder"),
    ("view", "a run or a trace as one page of HTML", "runs:view", "subject runs_folder target output"),
    ("replay", "proves a run again: files, moves, source, code, results", "runs:replay",
     "name runs_folder again seconds"),
    ("export", "a run as one file, the same bytes each time", "runs:export", "name runs_folder output"),
    ("check", "proves such a file again, and runs nothing of it", "runs:check", "file"),
    ("profile", "what bounds a kernel, where, and which moves help", "bench:profile",
     "subject shapes threads target ncu under runs_folder"),
    ("library", "kernels tuned, gated and written as a library", "library:library",
     "kernels shapes threads targets seconds states seed timer gated output"),
    ("tasks", "the tasks that there are, or what one asks", "tasks:tasks", "tasks kind"),
    ("rollout", "an agent plays tasks, and gates judge what it answers", "tasks:rollout",
     f"agent tasks kind output timer seed states seconds last list_moves base_url {MODEL}"),
    ("dataset export", "steps and episodes of runs, with splits", "dataset:export",
     "places output kernels targets splits labels families protocol least cards"),
    ("dataset sft", "questions and answers as chats, from a data set", "dataset:sft",
     "folder kernels targets splits labels families protocol output"),
    ("dataset pairs", "two moves of a state, the faster first, from a data set", "dataset:pairs",
     "folder kernels targets splits labels families protocol output"),
    ("dataset check", "proves a sample of the steps again, from their starts", "dataset:check",
     "folder sample seed"),
    ("know", "what is known: by words, by a name, or of kernels built alike", "know:know",
     "question like sizes tried measure kind count notes runs more_db target"),
    ("mcp", "serves games to a language model: Model Context Protocol on stdio", "serve:mcp",
     "folder timer notes runs more_db games calls measurements seconds call_seconds"),
    ("lsp", "serves an editor: Language Server Protocol on stdio", "serve:lsp", "stdio"),
)  # fmt: skip
"""Name, what it is for, what does it as `module:function`, its arguments."""


class _VerbParser(argparse.ArgumentParser):
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
    options, unknown = parser().parse_known_args(arguments)
    options.words = arguments
    if unknown:
        flags = options.reader._option_string_actions
        hints = "".join(dict.fromkeys(hint_for_option(word, flags) for word in unknown))
        options.reader.error(f"unrecognized arguments: {' '.join(unknown)}{hints}")
    return options


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = _VerbParser(
        prog="dojoir",
        usage="dojoir [-h] [--version] VERB ...",
        description="Tunes kernels, and what goes with it. dojoir-opt reads, rewrites and checks them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"dojoir {dojoir.__version__}")
    verbs = made.add_subparsers(prog="dojoir", metavar="VERB", required=True, help=argparse.SUPPRESS)
    parents: dict[str, Any] = {"": verbs}
    for name, about_it, run, arguments in VERBS:
        parent, _, own = name.rpartition(" ")
        if parent not in parents:
            parents[parent] = _parent(verbs, parent, *PARENTS[parent])
        _verb(parents[parent], own, name, about_it, run, arguments.split())
    about = {verb.dest: verb.help for verb in verbs._choices_actions}
    for title, names in GROUPS.items():
        made.add_argument_group(title, "\n".join(f"{name:9}{about[name]}" for name in names.split()))
    return made


def _parent(verbs: Any, name: str, about: str, title: str) -> Any:
    """A verb that has verbs of its own."""
    made = verbs.add_parser(name, help=about, description=about, aliases=ALIASES.get(name, ()))
    return made.add_subparsers(title=f"{title}s", metavar=title.upper(), required=True)


def _verb(verbs: Any, own: str, name: str, about: str, run: str, arguments: list[str]) -> None:
    """A verb that `module:function` does, which is imported when it is."""
    made: argparse.ArgumentParser = verbs.add_parser(own, help=about, description=about, allow_abbrev=False)
    module, _, function = run.partition(":")
    made.set_defaults(run=lambda options: _done(module, function)(options), reader=made, refuse=made.error)
    groups: dict[str, Any] = {"": made}
    for word in ("json", *arguments):
        one = argument(name, word)
        if one.group not in groups:
            groups[one.group] = made.add_argument_group(one.group)
        one.add(groups[one.group], {"of_kernel": "kernel"}.get(word, word))


def _done(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    found: Callable[[argparse.Namespace], int] = getattr(import_module(f"dojoir.verbs.{module}"), function)
    return found
