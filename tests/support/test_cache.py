"""The build cache: whole entries or none, whatever happened to the files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dojoir.support.cache import SHARDS, Cache, content_key
from dojoir.support.cache_folder import cache_folder

KEY = content_key("some text", "flags")


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_key_tells_parts_apart() -> None:
    assert content_key("ab", "c") != content_key("a", "bc") != content_key("abc")
    assert content_key("ab", b"c") == content_key("ab", "c")


def test_what_was_put_is_got(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.get(KEY) is None
    assert cache.put(KEY, b"machine code")
    assert cache.get(KEY) == b"machine code"
    assert Cache(tmp_path).get(KEY) == b"machine code"
    assert cache.get(content_key("another")) is None


@pytest.mark.parametrize("keep", [0, 5, 30, 60])
def test_a_truncated_entry_is_absent_and_can_be_written_again(tmp_path: Path, keep: int) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"machine code" * 10)
    (entry,) = files(tmp_path)
    entry.write_bytes(entry.read_bytes()[:keep])
    assert cache.get(KEY) is None
    assert cache.put(KEY, b"new")
    assert cache.get(KEY) == b"new"


@pytest.mark.parametrize("position", [0, 20, -1])
def test_a_flipped_bit_is_found(tmp_path: Path, position: int) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"machine code" * 10)
    (entry,) = files(tmp_path)
    data = bytearray(entry.read_bytes())
    data[position] ^= 4
    entry.write_bytes(data)
    assert cache.get(KEY) is None


def test_an_entry_under_another_key_is_refused(tmp_path: Path) -> None:
    """As after a wrong copy: the checksum covers the key."""
    cache = Cache(tmp_path)
    cache.put(KEY, b"machine code")
    (entry,) = files(tmp_path)
    other = KEY[:4] + content_key("other")[4:]
    entry.rename(entry.with_name(other))
    assert cache.get(other) is None


def test_no_folder_at_all() -> None:
    cache = Cache(None)
    assert not cache.put(KEY, b"x")
    assert cache.get(KEY) is None


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file" / "cache")
    assert not cache.put(KEY, b"x")
    assert cache.get(KEY) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert not Cache(tmp_path).put(KEY, b"x")
    assert Cache(tmp_path).get(KEY) is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, mode: str) -> object:
        os.close(handle)
        return open("/dev/full", mode)

    monkeypatch.setattr(os, "fdopen", full)
    assert not Cache(tmp_path).put(KEY, b"x" * (1 << 20))
    assert not files(tmp_path), "no temporary file is left behind"


def test_an_entry_that_is_a_folder(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"x")
    (entry,) = files(tmp_path)
    entry.unlink()
    entry.mkdir()
    assert cache.get(KEY) is None
    assert not cache.put(KEY, b"x")
    assert not files(tmp_path), "no temporary file is left behind"


def test_the_oldest_entries_go_first(tmp_path: Path) -> None:
    keys = [f"{i * SHARDS:04x}" + "0" * 60 for i in range(8)]  # all in one shard
    cache = Cache(tmp_path, limit=SHARDS * 3000)
    now = time.time()
    for age, key in enumerate(keys):
        cache.put(key, bytes(1000))
        (entry,) = tmp_path.rglob(key)
        os.utime(entry, (now - 1000 + age, now - 1000 + age))
    kept = [key for key in keys if cache.get(key) is not None]
    assert kept == keys[-2:], "two of 1000 bytes and their headers fit in 3000"


def test_an_entry_larger_than_the_limit_is_still_kept(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=16)
    assert cache.put(KEY, bytes(1000))
    assert cache.get(KEY) == bytes(1000)


def test_what_a_killed_writer_left_is_removed_in_time(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"x")
    (entry,) = files(tmp_path)
    fresh, old = entry.with_name(".new-fresh"), entry.with_name(".new-old")
    fresh.write_bytes(b"")
    old.write_bytes(b"")
    os.utime(old, (1, 1))
    cache.put(KEY, b"y")
    assert fresh.exists()
    assert not old.exists()


def test_a_hit_makes_an_old_entry_young(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"x")
    (entry,) = files(tmp_path)
    os.utime(entry, (1, 1))
    cache.get(KEY)
    assert entry.stat().st_mtime > 1e9


def test_two_processes_write_and_read_the_same_entries(tmp_path: Path) -> None:
    """Every read gives the whole content or nothing, while others write and evict."""
    program = """
import sys
from pathlib import Path
from dojoir.support.cache import Cache, content_key
cache = Cache(Path(sys.argv[1]), limit=16 * 40_000)
for i in range(150):
    key = content_key(str(i % 12))
    wanted = (key * 200).encode()
    found = cache.get(key)
    assert found in (None, wanted), i
    assert cache.put(key, wanted), i
"""
    children = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) for _ in range(3)]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert not list(tmp_path.rglob(".new-*"))


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOJOIR_CACHE", "/some/where")
    assert cache_folder() == Path("/some/where")
    monkeypatch.setenv("DOJOIR_CACHE", "")
    assert cache_folder() is None
    monkeypatch.delenv("DOJOIR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/other")
    if sys.platform == "linux":
        assert cache_folder() == Path("/other/dojoir")
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", "/home/me")
        assert cache_folder() == Path("/home/me/.cache/dojoir")
