"""The stub of `dojoir`, made from the table of its public names: `python tests/helpers/stub.py` writes it."""

from __future__ import annotations

from folders import ROOT

import dojoir

STUB = ROOT / "dojoir" / "__init__.pyi"


def stub() -> str:
    """The text of `dojoir/__init__.pyi`: an import for each public name, and the list of them."""
    lines = [
        '"""The public names, for type checkers and editors. Made from the table in `__init__.py`, by',
        '`python tests/helpers/stub.py`."""',
        "",
    ]
    imports = [(module.rpartition(".")[0], module.rpartition(".")[2]) for module in dojoir.MODULES.split()]
    tables = (dojoir.PUBLIC, dojoir.MOVED)  # those that moved are there for a version
    imports += [(module, name) for table in tables for module, names in table.items() for name in names.split()]
    for module, name in sorted(imports):
        lines.append(f"from dojoir{'.' if module else ''}{module} import {name} as {name}")
    lines += [
        "",
        "PUBLIC: dict[str, str]",
        "MOVED: dict[str, str]",
        "MODULES: str",
        "__version__: str",
        "__all__ = [",
    ]
    lines += [f'    "{name}",' for name in sorted(dojoir.__all__)]
    return "\n".join([*lines, "]", "", "def __dir__() -> list[str]: ..."]) + "\n"


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
