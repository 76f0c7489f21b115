"""`dojoir lsp`: a language server for editors, on stdin and stdout."""

from __future__ import annotations

import argparse

from dojoir.cli.report import FINE


def lsp(options: argparse.Namespace) -> int:
    """Serves one editor until it ends. Raises DojoError."""
    from dojoir.editor.server import serve

    serve()
    return FINE
