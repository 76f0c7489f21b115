"""Kernels of the library through `dojoir bench` and `dojoir gate`, beside PyTorch, and what they leave as zips.

    python benchmarks/gates.py --target cuda -o benchmarks/bundles          # on a machine with a GPU
    python benchmarks/gates.py --target llvm --rows softmax --small -o /tmp/bundles

Each row is what `dojoir-opt -O` makes of the kernel for the target at its sizes, timed and gated as a user would,
in a folder of runs of its own; `dojoir check` proves a zip again anywhere.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS = {
    "softmax": ({"N": 8192, "M": 4096}, {"N": 64, "M": 128}),
    "layernorm": ({"N": 8192, "M": 4096}, {"N": 64, "M": 128}),
    "matmul": ({"N": 2048, "M": 2048, "K": 2048}, {"N": 64, "M": 64, "K": 64}),
}
"""The sizes of a row, and small ones."""


def run(*command: str) -> tuple[int, str]:
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    print(f"$ {' '.join(command)}   # status {done.returncode}, {time.monotonic() - began:.0f} s")
    print(done.stdout + done.stderr, flush=True)
    return done.returncode, done.stdout


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--target", default="cuda")
    options.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    options.add_argument("--small", action="store_true")
    options.add_argument("--beside", default="torch,compile")
    options.add_argument("--seconds", default="3")
    options.add_argument("--sanitize", action="store_true")
    options.add_argument("-o", "--output", type=Path, required=True)
    given = options.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in given.rows:
        sizes = [word for n, v in ROWS[name][given.small].items() for word in ("-s", f"{n}={v}")]
        with tempfile.TemporaryDirectory() as folder:
            trace, runs = f"{folder}/{name}.json", f"{folder}/runs"
            text = ("-o", f"{folder}/{name}.dojo")
            made, _ = run("dojoir.cli", f"library:{name}", "-O", *sizes, "--target", given.target,
                          "--save-trace", trace, *text)  # fmt: skip
            if made:
                failed += 1
                continue
            asked = ("--target", given.target, *sizes, "--beside", given.beside, "--seconds", given.seconds)
            more = {"bench": (), "gate": ("--sanitize",) if given.sanitize else ()}
            for verb, words in more.items():
                status, _ = run("dojoir.verbs", verb, trace, *asked, *words, "--runs", runs)
                failed += status != 0
                for found in sorted(Path(runs).iterdir()):
                    zipped = given.output / f"{name}-{given.target}-{verb}.zip"
                    if found.is_dir() and f"-{name}-" in found.name and not zipped.exists():
                        run("dojoir.verbs", "export", str(found), "-o", str(zipped))
                        run("dojoir.verbs", "check", str(zipped))
                        found.rename(Path(folder) / f"done-{verb}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
