"""Colours for the text of kernels: the Pygments lexer, by the names `dojo` and `*.dojo` wherever that is used."""

from __future__ import annotations

from dojoir.ir.lexer import DojoLexer

__all__ = ["DojoLexer"]
