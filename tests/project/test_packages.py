"""The list of packages in pyproject.toml is what an installation has: each folder of the tree, and no other."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_folder_with_modules_is_installed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = {name.removeprefix("dojoir.") for name in settings["tool"]["setuptools"]["packages"]}
    found = set()
    for root in ("dojoir", "grammar", "passes", "codegen", "runtime"):
        for file in (ROOT / root).rglob("__init__.py"):
            if not file.parent.is_symlink() and not any(part.is_symlink() for part in file.parents):
                found.add(".".join(file.parent.relative_to(ROOT).parts).removeprefix("dojoir."))
    assert found == listed, "and an installation ends where a folder is listed that is gone"
