"""`python -m streams` is the command `streams`."""

import sys

from streams.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
