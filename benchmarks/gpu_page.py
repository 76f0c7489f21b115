"""The page of the GPU table, made of its JSON file."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

OWN = ("dojoir", "fast", "any size")
COLUMNS = ("dojoir", "fast", "any size", "eager", "compile", "Triton", "JAX", "CuPy")


def page(found: Mapping[str, Any]) -> str:
    """All tables, as Markdown."""
    machine = found["machine"]
    rows: Mapping[str, Any] = found["rows"]
    right = {name: row for name, row in rows.items() if "dojoir" in row.get("us", {})}
    lines = [
        f"# dojoir on {machine['gpu']}",
        "",
        _about(machine),
        "",
        f"| row | {' | '.join(COLUMNS)} | beside | of roof | hot: dojoir | best peer |",
        "|---" * (len(COLUMNS) + 5) + "|",
    ]
    for name, row in rows.items():
        if name not in right:
            why = row.get("error") or row["failed"].get("dojoir")
            lines.append(f"| {name} | {why} |{' |' * (len(COLUMNS) + 3)}")
            continue
        cells = [f"{row['us'][column]:.1f}" if column in row["us"] else "" for column in COLUMNS]
        cells += [f"{beside(row):.2f}", f"{reached(row, machine):.0%}"]
        cells += [f"{row['hot']['dojoir']:.1f}", f"{best(row['hot']):.1f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", *_counted(right), "", *_roofline(right, machine), *_failures(rows)]
    return "\n".join(lines) + "\n"


def _about(machine: Mapping[str, Any]) -> str:
    parts = (
        "Made by `benchmarks/gpu.py`: what `dojoir.optimize(kernel, 'cuda')` makes of each kernel, for the sizes",
        "of the row (dojoir), the same under `fp fast`, which lets sums be regrouped by algebra and the hardware's",
        "functions be used, as peers do (fast), and for any sizes (any size). Medians in µs of interleaved cold",
        "calls (a buffer of twice the L2 cache is written before each) beside PyTorch",
        f"{machine['torch']} (eager, and torch.compile with fixed shapes), Triton, CuPy; JAX",
        f"{machine.get('jax')} by the profiler, cold as well (the sum of the times of its kernels, and what events",
        "see besides of PyTorch's call). TF32 off everywhere, random data, every result first held against f64.",
        "`beside` is the best peer's time over dojoir's: above 1, dojoir is faster. `of roof` is the share of what",
        f"the rate of a copy in the same run and of multiply-adds ({machine['GFLOP/s'] / 1e3:.0f} TFLOP/s) allow.",
    )
    return " ".join(parts)


def best(us: Mapping[str, float]) -> float:
    """The time of the fastest peer."""
    return min((time for peer, time in us.items() if peer not in (*OWN, "copy")), default=float("nan"))


def beside(row: Mapping[str, Any]) -> float:
    return best(row["us"]) / float(row["us"]["dojoir"])


def roof(row: Mapping[str, Any], machine: Mapping[str, Any]) -> tuple[float, str]:
    """The least µs that memory and arithmetic allow, and which of the two it is."""
    moved = row["bytes"] / (row["copy"] / row["us"]["copy"])
    computed = row["flops"] / machine["GFLOP/s"] * 1e-3
    return max((moved, "memory"), (computed, "arithmetic"))


def reached(row: Mapping[str, Any], machine: Mapping[str, Any]) -> float:
    return roof(row, machine)[0] / float(row["us"]["dojoir"])


def _counted(right: Mapping[str, Any]) -> list[str]:
    plain = [beside(row) for row in right.values() if not row["flops"]]
    if not plain:
        return []
    faster, slow = sum(ratio > 1 for ratio in plain), sum(ratio < 1 / 1.05 for ratio in plain)
    copies = [row["copy"] / row["us"]["copy"] * 1e-6 for row in right.values()]
    longest = max(row["seconds"] for row in right.values())
    return [
        f"Of {len(plain)} rows that are no products, {faster} are faster than the best peer, and {slow} slower by "
        f"more than 5%. The copy moved {statistics.median(copies):.2f} TB/s. The longest schedule took "
        f"{longest:.1f} s to choose and prove, {max(row['moves'] for row in right.values())} moves at most."
    ]


def _roofline(right: Mapping[str, Any], machine: Mapping[str, Any]) -> list[str]:
    """What each row reaches under the roof of its intensity."""
    lines = [
        "## Roofline",
        "",
        "| row | flop a byte | bound by | GB/s | TFLOP/s | of roof |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in sorted(right.items(), key=lambda item: item[1]["flops"] / item[1]["bytes"]):
        own = row["us"]["dojoir"]
        arithmetic = f"{row['flops'] / own * 1e-6:.1f}" if row["flops"] else ""
        intensity = f"{row['flops'] / row['bytes']:.1f}" if row["flops"] else "under 10"
        lines.append(
            f"| {name} | {intensity} | {roof(row, machine)[1]} | {row['bytes'] / own * 1e-3:.0f} | {arithmetic} | "
            f"{'#' * round(20 * min(1, reached(row, machine)))} {reached(row, machine):.0%} |"
        )
    return [*lines, ""]


def _failures(rows: Mapping[str, Any]) -> list[str]:
    failed = [(name, who, why) for name, row in rows.items() for who, why in row.get("failed", {}).items()]
    if not failed:
        return []
    return ["## What failed", "", *(f"- {name}, {who}: {' '.join(why.split())}" for name, who, why in failed)]
