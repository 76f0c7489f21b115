"""`python -m dojoir.verbs` is `dojoir`."""

import sys

from dojoir.verbs import main

sys.exit(main())
