"""A language server for kernels: errors with their codes, words explained where the pointer is, formatting.

`of_text` and `hover` answer for a text, with plain data, and need no package; `server` puts them on the Language
Server Protocol (`dojoir lsp`, extra `editor`; `docs/editors.md`)."""
