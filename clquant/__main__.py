"""`python -m clquant`: the command."""

import sys

from clquant.cli import main

sys.exit(main())
