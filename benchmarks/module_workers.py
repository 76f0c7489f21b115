"""Work on many modules by processes side by side: each has a time limit, and a crash costs one module.

A worker is a Python process that reads a name a line and answers with lines of JSON, the last of which has `done`.
One that takes too long, or ends, is replaced.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def shared_out(
    names: Sequence[str], command: Sequence[str], jobs: int, limit: float, end: float, take: Callable[[Row], None]
) -> None:
    """Gives each name to a worker, of which there are `jobs`, and each line of an answer to `take` as it comes. A
    name that takes more than `limit` seconds, or is at work at the time `end`, gets a row with an `error`."""
    left: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        left.put(name)
    lock = threading.Lock()

    def told(row: Row) -> None:
        with lock:
            take(row)

    def work() -> None:
        worker: _Worker | None = None
        while True:
            try:
                name = left.get_nowait()
            except queue.Empty:
                break
            if time.monotonic() >= end:
                told({"name": name, "error": "not begun in the time"})
                continue
            if worker is None:
                worker = _Worker(command)
            start = time.monotonic()
            for row in worker.answers(name, min(limit, end - start)):
                told(row)
            if not worker.is_well:
                worker.stop()
                worker = None
        if worker is not None:
            worker.stop()

    threads = [threading.Thread(target=work) for _ in range(min(jobs, len(names)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class _Worker:
    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr, text=True
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.is_well = True
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def answers(self, name: str, limit: float) -> Iterator[Row]:
        assert self._process.stdin is not None
        start = time.monotonic()
        try:
            self._process.stdin.write(name + "\n")
            self._process.stdin.flush()
        except OSError:
            self.is_well = False
            yield {"name": name, "error": "the process had ended"}
            return
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, start + limit - time.monotonic()))
            except queue.Empty:
                self.is_well = False
                yield {"name": name, "error": f"not done in {limit:.0f} s"}
                return
            if line is None:
                self.is_well = False
                yield {"name": name, "error": f"the process ended ({self._process.wait()})"}
                return
            try:
                row = json.loads(line)
            except ValueError:  # a word of a library
                continue
            if not isinstance(row, dict) or row.get("name") != name:
                continue
            if row.get("done"):
                return
            yield row

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def serve(answer: Callable[[str], Iterator[Row]]) -> None:
    """The other side: answers each name that is read, a line a row."""
    for line in sys.stdin:
        name = line.strip()
        is_over = False
        try:
            for row in answer(name):
                print(json.dumps({"name": name} | row), flush=True)
        except Exception as error:  # whatever a module or a device raises
            words = str(error).strip().splitlines() or [""]
            text = f"{type(error).__name__}: {words[0]}"
            print(json.dumps({"name": name, "error": text}), flush=True)
            is_over = "CUDA error" in text or "the GPU reported" in text
        print(json.dumps({"name": name, "done": True}), flush=True)
        if is_over:  # no more work can be done on the device in this process
            return


def read_rows(path: Path) -> list[Row]:
    """The rows that a file has, a line each."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def write_row(path: Path, row: Row) -> None:
    """Adds a row, which is there when this returns."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
