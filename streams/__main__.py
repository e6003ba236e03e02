"""Runs the command `streams` as `python -m streams`."""

import signal
import sys

__all__ = ["main"]


def main() -> int:
    """Runs the command of this process; returns its exit status."""
    interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interrupts:  # Ctrl-C while this loads ends it without a traceback
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from streams.cli.main import main as command

    if interrupts:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return command()


if __name__ == "__main__":
    sys.exit(main())
