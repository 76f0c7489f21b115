"""`python -m dojoir.cli` is `dojoir-opt`."""

import sys

from dojoir.cli import main

sys.exit(main())
