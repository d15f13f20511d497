# PYTHON_ARGCOMPLETE_OK
"""`python -m clquant`: the command."""

import sys

from clquant.start import main

sys.exit(main())
