"""`python -m clquant`: the command."""

import sys

from clquant.start import main

sys.exit(main())
