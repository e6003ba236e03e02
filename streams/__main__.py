"""Runs the command `streams` as `python -m streams`."""

import sys


def main() -> int:
    """Runs the command of this process; returns its exit status."""
    from streams_command import main as command

    return command()


if __name__ == "__main__":
    sys.exit(main())
