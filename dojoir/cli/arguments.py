"""The arguments of `dojoir-opt`, of the verbs of `dojoir` and of the tools of `dojoir mcp`: one table. Each has
what it says, what it may be, and an example."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dojoir.cli.option_values import cost_model, device, from_zero, positive, seconds, seed, shape, size, words

RUNS = "runs"
"""The folder of runs where none is named."""

SECTIONS = ("text", "moves", "diff", "source", "asm", "bench", "gates", "states", "lineage")
TIMERS = ("measure", "static")
FLOATS = ("strict", "reassoc", "fast")
KINDS = ("move", "rule", "schedule", "run", "structure", "pass", "code", "mark", "doc", "note")
TASK_KINDS = ("optimise", "diagnose", "debug", "reformulate")
SPLITS = ("train", "dev", "held-out")
LABELS = ("faster", "slower", "same", "unsure", "failed", "not-evaluated")

MODELS = "language models (llm:openai/MODEL, llm:anthropic/MODEL, llm:random)"
"""The group of options that say nothing where no model plays."""


@dataclass(frozen=True)
class Argument:
    """An argument: its help, the word for its value, the function that reads that or the words that there are, and
    its default. Then flags in the place of those of its name, the name of its value in the place of its own, the
    group of --help, how many words it takes, and an example of a value."""

    help: str
    metavar: str | tuple[str, ...] | None = None
    type: Callable[[str], object] | None = None
    choices: Sequence[str] | None = None
    default: Any = None
    flags: str = ""
    dest: str = ""
    group: str = ""
    stands: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)
    example: Any = None

    def but(self, help: str = "", **changes: Any) -> Argument:
        """The same with other words, default or bounds."""
        return replace(self, help=help or self.help, **changes)

    def add(self, made: argparse._ActionsContainer, name: str) -> None:
        """Adds it to a parser. A default that is a value is told behind the words."""
        given = {"help": self.help, "default": self.default, "type": self.type, "choices": self.choices,
                 "metavar": self.metavar, **self.more}  # fmt: skip
        if self.default and self.more.get("action") is None:
            shown = ",".join(self.default) if isinstance(self.default, tuple) else f"{self.default:g}" \
                if isinstance(self.default, float) else self.default  # fmt: skip
            given["help"] = f"{self.help} ({shown})"
        if self.more.get("action", "append") != "append":
            for word in ("type", "choices", "metavar", "default"):
                del given[word]
        if self.stands:
            made.add_argument(name, **given)
        else:
            flags = self.flags.split() or [f"--{name.replace('_', '-')}"]
            made.add_argument(*flags, dest=self.dest or name, **given)


def _int(help: str, default: int | None = None, **rest: Any) -> Argument:
    return Argument(help, "INT", positive, default=default, **rest)


def _time(help: str, default: float | None = None, **rest: Any) -> Argument:
    return Argument(help, "S", seconds, default=default, **rest)


def _switch(help: str, **rest: Any) -> Argument:
    return Argument(help, more={"action": "store_true"}, **rest)


def _several(help: str, metavar: str | None = None, **rest: Any) -> Argument:
    return Argument(f"{help}; may be repeated", metavar, more={"action": "append"}, **{"default": [], **rest})


_one = Argument
SUBJECT = _one(
    "a .dojo file, - for stdin, library:NAME, a file of a trace, or a run", "KERNEL|TRACE|RUN", stands=True
)
RUN = _one("its folder, its name, a part of that, or last", "RUN", stands=True)
FOLDER = _one("a data set", "DIR", stands=True)
OUTPUT = _one("write the text of the tuned kernel there", "FILE", flags="-o --output")
SEED = _one("the seed of all that is random (0)", "INT", seed, default=0)
RUNS_THERE = _one("leave a bundle of the run there", "DIR", flags="--runs", dest="runs_folder",
                 more={"nargs": "?", "const": RUNS})  # fmt: skip
TASKS = _one("train, dev, held-out, a kind, all, the name of a task, a file of one or a folder of them", "TASK",
                 stands=True, more={"nargs": "+"})  # fmt: skip
_WRITTEN = {"required": True}

ARGUMENTS: Mapping[str, Argument] = {
    "json": _switch("answers, progress and errors as lines of JSON"),
    # a kernel, and where it runs
    "kernel": _one("a .dojo file, - for stdin, or library:NAME", "KERNEL", stands=True),
    "sizes": _several("a runtime size", "NAME=INT", type=size, flags="-s --size", example={"N": 1024, "M": 64}),
    "shapes": _several("a runtime size; several values are several shapes", "NAME=INT[,INT...]", type=shape,
                       flags="-s --size"),
    "fp": _one("what rewrites may do to floating point", choices=FLOATS, example="fast"),
    "target": _one("the target", "TARGET", default="llvm", example="avx2"),
    "threads": _int("cores", 1),
    "seed": SEED,
    "timer": _one("measure on this machine, or estimate from the text alone", choices=TIMERS, default="measure"),
    # a search
    "strategy": _one("a strategy by name, MODULE:CLASS, maxq:FILE for an agent that learned, or a language model: "
                    "llm:openai/MODEL, llm:anthropic/MODEL, llm:random", "NAME", default="beam"),
    "load": _one("take the strategy from a Python file, by the name of its class", "FILE"),
    "cost_model": _one("draw more than is tried, and choose by the estimate and what it was off by, or by a class "
                      "of your own with fit and predict", "estimate|none|FILE.py:CLASS", cost_model,
                      default="estimate"),
    "seconds": _time("stop after this time (60 if nothing else is set)"),
    "moves": _int("stop after so many moves"),
    "states": _int("stop after so many states"),
    "builds": _int("stop after so many builds"),
    "measurements": _int("stop after so many measurements"),
    "workers": _int("processes that build and verify", 1),
    "cluster": _one("evaluate on the workers of this Dask scheduler (see dojoir worker)", "ADDRESS"),
    "db": _one("the database to read and write (the variable DOJOIR_DB)", "URL"),
    "resume": _one("go on with a run of the database, or begin one of this name", "RUN"),
    "store": _one("write the answer there as a schedule that optimize finds", "DIR"),
    "list_moves": _switch("record all legal moves of each state as well; takes long"),
    "runs_folder": _one("the folder of the runs", "DIR", default=RUNS, flags="--runs"),
    "tune runs_folder": RUNS_THERE.but(
        f"leave a bundle of the run there, as it goes; --resume goes on with one ({RUNS})"),
    "save_trace": _one("write the answer as a trace", "FILE"),
    "play save_trace": _one("write what was played as a trace at the end", "FILE"),
    "output": OUTPUT,
    # a language model
    "base_url": _one("a compatible server; keys are OPENAI_API_KEY and ANTHROPIC_API_KEY", "URL", group=MODELS),
    "chat": _one("write every exchange there, or go on with it (chat.jsonl of the run)", "FILE", group=MODELS),
    "replay_chat": _one("play a chat again, without a model", "FILE", group=MODELS),
    "calls": _int("ask the model at most so often", group=MODELS),
    "tokens": _int("read and write at most so many tokens", group=MODELS),
    "money": _one("spend at most so much; needs --prices", "X", from_zero, group=MODELS),
    "prices": _one("of a million tokens", ("READ", "WRITTEN"), from_zero, group=MODELS, more={"nargs": 2}),
    "plans": _int("plans of an answer (4)", group=MODELS),
    "rounds": _int("ask for plans at most so often (1000)", group=MODELS),
    "model_timeout": _time("of one answer (120)", group=MODELS),
    "model_notes": _one("a folder of notes that the tool know searches as well", "DIR", group=MODELS),
    "model_runs": _one("a folder of runs: the tool know tells what helped in them", "DIR", group=MODELS),
    # learning
    "operator": _one("max, or sum for Q-learning (max, or that of the agent there)", choices=("max", "sum")),
    "encoder": _one("hash, or lm:PATH (hash, or that of the agent there)", "NAME"),
    "length": _int("moves of an episode", 20),
    "width": _int("length of its vectors", 128),
    "kernels": _several("a library kernel to learn from", "NAME", flags="--kernel"),
    "steps": _int("of training", 2000),
    "learn encoder steps": _int("of training", 300),
    "learn agent timer": _one("the timer", choices=TIMERS, default="static"),
    "learn agent db": _one("the database of what is measured", "URL"),
    "learn agent output": OUTPUT.but("where it is written, or goes on", metavar="PATH", more=_WRITTEN),
    "learn encoder output": OUTPUT.but("where it is written", metavar="PATH", more=_WRITTEN),
    "settings": _one("a file of settings in TOML (dojoir-opt --schema training, --schema playing)", "FILE.toml",
                    stands=True),
    "address": _one("the Dask scheduler, such as tcp://10.0.0.1:8786", "ADDRESS", stands=True),
    "device": _one("cpu, cuda:NUMBER or hip:NUMBER", "DEVICE", device, default="cpu"),
    # a database
    "of_kernel": _one("its name or hash; all by default", "KERNEL", stands=True, more={"nargs": "?"}),
    "count": _int("how many answers at most", 8),
    "db top count": _int("how many of each context", 10),
    "db show name": _one("a run or last, its N-th state, or 4 digits of a hash", "RUN|RUN:N|HASH", stands=True),
    "db show check": _switch("certify it and run it again: status 3 where it is wrong"),
    "db show save_trace": _one("write the moves as a trace", "FILE"),
    "db export output": OUTPUT.but("write there, whole or not at all"),
    "db import file": _one("what export wrote; - for stdin", "FILE", stands=True),
    "other": _one("the other database", "URL", stands=True),
    "keep": _int("of each context", 100),
    # evidence
    "subject": SUBJECT,
    "subjects": SUBJECT.but(more={"nargs": "*"}),
    "beside": _one("what it is timed beside, of text, optimize, default, c, numpy, torch, compile, with commas",
                  "NAMES", words, default=("text", "optimize", "numpy", "torch")),
    "gate beside": _one("what it must be faster than, of the same words as of bench", "NAMES", words,
                       default=("default",)),
    "torch": _one("what PyTorch runs (the library kernel's own)", "FILE:FUNCTION"),
    "cold": _switch("empty the caches before each call"),
    "kernelbench": _one("a problem of KernelBench (Model, get_inputs, get_init_inputs), or a folder of them",
                       "FILE|FOLDER"),
    "samples": _int("of each, at least", 30),
    "check": _one("do not compare results with the text first", flags="--no-check", more={"action": "store_false"}),
    "sanitize": _switch("cuda: run under compute-sanitizer as well"),
    "gate seed": SEED.but("what is drawn follows from it (one nobody knows)", default=None),
    **{f"{verb} seconds": _time("of the rounds of a shape", 10.0) for verb in ("bench", "gate", "replay")},
    **{f"{verb} runs_folder": RUNS_THERE.but(f"leave a bundle of the run there ({RUNS}), where runs are found")
       for verb in ("bench", "gate", "profile")},
    "ncu": _one("counters of a GPU: what ncu --csv, nsys stats --format csv or rocprof --stats wrote", "FILE",
               flags="--traced --ncu"),
    "under": _one("run it once more under a profiler of GPUs, and read what that writes",
                 choices=("ncu", "nsys", "rocprof")),
    "library kernels": _one("a .dojo file, or library:NAME", "KERNEL", stands=True, more={"nargs": "+"}),
    "targets": _one("with commas", "NAMES", words, default=("llvm",)),
    "library seconds": _time("of each search", 60.0),
    "library states": _int("end each search after so many states"),
    "gated": _one("ask no gates", flags="--no-gate", more={"action": "store_false"}),
    "library output": OUTPUT.but("the folder; one that was begun is gone on with", metavar="DIR", more=_WRITTEN),
    # runs
    "name": RUN,
    "first": RUN,
    "second": RUN,
    "runs kernel": _one("only those of a kernel", "NAME"),
    "runs target": _one("only those for a target", "TARGET"),
    "status": _one("only those that ended so", choices=("running", "done", "failed", "interrupted")),
    "section": _one("what is shown of it (its record)", choices=SECTIONS),
    "view subject": _one("a run, a file of a trace, a .dojo file or library:NAME", "RUN|TRACE", stands=True),
    "view target": _one("whose code is shown of a trace", "TARGET", default="llvm"),
    "view output": OUTPUT.but("write the page there", metavar="PAGE.html", more=_WRITTEN),
    "again": _switch("time it again as well", flags="--bench"),
    "export output": OUTPUT.but("write it there, whole or not at all", metavar="X.zip", more=_WRITTEN),
    "file": _one("what export wrote", "X.zip", stands=True),
    # tasks
    "tasks": TASKS,
    "tasks tasks": TASKS.but(f"{TASKS.help} (all)", more={"nargs": "*"}),
    "kind": _one("only those of a kind", choices=TASK_KINDS),
    "agent": _one("a strategy (random, beam, ...), maxq:FILE, a language model (llm:openai/MODEL, "
                 "llm:anthropic/MODEL, llm:random), a Python file: FILE.py, FILE.py:NAME, or settings that name "
                 "all, FILE.toml", "AGENT", stands=True),
    "rollout tasks": TASKS.but(more={"nargs": "*"}),
    "rollout output": OUTPUT.but("the folder; one that was begun is continued", metavar="DIR", default="rollout"),
    "rollout timer": _one("measure on this machine, or estimate from the text alone: no gate that times is asked",
                         choices=TIMERS, default="measure"),
    "rollout states": _int("of each task, in place of its own budget"),
    "rollout seconds": _time("of each task, in place of its own budget"),
    "last": _time("of the last timing of an answer", 2.0),
    # data sets
    "places": _one("folders of runs, of rollouts, or single runs", "DIR", flags="--runs",
                  more={"nargs": "+", "required": True}),
    "dataset export output": OUTPUT.but("the folder of the data set", metavar="DIR", more=_WRITTEN),
    **{f"dataset {one} kernels": _several("only steps of this kernel", "NAME", flags="--kernel")
       for one in ("export", "sft", "pairs")},
    **{f"dataset {one} targets": _several("only steps of this target", "NAME", flags="--target")
       for one in ("export", "sft", "pairs")},
    "dataset export splits": _several("only steps of this split", choices=SPLITS, flags="--split"),
    "labels": _several("only steps of this label", choices=LABELS, flags="--label"),
    "families": _several("only moves of this family", "NAME", flags="--family"),
    "protocol": _one("only what was estimated, or measured", choices=("static", "measured"), default=""),
    "least": _one("only episodes that came to X times the start", "X", from_zero, default=0.0),
    "cards": _switch("profile each state that was timed, here and now; takes long"),
    "folder": FOLDER,
    "splits": _several("of which split (train)", choices=SPLITS, default=None, flags="--split"),
    **{f"dataset {one} output": OUTPUT.but("write the lines there", more=_WRITTEN) for one in ("sft", "pairs")},
    "sample": _int("how many steps", 500),
    "dataset check seed": SEED.but("the seed of the sample (0)"),
    # what is known
    "question": _one("a question in words, or the name of a code, move, pass, mark, rule, structure or schedule",
                    "WORDS", stands=True, more={"nargs": "*"}, example="rows bound by memory"),
    "like": _one("library kernels that are built as this one: a .dojo file, -, library:NAME", "KERNEL"),
    "know sizes": _several("with --like: a runtime size of KERNEL to estimate at; all of them, or none", "NAME=INT",
                           type=size, flags="-s --size"),
    "tried": _int("with --like: schedules that are made", 6),
    "measure": _switch("with --like and sizes: time them, and the fastest once more"),
    "know kind": _one("only documents of this kind", choices=KINDS, example="move"),
    "know target": _one("with --like: the target of schedules", "TARGET", default="llvm"),
    "notes": _one("also search the files *.md and *.txt of this folder", "DIR"),
    "runs": _several("also what helped in the runs of this folder", "DIR"),
    "more_db": _several("and in this database", "URL", flags="--db", dest="db"),
    # the server of tools
    "mcp folder": _one("the only folder that is read and written", "DIR", default="."),
    "games": _int("of the connection, at most", 16),
    "mcp calls": _int("of the connection, at most", 5000),
    "mcp measurements": _int("of the connection, at most", 500),
    "mcp seconds": _time("of work in all", 3600.0),
    "call_seconds": _time("of one call", 60.0),
    "stdio": _switch("as it always does; editors give it"),
    # its tools
    "tool kernel": _one("library:NAME, a text, or a file NAME.dojo of the folder", example="library:softmax"),
    "tool sizes": _one("the runtime sizes by name; chosen where none are given", example={"N": 1024, "M": 1024}),
    "tool target": _one("the target whose machine is played for", example="llvm"),
    "emit target": _one("a target, or asm for machine code; that of the game by default", example="c"),
    "game": _one("the name of a game, as new_game gave it", example="g1"),
    "move": _one("a move, with places as paths or labels", example="split(@i, 16)"),
    "apply moves": _one("moves and passes, with ; between", example="join_scopes(0, 1); default_schedule"),
    "word": _one("only moves with this word in them; all where it is empty", example="vectorize"),
    "most": _one("how many answers at most", example=8),
    "undo count": _one("how many moves are taken back", example=1),
    "tool question": _one("words, or the name of a code, move, pass, mark, rule, structure or schedule",
                         example="rows bound by memory"),
    "know game": _one("in place of a question: kernels that are built as the start of this game", example="g1"),
    "save name": _one("how the files are called: letters, digits, - and _", example="softmax-fast"),
    "state": _one("the number of a state; that of the question where it is left out", example=0),
}  # fmt: skip
"""By name, or by verb and name where one says something else in it."""


def argument(of: str, name: str) -> Argument:
    """The argument of a verb or a tool."""
    return ARGUMENTS.get(f"{of} {name}") or ARGUMENTS[name]


def of_tool(tool: str, name: str) -> Argument:
    """The argument of a tool of `dojoir mcp`, or of those that a model is asked with."""
    return next(one for key in (f"{tool} {name}", f"tool {name}", name) if (one := ARGUMENTS.get(key)) is not None)


def schema_of(tool: str, name: str, kind: str = "string") -> dict[str, Any]:
    """The JSON schema of an argument of a tool."""
    one = of_tool(tool, name)
    found: dict[str, Any] = {"type": kind, "description": one.help, "examples": [one.example]}
    return {**found, "enum": [*one.choices]} if one.choices else found
