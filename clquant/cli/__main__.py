"""`python -m clquant.cli`: the command without an installed script."""

import sys

from clquant.cli import main

sys.exit(main())
