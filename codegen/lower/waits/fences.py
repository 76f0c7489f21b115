"""Fences behind stores past the caches: what a thread streamed must be there for the others, and for the caller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dojoir.codegen.lir.program import Fence, For, If, Parallel, Stmt, Store, Stream
from dojoir.codegen.lir.walk import statements, with_blocks


def fenced(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The block, which one thread runs, with as few fences as there can be: before any other thread starts, at the
    end of each chunk of iterations on the cores, and at the end."""
    return (*_before_threads(body), Fence()) if _streams_at_end(body) else _before_threads(body)


def _before_threads(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The block with fences inside it; none behind its last stores, if no other thread starts after them."""
    if not any(isinstance(stmt, Parallel) for stmt in statements(body)):
        return body
    return tuple(_with_fences(body))


def _with_fences(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    for number, stmt in enumerate(body):
        yield _inside(stmt)
        starts_threads = any(isinstance(s, Parallel) for s in statements((stmt,)))
        follow = any(isinstance(s, Parallel) for s in statements(body[number + 1 :]))
        if follow and not starts_threads and _streams((stmt,)):
            yield Fence()


def _inside(stmt: Stmt) -> Stmt:
    match stmt:
        case Parallel(prologue=prologue, body=inner) if _streams((*prologue, *inner)):
            return replace(stmt, epilogue=(*stmt.epilogue, Fence()))
        case For() | If() if any(isinstance(s, Parallel) for s in statements((stmt,))):
            return with_blocks(stmt, fenced)  # of a loop, the next iteration starts threads, too
    return stmt


def _streams_at_end(body: tuple[Stmt, ...]) -> bool:
    """Whether this thread itself may have streamed something since its last fence."""
    for stmt in reversed(body):
        if any(isinstance(s, Parallel) for s in statements((stmt,))):
            return False
        if _streams((stmt,)):
            return True
    return False


def _streams(body: tuple[Stmt, ...]) -> bool:
    return any(isinstance(s, Stream) or (isinstance(s, Store) and s.streaming) for s in statements(body))
