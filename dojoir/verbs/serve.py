"""`dojoir worker`, `mcp`, `lsp`: what serves a search, a language model, an editor."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
from typing import Any

import dojoir
from dojoir.cli.error_report import FINE
from dojoir.cli.streams import say
from dojoir.search.needs import needed
from dojoir.search.station import Station

JOIN_SECONDS = 15.0
"""How long the scheduler may take to answer."""

VISIBLE = {"cuda": "CUDA_VISIBLE_DEVICES", "hip": "HIP_VISIBLE_DEVICES"}
"""The variable that names the devices which a process sees, by the kind of device."""


def worker(options: argparse.Namespace) -> int:
    """Serves until the scheduler ends or a signal comes. Raises DojoError where there is no scheduler."""
    distributed = needed("distributed", "cluster", "dojoir worker")
    kind, _, number = options.device.partition(":")
    if kind in VISIBLE:
        os.environ[VISIBLE[kind]] = number or "0"
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        asyncio.run(_served(distributed, options.address, options.device))
    except (OSError, TimeoutError, ValueError) as error:
        raise _nobody(options.address, error) from None
    except RuntimeError as error:  # what Dask makes of an error at its start
        if error.__cause__ is None:
            raise
        raise _nobody(options.address, error.__cause__) from None
    return 0


def _nobody(address: str, error: BaseException) -> dojoir.ToolchainError:
    reason = str(error) or type(error).__name__
    return dojoir.ToolchainError(
        f"no Dask scheduler answers at {address} ({reason}): start one with dask scheduler", "no-cluster"
    )


async def _served(distributed: Any, address: str, device: str) -> None:
    """A worker of one thread that has one of its device."""
    station = Station(device, os.getpid())
    kind = device.partition(":")[0]
    made = distributed.Worker(
        address, nthreads=1, resources={kind: 1}, memory_limit=0, dashboard=False, death_timeout=JOIN_SECONDS
    )
    made.station = station
    try:
        async with made:
            loop = asyncio.get_running_loop()
            with contextlib.suppress(NotImplementedError):  # where the system has no such signals
                loop.add_signal_handler(signal.SIGTERM, lambda: loop.create_task(made.close()))
            say(f"{made.address}: a worker of {address} on {device}, dojoir {dojoir.__version__}")
            await made.finished()
    finally:
        station.close()


def mcp(options: argparse.Namespace) -> int:
    """Serves one connection until its end. Raises DojoError."""
    from dojoir.llm import Limits, serve
    from dojoir.verbs.know import more_documents

    limits = Limits(
        games=options.games, calls=options.calls, measurements=options.measurements, seconds=options.seconds,
        call_seconds=options.call_seconds,
    )  # fmt: skip
    serve(options.folder, limits, timer=options.timer, more=more_documents(options))
    return FINE


def lsp(options: argparse.Namespace) -> int:
    """Serves one editor until it ends. Raises DojoError."""
    from dojoir.editor.server import serve

    serve()
    return FINE
