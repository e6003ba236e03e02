"""The thresholds of the garbage collector while an application runs.

A buffer of a hundred thousand rows is made of small tuples. By the interpreter's default thresholds they are examined
again and again, which is a third of the cost of draining a cache. Higher thresholds avoid most of that.
"""

from __future__ import annotations

import gc

RELAXED = (50_000, 20, 100)


def relax_collector() -> tuple[int, int, int] | None:
    """Raises the thresholds unless the program has chosen its own; returns those to restore, or ``None``."""
    found = gc.get_threshold()
    # No version of Python begins with more than 2,000, and 0 is a collector that was turned off.
    if found[0] == 0 or found[0] > 2_000:
        return None
    gc.set_threshold(*RELAXED)
    return found


def restore_collector(thresholds: tuple[int, int, int] | None) -> None:
    """Undoes :func:`relax_collector`, unless the program has chosen other thresholds since."""
    if thresholds is not None and gc.get_threshold()[0] == RELAXED[0]:
        gc.set_threshold(*thresholds)
