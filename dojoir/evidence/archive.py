"""A bundle as one file, the same bytes each time, and what a stranger asks of such a file.

Nothing of it is executed or written to disk, and no compiler is needed: the moves are proved again from their
texts. Every byte counts, for the file must be the one that would be written of what is in it.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import dojoir
from dojoir.evidence import bundle
from dojoir.evidence.bundle import Said
from dojoir.evidence.bundle_reading import Bundle, decoded, read_bytes, read_run
from dojoir.evidence.claims import BundleProof, Prover
from dojoir.support.files import write_file

MOST_BYTES = 1 << 30
"""How many bytes all files of an archive may have together."""

WHEN = (1980, 1, 1, 0, 0, 0)
MODE = 0o100644 << 16


def export(given: Bundle, path: Path) -> Path:
    """Writes a bundle as an archive, whole or not at all. Raises ArgumentError: `no-answer` for a run that has not
    ended, `changed-run` for one whose files are not those that its record lists, `cannot-write`."""
    run = given.run
    if run.status not in ("done", "failed"):
        message = f"{run.name} is {run.status}: resume it to its end before it is exported"
        raise dojoir.ArgumentError(message, "no-answer")
    wrong = given.wrong_files()
    if wrong:
        raise dojoir.ArgumentError(f"{run.name} is not what its record says: {wrong[0]}", "changed-run")
    names = [bundle.RUN, *(one.name for one in run.files)]
    write_file(path, packed({name: (given.folder / name).read_bytes() for name in names}))
    return path


def packed(files: Mapping[str, bytes]) -> bytes:
    """Files as an archive, the same bytes for the same files: stored as they are, in the order of their names."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            about = zipfile.ZipInfo(name, WHEN)
            about.create_system, about.external_attr = 3, MODE
            archive.writestr(about, files[name])
    return out.getvalue()


def unpacked(data: bytes, name: str) -> dict[str, bytes]:
    """The files of an archive, by their names. Raises ArgumentError, `bad-archive`, for what is none, for a name
    that a bundle does not have (one that leads out of its folder among them), and for one byte that is another."""

    def refuse(what: str) -> dojoir.ArgumentError:
        return dojoir.ArgumentError(f"{name}: {what}", "bad-archive")

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            for one in infos:
                if one.filename not in (bundle.RUN, *bundle.FILES):
                    raise refuse(f"{one.filename[:80]!r} is no file of a bundle")
                if (
                    one.compress_type != zipfile.ZIP_STORED
                    or one.flag_bits & 1
                    or one.file_size != one.compress_size
                ):
                    raise refuse(f"{one.filename} is not stored as it is")
            if sum(one.file_size for one in infos) > MOST_BYTES:
                raise refuse(f"its files have more than {MOST_BYTES} bytes")
            names = [one.filename for one in infos]
            twice = next((one for one in names if names.count(one) > 1), None)
            if twice is not None:
                raise refuse(f"it has {twice} twice")
            files = {one.filename: archive.read(one) for one in infos}
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError, RuntimeError) as error:
        what = "give what dojoir export wrote; dojoir-opt reads texts of kernels"
        raise refuse(f"it is no whole archive ({error}): {what}") from None
    if bundle.RUN not in files:
        raise refuse(f"it has no {bundle.RUN}")
    if packed(files) != data:
        raise refuse("its bytes are not those that its files would be packed to: some were changed or added")
    return files


def check(path: Path) -> BundleProof:
    """Checks an archive without trusting its author: that it is whole, and every claim by its files. Raises
    ArgumentError where it cannot be read at all."""
    data = read_bytes(path, MOST_BYTES + (1 << 20))
    found: list[Bundle] = []

    def archive() -> Said:
        files = unpacked(data, path.name)
        run = read_run(decoded(files[bundle.RUN], bundle.RUN), bundle.RUN)
        found.append(Bundle(Path(path.name), run, files))
        return "pass", f"{len(files)} files, {run.verb} of {run.kernel}, {run.status}"

    prover = Prover()
    prover.ask("archive", archive)
    prover.ask_claims(found[0] if found else None)
    return BundleProof(found[0].run.name if found else path.name, tuple(prover.found))
