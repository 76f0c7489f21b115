"""What pyproject.toml cannot say: what is made when the package is built. Nothing needs it.

- The files of shell completion, from the options of `dojoir-opt` and `dojoir`; shells find them in `share` of the
  environment that dojoir is installed in.
- The tables of the grammars, which a first process would else compute for a tenth of a second.
- The pages of docs/, in the package, for `dojoir know`.
"""

import argparse
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
PROGRAMS = {"dojoir-opt": "dojoir.cli.options", "dojoir": "dojoir.verbs.options"}
"""The commands, each with the module whose `parser` reads its command line."""

FILES = {
    "bash": "share/bash-completion/completions/{}",
    "zsh": "share/zsh/site-functions/_{}",
    "tcsh": "share/tcsh/{}.csh",
}
"""Where each shell looks, below the prefix."""


def completions(folder: Path) -> dict[tuple[str, str], Path]:
    """Writes a file of completion for each command and shell into a folder; without shtab, none."""
    try:
        import shtab
    except ImportError:  # a build without isolation
        return {}
    made = {}
    sys.path.insert(0, str(ROOT))
    try:
        for program, module in PROGRAMS.items():
            for shell, place in FILES.items():
                reader = importlib.import_module(module).parser()
                _complete_files(reader, shtab.FILE)
                path = folder / place.format(program)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(shtab.complete(reader, shell=shell), encoding="utf-8")
                made[program, shell] = path
    finally:
        sys.path.remove(str(ROOT))
    return made


def _complete_files(reader: argparse.ArgumentParser, file: object) -> None:
    """Has the names of files completed wherever one is taken, in the parsers of verbs too."""
    for action in reader._actions:
        if action.metavar in ("FILE", "KERNEL"):
            action.complete = file
        if isinstance(action, argparse._SubParsersAction):
            action.help = None  # what --help shows in groups is hidden from it, and is to be completed all the same
            for inner in action.choices.values():
                _complete_files(inner, file)


class WithTables(build_py):
    """Builds the package, and the tables with it where Lark is at hand; not in a checkout, which keeps its own."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            tables(Path(self.build_lib).resolve())
            pages(Path(self.build_lib).resolve())


def pages(built: Path) -> None:
    """Puts the pages of docs/ into a package that is built; a checkout reads its own."""
    folder = built / "dojoir" / "know" / "pages"
    folder.mkdir(parents=True, exist_ok=True)
    for page in sorted((ROOT / "docs").glob("*.md")):
        shutil.copy(page, folder)


GRAMMARS = """
from dojoir.grammar import parser, pipeline, query
parser._grammar(), pipeline._parser(), query._parser()
"""


def tables(built: Path) -> None:
    """Puts the tables of all grammars into a package that is built: those that it keeps for itself."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(built), *sys.path]), "DOJOIR_CACHE": folder}
        made = subprocess.run([sys.executable, "-B", "-c", GRAMMARS], env=environment, cwd=folder, check=False)
        if made.returncode:
            print("the tables of the grammars were not made: each user's first process will make them")
        for table in Path(folder, "grammar").glob("*.tables"):
            shutil.copy(table, built / "dojoir" / "grammar")


if __name__ == "__main__":
    made = completions(ROOT / "build" / "completions")
    setup(
        cmdclass={"build_py": WithTables},
        data_files=[
            (str(Path(FILES[shell]).parent), [str(path.relative_to(ROOT))]) for (_, shell), path in made.items()
        ],
    )
