"""Runs a command several times while every core is busy: ``python -m tools.busy 3 pytest tests/app``.

It finds tests that pass on an idle machine, but wait too short a time on a busy one. Each run prints its result; the
first that fails does not end the others.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Runs the command, and returns how many runs failed.

    :param arguments: the number of runs, then the command.
    """
    times, *command = arguments
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        codes = []
        for number in range(1, int(times) + 1):
            codes.append(subprocess.run(command, check=False).returncode)
            print(f"run {number} of {times}, all cores busy: ended with {codes[-1]}", flush=True)
    finally:
        for process in load:
            process.kill()
            process.wait()
    return sum(code != 0 for code in codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
