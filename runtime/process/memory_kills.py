"""Whether the system ended a process because memory ran out, or somebody else killed it."""

from __future__ import annotations

from pathlib import Path

VMSTAT = Path("/proc/vmstat")


def memory_kills() -> int | None:
    """How many processes Linux has ended for want of memory since it started (`oom_kill` of /proc/vmstat, which
    counts those of control groups too). None where the system does not say."""
    try:
        lines = VMSTAT.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    counts = dict(line.split() for line in lines if line.startswith("oom_kill "))
    return int(counts["oom_kill"]) if "oom_kill" in counts else None


def killed_for_memory(before: int | None) -> bool:
    """Whether a process that ended by SIGKILL was ended for want of memory; `before` is what `memory_kills` gave
    when it began. Where the system does not say, memory is the likeliest reason."""
    now = memory_kills()
    return now is None or before is None or now > before
