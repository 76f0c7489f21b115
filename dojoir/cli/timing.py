"""`dojoir-opt --check` and `--time`: is the kernel right, and how fast is it beside what it was."""

from __future__ import annotations

import json
from textwrap import wrap

import dojoir
from dojoir import runtime
from dojoir.cli.error_report import DIFFERS, FINE
from dojoir.cli.options import Options
from dojoir.cli.output import columns
from dojoir.cli.run_option import read_inputs
from dojoir.support.seconds import format_seconds

MOST_BYTES = 1 << 28
"""The most memory that sizes chosen here make the arguments take: well past the caches."""

NOISY = 0.05
"""The half of a confidence interval, as a share of its median, above which a warning is due."""

MOST_STATEMENTS = 1 << 28
"""The most statements that sizes chosen here make the kernel run."""


def check_kernel(options: Options, trace: dojoir.Trace) -> tuple[str, int]:
    """Compares the kernel with the meaning of the one before the moves."""
    sizes = dict(options.sizes)
    report = dojoir.verify(
        trace.kernel,
        against=trace.start,
        target=options.target,
        cpu=options.cpu,
        sizes=sizes or None,
        inputs=read_inputs(trace.kernel, options.inputs),
        threads=options.threads,
        time_limit=options.time_limit,
        emulated=options.emulated,
    )
    status = FINE if report.ok else DIFFERS
    if options.json:
        data = {
            "ok": report.ok,
            "status": report.status,
            "cases": len(report.cases),
            "reason": report.reason,
            "reference": report.reference,
            "unchecked": dict(report.unchecked),
        }
        return json.dumps({"check": data}) + "\n", status
    return f"{report}\n", status


def time_kernel(options: Options, trace: dojoir.Trace) -> tuple[str, int]:
    """Times the kernel in turn with what it was before the moves, and with NumPy where it is of the library."""
    sizes = {**default_sizes(trace.kernel, dict(options.sizes)), **dict(options.sizes)}
    names = [_after_moves(len(trace.moves))] if trace.moves else ["as written"]
    contestants: list[runtime.Contestant] = [trace.kernel]
    if trace.moves:
        names.append("as written")
        contestants.append(trace.start)
    numpy = dojoir.kernels.numpy_version(trace.start)
    if numpy is not None:
        names.append("NumPy")
        contestants.append(numpy)
    together = dojoir.measure_together(
        contestants,
        options.target,
        cpu=options.cpu,
        threads=options.threads,
        time_limit=options.time_limit,
        sizes=sizes,
    )
    rows = list(zip(names, together.measurements, strict=True))
    found = dojoir.bottleneck(trace.kernel, together.measurements[0])
    moves = [] if found is None else found.legal_moves(trace.kernel, options.target)
    if options.json:
        times: dict[str, object] = {
            name: _facts(row, together.measurements[0], dict(rows)["as written"]) for name, row in rows
        }
        bound = {} if found is None else {"bound": {"kind": found.kind, "why": found.why, "moves": moves}}
        return json.dumps({"time": times, **bound}) + "\n", FINE
    table = _table(trace.kernel.name, sizes, rows)
    return table if found is None else table + bound_lines(found, moves), FINE


def bound_lines(found: runtime.Bottleneck, moves: list[str]) -> str:
    """What bounds the kernel, and the legal moves that address it: lines below the table, in 80 columns."""
    lines = wrap(f"bound by {found}", 80, subsequent_indent="  ")
    if moves:
        lines += wrap(f"  legal moves that address it: {'; '.join(moves)}", 80, subsequent_indent="    ")
    return "\n".join(lines) + "\n"


def _after_moves(count: int) -> str:
    return f"after {count} move{'' if count == 1 else 's'}"


def default_sizes(kernel: dojoir.Kernel, given: dict[str, int]) -> dict[str, int]:
    """The sizes that are not given: the largest power of two for all of them with which the arguments fit in
    MOST_BYTES and the kernel runs MOST_STATEMENTS. Raises ArgumentError where the facts allow no power of two."""
    for name in given.keys() - set(kernel.runtime_sizes):
        kernel.specialize(**{name: given[name]})  # says that there is no such size
    names = [name for name in kernel.runtime_sizes if name not in given]
    cost = dojoir.cost(kernel)
    for exponent in range(27 if names else 1, -1, -1):
        chosen = {**given, **dict.fromkeys(names, 1 << exponent)}
        try:
            kernel.specialize(**chosen)
        except dojoir.ArgumentError:
            continue
        if not names or (cost.bytes(chosen) <= MOST_BYTES and cost.instances(chosen) <= MOST_STATEMENTS):
            return chosen
    missing = " ".join(f"-s {name}=…" for name in names)
    raise dojoir.ArgumentError(f"no sizes to time {kernel.name} at were found: give {missing}", "size-missing")


def _table(name: str, sizes: dict[str, int], rows: list[tuple[str, runtime.Measurement]]) -> str:
    """The times in at most 80 columns, and a warning where one is not known well. The speed-up is over the
    kernel as written, with its interval."""
    first, base = rows[0][1], dict(rows)["as written"]
    title = f"{name}({', '.join(f'{k}={v}' for k, v in sizes.items())})"
    without_flops = base.flops == 0 < base.integer + base.other  # max, min and select are work too
    lines = [["", "time", "±", "GB/s", "GOP/s" if without_flops else "GFLOP/s", "ceiling", "speed-up"]]
    noisy = []
    for label, row in rows:
        spread = (row.high - row.low) / 2 / row.seconds
        ratio = runtime.ratio_of(base, row)
        if spread > NOISY:
            noisy.append(f"{label} (±{spread:.0%})")
        lines.append(
            [
                label,
                format_seconds(row.seconds),
                f"{spread:.1%}" if row.repeats > 1 else "n = 1",
                f"{row.gbytes:.3g}",
                f"{row.all_gops if without_flops else row.gflops:.3g}",
                f"{row.fraction:.0%}" if row.fraction else "",
                "" if row is base else f"{ratio.median:.2f}x ({ratio.low:.2f} to {ratio.high:.2f})",
            ]
        )
    text = "".join(f"{line}\n" for line in columns(lines, right=True))
    about = f"medians and their {first.confidence:.0%} intervals; ceiling: share of that of {first.bound_by}\n"
    text = f"{title} on {first.target}, {first.where}\n{about}{text}"
    if noisy:
        text += f"warning: the times of {', '.join(noisy)} spread by more than {NOISY:.0%}:\n"
        text += "  something else may be running here; repeat it before you believe a small difference\n"
    return text


def _facts(row: runtime.Measurement, first: runtime.Measurement, written: runtime.Measurement) -> dict[str, object]:
    ratio, gain = runtime.ratio_of(row, first), runtime.ratio_of(written, row)
    return {
        "seconds": row.seconds,
        "low": row.low,
        "high": row.high,
        "repeats": row.repeats,
        "threads": row.threads,
        "gbytes_per_second": row.gbytes,
        "gflops": row.gflops,
        "bound_by": row.bound_by,
        "fraction_of_ceiling": row.fraction,
        "times_as_long": [ratio.low, ratio.median, ratio.high],
        "speedup": [gain.low, gain.median, gain.high],
        "protocol": row.protocol,
    }
