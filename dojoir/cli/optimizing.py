"""`dojoir-opt -O` and `-p optimize`: the stored schedule that fits, and why it was taken."""

from __future__ import annotations

import dojoir
from dojoir import runtime
from dojoir.cli.hints import nearest
from dojoir.cli.options import Options
from dojoir.cli.streams import say
from dojoir.passes import load_passes, named_pass


def optimized(options: Options, kernel: dojoir.Kernel) -> dojoir.Trace:
    """The kernel after the schedule that `optimize` chooses; with `--why` it says on stderr which, for what
    machine. Raises DojoError."""
    known = None
    if options.db:
        from dojoir.records.upkeep import existing

        known = existing(options.db)
    choice = dojoir.schedules.choose(
        kernel,
        options.target,
        sizes=dict(options.sizes),
        threads=options.threads,
        cpu=options.cpu,
        db=known,
        structures=own_structures(options),
        measure=options.measure,
    )
    if known is not None and known.best(kernel, options.target, dict(options.sizes), options.threads) is None:
        threads = runtime.thread_count(options.threads)
        at = ", ".join(f"{name}={size}" for name, size in options.sizes) or "no sizes"
        say(f"{options.db} has nothing for {kernel.name} on {options.target}, {threads} threads, at {at}")
    if options.why:
        say(str(choice))
    return choice.trace


def own_structures(options: Options) -> list[dojoir.Pass]:
    """The passes of `--load` that `--structure` names. Raises ArgumentError for a name that no file has."""
    loaded = {name: found for path in options.load for name, found in load_passes(path).items()}
    for name in options.structure:
        if name not in loaded:
            message = f"no file of --load has a pass '{name}'{nearest(name, loaded)}; they have {', '.join(loaded)}"
            raise dojoir.ArgumentError(message, "bad-arguments")
    return [loaded[name] for name in options.structure]


def optimize_pass(options: Options) -> dojoir.Pass:
    """The same as a pass of a pipeline."""

    @named_pass
    def optimize(trace: dojoir.Trace) -> None:
        """Makes the moves of the stored schedule that fits the kernel, the sizes of -s and the machine best, else
        those of default_schedule: -O as a step of a pipeline. What a schedule is for is known by the name of the
        kernel, so that it comes first."""
        for move in optimized(options, trace.kernel).moves:
            trace.apply(move)

    return optimize
