"""The entry of the command `streams`: Ctrl-C while it loads ends it without a traceback.

Loading takes some tenths of a second, so this comes before everything else of ours. It has a name that nobody else has,
since a package `streams` of somebody else may be there too (`streams.origin` says so). To import it changes how the
process takes Ctrl-C: only the script of the command and `python -m streams` do.
"""

from __future__ import annotations

import signal

__all__ = ["main"]

_interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if _interrupts:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> int:
    """Runs the command of this process; returns its exit status."""
    from streams.cli.main import main as command

    if not _interrupts:
        return command()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return command()
    finally:  # while Python ends nothing can be closed any more
        signal.signal(signal.SIGINT, signal.SIG_DFL)
