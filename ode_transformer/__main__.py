"""``python -m ode_transformer`` is the command ``ode-transformer``."""

import sys

from .experiments.cli import main

if __name__ == "__main__":
    sys.exit(main())
