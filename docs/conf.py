"""How the site of the documentation is built: `pip install '.[docs]' && python -m sphinx -W docs build/site`.

The pages are Markdown; the reference of the API comes from the docstrings, that of the moves from
`dojoir_pages.py` beside this file. `-W` makes a broken link between pages an error.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

project = "dojoir"
author = "the authors of dojoir"
copyright = author
extensions = ["myst_parser", "sphinx.ext.autodoc", "dojoir_pages", "kernel_colours"]
html_theme = "furo"
html_title = "dojoir"
html_static_path = ["static"]
html_css_files = ["wide.css"]
default_role = "literal"  # in docstrings, `x` is code
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
exclude_patterns = ["build"]
nitpicky = True  # a link to what is not there is a warning, and `-W` makes that an error
nitpick_ignore_regex = [("py:.*", ".*")]  # types in signatures: Python itself has found those
