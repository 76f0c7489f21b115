"""A run proved again, here and by a stranger: every byte of it counts, and nothing of it is executed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bundled import begun, bench_bundle, search_bundle, traced
from bundled import benched as made

import dojoir
from dojoir.evidence import archive
from dojoir.evidence import replay as replaying
from dojoir.evidence.archive import check, export, packed, unpacked
from dojoir.evidence.bundle_reading import Bundle, read
from dojoir.evidence.claims import BundleProof
from dojoir.evidence.replay import replay
from dojoir.evidence.writing import store_of
from dojoir.runtime import Ratio

pytest.importorskip("sqlalchemy", reason="needs the extra agents")


@pytest.fixture(scope="module")
def benched(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return bench_bundle(tmp_path_factory.mktemp("runs"), traced())


@pytest.fixture(scope="module")
def zipped(benched: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(benched, tmp_path_factory.mktemp("zips") / "x.zip")


def statuses(proof: BundleProof) -> dict[str, str]:
    return {one.name: one.status for one in proof.found}


# -- replay ------------------------------------------------------------------------------------------------
def test_a_run_is_proved_again(benched: Bundle) -> None:
    found = replay(benched)
    assert found.ok and found.first is None, found
    assert statuses(found) == dict.fromkeys(
        (
            "files",
            "events",
            "moves",
            "certified",
            "ends",
            "source",
            "code",
            "states",
            "figures",
            "verdicts",
            "results",
            "built",
        ),
        "pass",
    )
    assert "nothing differs" in str(found)


def test_a_run_whose_data_have_facts_is_proved_again(tmp_path: Path) -> None:
    text = (
        "kernel ragged(N)\nin  len: i32[N] distinct lengths(9999)\nin  x: f32[N]\nout y: f32[N]\n\n"
        "N\n| y[{0}] = 0\n| len[{0}]\n| | y[{0}] += x[{0}]\n"
    )
    trace = dojoir.Trace(dojoir.parse(text))
    trace.apply("split(0, 16)")
    given = bench_bundle(tmp_path, trace)
    assert "len: i32[N] distinct lengths(9999)" in (given.text("final.dojo") or "")
    assert replay(given).ok


def test_searches_of_kernels_of_the_library_are_proved_again(tmp_path: Path) -> None:
    for seed, name in enumerate(("add", "softmax", "matmul", "layernorm", "transpose")):
        found = replay(search_bundle(tmp_path, name, 6, seed))
        assert found.ok, found


def changed(given: Bundle, folder: Path, name: str, change: Callable[[str], str], listed: bool = True) -> Bundle:
    """A copy of a bundle with one file changed; its record lists it as it is then."""
    shutil.copytree(given.folder, folder)
    path = folder / name
    path.write_text(change(path.read_text()))
    if listed:
        data = json.loads((folder / "run.json").read_text())
        for one in data["files"]:
            whole = (folder / one["name"]).read_bytes()
            one |= {"size": len(whole), "sha256": hashlib.sha256(whole).hexdigest()}
        (folder / "run.json").write_text(json.dumps(data))
    return read(folder)


def faster(text: str) -> str:
    """A bench whose own time is told as a tenth of what it was."""
    data = json.loads(text)
    own = data["shapes"][0]["own"]
    own["seconds"] = own["seconds"] / 10
    return json.dumps(data)


def ratio(text: str) -> str:
    data = json.loads(text)
    data["shapes"][0]["peers"][0]["ratio"] = {"median": 9.0, "low": 8.0, "high": 10.0}
    return json.dumps(data)


TAMPERED: dict[str, tuple[str, Callable[[str], str], str]] = {
    "a line of the source": ("source.ll", lambda text: text.replace("fcmp", "fcmp fast", 1), "source"),
    "the text of the result": ("final.dojo", lambda text: text.replace("relu", "rely"), "ends"),
    "the text of the start": ("start.dojo", lambda text: text + "\n# more\n", "ends"),
    "an edited figure": ("bench.json", faster, "figures"),
    "an edited ratio": ("bench.json", ratio, "figures"),
    "a state of another hash": ("states.jsonl", lambda text: text.replace('"state": "', '"state": "0'), "moves"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_what_was_changed_and_listed_anew_is_found_where_it_shows(
    benched: Bundle, tmp_path: Path, name: str
) -> None:
    file, change, where = TAMPERED[name]
    found = replay(changed(benched, tmp_path / "run", file, change))
    assert found.first is not None and found.first.name == where, found
    if where != "source":  # that takes printing it again
        assert statuses(check(export(read(tmp_path / "run"), tmp_path / "x.zip")))[where] == "fail"


def test_a_move_that_is_not_legal_is_found(benched: Bundle, tmp_path: Path) -> None:
    def other(text: str) -> str:
        data = json.loads(text)
        data["moves"][0] = "split(0, 8)"
        return json.dumps(data)

    found = replay(changed(benched, tmp_path / "run", "trace.json", other))
    assert found.first is not None and found.first.name == "moves"
    assert statuses(found)["certified"] == statuses(found)["results"] == "not-run"
    told = check(export(read(tmp_path / "run"), tmp_path / "x.zip"))
    assert told.first is not None and told.first.name == "moves"


def test_an_unsafe_move_never_passes(tmp_path: Path) -> None:
    trace = traced()
    trace.apply("unmark(0.0, v)", unsafe=True)
    given = bench_bundle(tmp_path, trace)
    found = replay(given)
    assert found.first is not None and found.first.name == "moves" and "without the checker" in found.first.reason
    told = check(export(given, tmp_path / "x.zip"))
    assert told.first is not None and told.first.name == "moves"


def test_a_file_that_is_changed_missing_or_added_is_named(benched: Bundle, tmp_path: Path) -> None:
    one = changed(benched, tmp_path / "one", "bench.json", lambda text: text + " ", listed=False)
    assert replay(one).first is not None and "bench.json: it has changed" in str(replay(one))
    other = changed(benched, tmp_path / "other", "bench.json", lambda text: text)
    (other.folder / "more.txt").write_text("")
    assert "more.txt: it is not in the list" in str(replay(other))
    (other.folder / "more.txt").unlink()
    (other.folder / "events.jsonl").unlink()
    assert "events.jsonl: it is missing" in str(replay(other))
    for given in (one, other):
        with pytest.raises(dojoir.ArgumentError) as caught:
            export(given, tmp_path / "y.zip")
        assert caught.value.diagnostic.code == "changed-run"
    assert not (tmp_path / "y.zip").exists()


def test_an_edited_verdict_is_found(tmp_path: Path) -> None:
    given = bench_bundle(tmp_path / "runs", traced(), fails=True)
    assert replay(given).ok, "it says that it is wrong"
    told = changed(given, tmp_path / "a", "gates.json", lambda text: text.replace('"fail"', '"pass"'))
    assert told.gates is not None and told.gates["correct"].status == "pass"
    assert told.verdicts[0].status == "fail", "what is shown follows from what was seen"
    for found in (replay(told), check(export(told, tmp_path / "a.zip"))):
        assert found.first is not None and found.first.name == "verdicts", found

    def both(text: str) -> str:
        return text.replace('"correct"', '"faster"', 1).replace('"fail"', '"pass"')

    slow = changed(given, tmp_path / "b", "gates.json", both)
    assert statuses(replay(slow))["verdicts"] == "undecided" and replay(slow).status == 3


def test_code_of_another_processor_is_unavailable(benched: Bundle, tmp_path: Path) -> None:
    def elsewhere(text: str) -> str:
        data = json.loads(text)
        data["code"]["processor"] = "abacus"
        return json.dumps(data)

    found = replay(changed(benched, tmp_path / "run", "run.json", elsewhere, listed=False))
    assert statuses(found)["built"] == "unavailable" and found.status == 4


def test_it_is_timed_again_where_that_is_asked(benched: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    same = made(benched.trace.kernel, 1e-5, 0)
    shape = same.shapes[0]
    other = replace(shape.peers[0], ratio=Ratio(1.0, 0.9, 1.1))
    for now, status in (
        (same, "pass"),
        (replace(same, protocol="another"), "undecided"),
        (replace(same, shapes=(replace(shape, peers=(other,)),)), "fail"),
    ):
        monkeypatch.setattr(replaying, "bench", lambda *_, now=now, **__: now)
        assert statuses(replay(benched, again=True))["times"] == status


# -- export and check --------------------------------------------------------------------------------------
def test_the_same_run_gives_the_same_bytes(benched: Bundle, zipped: Path, tmp_path: Path) -> None:
    again = export(read(benched.folder), tmp_path / "again.zip")
    assert again.read_bytes() == zipped.read_bytes()
    shutil.copytree(benched.folder, tmp_path / "copy")
    assert export(read(tmp_path / "copy"), tmp_path / "copy.zip").read_bytes() == zipped.read_bytes()


def test_a_stranger_proves_it_without_a_compiler_and_writes_nothing(
    zipped: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def never(*_: object, **__: object) -> Any:
        raise AssertionError("nothing is compiled or run")

    for name in ("compile", "verify", "measure_together"):
        monkeypatch.setattr(dojoir, name, never)
    monkeypatch.chdir(tmp_path)
    found = check(zipped)
    assert found.ok and statuses(found)["moves"] == statuses(found)["certified"] == "pass", found
    assert list(tmp_path.iterdir()) == []


def test_a_stranger_needs_no_database(zipped: Path, benched: Bundle) -> None:
    """Nor anything else of an extra: what reads and proves a run stands on dojoir alone."""
    code = (
        "import sys\nsys.modules['sqlalchemy'] = None\nfrom dojoir.verbs import main\n"
        f"assert main(['check', {str(zipped)!r}]) == 0\n"
        f"for verb in (['show'], ['show', '--section', 'lineage'], ['replay']):\n"
        f"    assert main([*verb, {str(benched.folder)!r}]) == 0, verb\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_changed_byte_is_found(zipped: Path) -> None:
    """Each byte of the ends, where the names and places are, and some of the rest; all with DOJOIR_BYTES=all."""
    data = zipped.read_bytes()
    draw = random.Random(0)
    at = range(len(data)) if os.environ.get("DOJOIR_BYTES") == "all" else sorted(
        {*range(64), *range(len(data) - 1200, len(data)), *(draw.randrange(len(data)) for _ in range(400))}
    )  # fmt: skip
    for place in at:
        other = bytearray(data)
        other[place] ^= draw.randrange(1, 256)
        with pytest.raises(dojoir.ArgumentError):
            unpacked(bytes(other), "x.zip")


def test_what_is_added_cut_off_or_put_before_is_found(zipped: Path, tmp_path: Path) -> None:
    data = zipped.read_bytes()
    for other in (data + b"\0", data[:-1], b"\0" + data, data[: len(data) // 2], b"", b"PK"):
        path = tmp_path / "other.zip"
        path.write_bytes(other)
        found = check(path)
        assert found.first is not None and found.first.name == "archive" and not found.ok
        assert "not-run" in statuses(found).values()


def archived(files: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as whole:
        for name, data in files.items():
            whole.writestr(zipfile.ZipInfo(name), data, how)
    return out.getvalue()


@pytest.mark.parametrize(
    "name",
    [
        "../run.json",
        "/etc/passwd",
        "a/trace.json",
        "..\\trace.json",
        "C:\\x",
        "trace.json/",
        "more.txt",
        "",
        "\u202e",
    ],
)
def test_a_path_that_is_none_of_a_bundle_is_refused(zipped: Path, tmp_path: Path, name: str) -> None:
    files = unpacked(zipped.read_bytes(), "x") | {name: b"x"}
    path = tmp_path / "x.zip"
    path.write_bytes(archived(files))
    found = check(path)
    assert found.first is not None and found.first.name == "archive"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["x.zip"]


def test_an_archive_of_other_files_is_refused(zipped: Path, tmp_path: Path) -> None:
    files = unpacked(zipped.read_bytes(), "x")
    path = tmp_path / "x.zip"
    for other, where in (
        ({**files, "chat.jsonl": b"{}\n"}, "files"),
        ({name: data for name, data in files.items() if name != "bench.json"}, "files"),
        ({**files, "bench.json": files["bench.json"] + b"\n"}, "files"),
        ({name: data for name, data in files.items() if name != "run.json"}, "archive"),
        ({**files, "run.json": b"{}"}, "archive"),
    ):
        path.write_bytes(packed(other))
        found = check(path)
        assert found.first is not None and found.first.name == where, found
    path.write_bytes(archived(files, zipfile.ZIP_DEFLATED))
    assert check(path).first is not None
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as whole, pytest.warns(UserWarning, match="Duplicate"):
        whole.writestr("run.json", files["run.json"])
        whole.writestr("run.json", files["run.json"])
    path.write_bytes(out.getvalue())
    assert "twice" in str(check(path))


def test_what_is_too_large_is_not_read(zipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_BYTES", 100)
    assert "more than 100 bytes" in str(check(zipped))
    monkeypatch.setattr(archive, "MOST_BYTES", -(1 << 21))
    with pytest.raises(dojoir.ArgumentError, match="bytes"):
        check(zipped)


def test_an_archive_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(dojoir.ArgumentError, match="cannot read"):
        check(tmp_path / "no.zip")


def test_a_run_that_was_stopped_is_not_exported(tmp_path: Path) -> None:
    with store_of(tmp_path) as database:
        writer = begun(tmp_path, traced(), database)
    with pytest.raises(dojoir.ArgumentError) as caught:
        export(read(writer.folder), tmp_path / "x.zip")
    assert caught.value.diagnostic.code == "no-answer" and not (tmp_path / "x.zip").exists()
