"""``python -m stepscope`` is the command ``stepscope``."""

import sys

from stepscope.cli import main

sys.exit(main())
