"""What pyproject.toml cannot say: the files of shell completion, made from the options when the package is built.

`dojoir-opt` needs nothing for them; shells find them in `share` of the environment that dojoir is installed in.
"""

import sys
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
FILES = {
    "bash": "share/bash-completion/completions/dojoir-opt",
    "zsh": "share/zsh/site-functions/_dojoir-opt",
    "tcsh": "share/tcsh/dojoir-opt.csh",
}
"""Where each shell looks, below the prefix."""


def completions(folder: Path) -> dict[str, Path]:
    """Writes a file of completion for each shell into a folder; without shtab, none."""
    try:
        import shtab
    except ImportError:  # a build without isolation
        return {}
    sys.path.insert(0, str(ROOT))
    try:
        from dojoir.cli.options import parser
    finally:
        sys.path.remove(str(ROOT))
    made = {}
    for shell, place in FILES.items():
        reader = parser()
        for action in reader._actions:
            if action.metavar == "FILE":
                action.complete = shtab.FILE
        made[shell] = folder / place
        made[shell].parent.mkdir(parents=True, exist_ok=True)
        made[shell].write_text(shtab.complete(reader, shell=shell), encoding="utf-8")
    return made


if __name__ == "__main__":
    made = completions(ROOT / "build" / "completions")
    setup(
        data_files=[(str(Path(FILES[shell]).parent), [str(path.relative_to(ROOT))]) for shell, path in made.items()]
    )
