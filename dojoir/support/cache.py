"""The build cache: a map from a content key to bytes, kept in files that processes share.

Nothing here can fail a build. An entry carries a checksum of its content, so a file that was truncated,
corrupted or written by half is found out when it is read, and counts as absent. Writing goes to a temporary
file that is then renamed, so a reader sees a whole entry or none, and two writers of one key do no harm. A
cache that cannot be read or written (no home, read-only, full) is an empty cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

from dojoir.errors import ArgumentError
from dojoir.support.cache_folder import cache_folder
from dojoir.support.files import MOST_READ, UNFINISHED, bytes_of, write_file
from dojoir.support.frozen import dataclass

MAGIC = b"dojoir-cache-1\n"
SHARDS = 16
TOUCH_AFTER = 3600.0
"""Seconds. A hit refreshes the age of an entry that is older; eviction takes the oldest entries first."""

ABANDONED_AFTER = 3600.0
"""Seconds after which a temporary file is what a killed process left behind."""


def content_key(*parts: str | bytes) -> str:
    """The key of a build: a hash (64 hex digits) of everything that the result depends on, in order."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Cache:
    """Entries under `folder` (None: no cache), which together take at most about `limit` bytes."""

    folder: Path | None
    limit: int = 512 << 20

    @staticmethod
    def default() -> Cache:
        """The cache that `$DOJOIR_CACHE` or the user's cache folder names, as it is set now."""
        return Cache(cache_folder())

    def get(self, key: str) -> bytes | None:
        """The content of an entry, or None where there is no whole one."""
        path = self._path(key)
        if path is None:
            return None
        try:
            data = bytes_of(str(path), max(self.limit, MOST_READ))
        except OSError:
            return None
        content = _unpack(data, key)
        if content is None:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > TOUCH_AFTER:
                os.utime(path)
        return content

    def put(self, key: str, content: bytes) -> bool:
        """Stores an entry, and says whether that worked."""
        path = self._path(key)
        if path is None:
            return False
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(path, _pack(content, key), mode=0o600)
        except (OSError, ArgumentError):
            return False
        self._evict(path)
        return True

    def _path(self, key: str) -> Path | None:
        return None if self.folder is None else self.folder / "build" / f"{int(key[:4], 16) % SHARDS:02d}" / key

    def _evict(self, kept: Path) -> None:
        """Drops the oldest entries beside `kept` until its folder is within its share of the limit."""
        now = time.time()
        entries: list[tuple[float, int, str]] = []
        with contextlib.suppress(OSError), os.scandir(kept.parent) as files:
            for file in files:
                with contextlib.suppress(OSError):
                    status = file.stat(follow_symlinks=False)
                    if not file.name.startswith(UNFINISHED):
                        entries.append((status.st_mtime, status.st_size, file.path))
                    elif now - status.st_mtime > ABANDONED_AFTER:
                        os.unlink(file.path)
        total = sum(size for _, size, _ in entries)
        if total <= self.limit // SHARDS:
            return
        for _, size, path in sorted(entries):
            if path != str(kept):
                with contextlib.suppress(OSError):
                    os.unlink(path)
                    total -= size
            if total <= self.limit // SHARDS:
                return


def _pack(content: bytes, key: str) -> bytes:
    return MAGIC + _checksum(content, key) + content


def _unpack(data: bytes, key: str) -> bytes | None:
    start = len(MAGIC) + hashlib.sha256().digest_size
    content = data[start:]
    whole = data[: len(MAGIC)] == MAGIC and data[len(MAGIC) : start] == _checksum(content, key)
    return content if whole else None


def _checksum(content: bytes, key: str) -> bytes:
    return hashlib.sha256(key.encode() + content).digest()
