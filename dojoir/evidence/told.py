"""The report of a bench, in lines of at most 100 columns."""

from __future__ import annotations

from collections.abc import Sequence

from dojoir.cli.output import columns
from dojoir.evidence.figures import Bench, Shape, Times, fast_p, geometric, sizes_in_words
from dojoir.support.seconds import format_seconds

NOISY = 0.05
"""The noise above which a warning is due, as a share."""


def bench_lines(bench: Bench) -> str:
    """The times, the ratios to the peers (above 1: the kernel is faster), the noise, the ceilings, the protocol."""
    lines = [
        f"{bench.kernel} on {bench.target}, {bench.threads} thread{'s' * (bench.threads > 1)}, {bench.machine}"
    ]
    lines.append(f"results: {_correct(bench)}")
    for shape in bench.shapes:
        lines += _shape(bench, shape)
    if len(bench.shapes) > 1:
        for name in bench.names:
            found = bench.speedups(name)
            mean = bench.mean(name)
            of = f"{len(found)} of {len(bench.shapes)} shapes"
            lines.append(f"{name}: {mean:.3g}x, geometric mean of {of}" if mean else f"{name}: no figure, {of}")
    lines.append(
        f"protocol: {bench.protocol or 'nothing was timed'}; a ratio above 1 says that the kernel is faster"
    )
    return "\n".join(lines) + "\n"


def _correct(bench: Bench) -> str:
    words = {"pass": "right", "fail": "wrong", "not-run": "not compared", "unavailable": "not compared"}
    return words[bench.correct] + (f": {bench.reason}" if bench.reason else "")


def _shape(bench: Bench, shape: Shape) -> list[str]:
    sizes = sizes_in_words(shape.sizes)
    if shape.own is None:
        return [f"{bench.kernel}({sizes}): failed: {shape.reason}"]
    lines = [f"{bench.kernel}({sizes})"]
    rows = [["", "time", "quartiles", "n", "kernel is faster by", "differs by"], _row(shape.own, "")]
    rows += [_row(one, "" if one.ratio is None else str(one.ratio)) for one in shape.peers]
    lines += [f"  {row}".rstrip() for row in columns(rows, right=True)]
    lines += [f"  {name}: left out: {reason}" for name, reason in shape.left_out.items()]
    if shape.noise is not None:
        lines.append(f"  noise: the kernel beside itself {shape.noise}")
    ceiling = shape.ceiling
    if ceiling is not None and ceiling.share and ceiling.memory is not None and ceiling.arithmetic is not None:
        lines.append(
            f"  ceilings: {ceiling.memory:.3g} GB/s and {ceiling.arithmetic:.4g} GFLOP/s; it reaches "
            f"{ceiling.share:.0%} of that of {ceiling.bound_by}"
        )
    if shape.slack > NOISY:
        lines.append(
            f"  warning: the noise is {shape.slack:.0%}: something else may be running here; smaller differences "
            f"say nothing"
        )
    return lines


def _row(one: Times, ratio: str) -> list[str]:
    quartiles = f"{format_seconds(one.first_quartile)} to {format_seconds(one.third_quartile)}"
    differs = "" if one.ratio is None else "not comparable" if one.difference is None else f"{one.difference:.1e}"
    return [
        one.name, format_seconds(one.seconds), quartiles if one.count > 1 else "one call", f"{one.count}",
        ratio, differs,
    ]  # fmt: skip


def problem_table(benches: Sequence[Bench]) -> str:
    """Problems of KernelBench, a line each: right or why not, the time, the ratio to each baseline; and fast_p, the
    share that is right and more than p times as fast."""
    names = list(dict.fromkeys(name for bench in benches for name in bench.names))
    rows = [["problem", "right", "time", *names]]
    for bench in benches:
        (shape,) = bench.shapes
        own = "" if shape.own is None else format_seconds(shape.own.seconds)
        cells = [f"{one.ratio.median:.3g}x" if (one := shape.peer(n)) and one.ratio else "" for n in names]
        rows.append([bench.kernel, "yes" if bench.correct == "pass" else "no", own, *cells])
    lines = columns(rows)
    for bench in benches:
        reason = bench.reason or bench.shapes[0].reason
        lines += [f"{bench.kernel}: {reason}"] if reason else []
    for name in names:
        shares = ", ".join(f"fast_{p:g} {fast_p(list(benches), name, p):.0%}" for p in (0, 1, 2))
        mean = geometric([ratio for bench in benches for ratio in bench.speedups(name)])
        lines.append(f"beside {name}: {shares}; geometric mean {mean:.3g}x" if mean else f"beside {name}: {shares}")
    return "\n".join(lines) + "\n"


def result_lines(benches: Sequence[Bench]) -> list[dict[str, object]]:
    """The results of each kernel and shape for a program: whether it is `correct`, and its `speedup` over each
    peer."""
    return [
        {
            "kernel": bench.kernel, "hash": bench.hash, "sizes": dict(shape.sizes),
            "correct": {"pass": True, "fail": False}.get(bench.correct), "status": shape.status,
            "seconds": None if shape.own is None else shape.own.seconds,
            "speedup": {one.name: one.ratio.median for one in shape.peers if one.ratio is not None},
            "protocol": bench.protocol,
        }
        for bench in benches
        for shape in bench.shapes
    ]  # fmt: skip
