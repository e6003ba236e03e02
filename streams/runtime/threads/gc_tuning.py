"""The garbage collector's pace while an application runs.

A buffer of a hundred thousand rows is made of small tuples, which at the interpreter's default pace are looked at again
and again: a third of the cost of draining a cache. A higher threshold takes most of that away.
"""

from __future__ import annotations

import gc

__all__ = ["relax_collector", "restore_collector"]

RELAXED = (50_000, 20, 100)


def relax_collector() -> tuple[int, int, int] | None:
    """Raises the thresholds if nobody has chosen any; returns those to restore, or ``None``."""
    found = gc.get_threshold()
    if found[0] == 0 or found[0] > 2_000:
        return None
    gc.set_threshold(*RELAXED)
    return found


def restore_collector(thresholds: tuple[int, int, int] | None) -> None:
    """Undoes :func:`relax_collector`, unless somebody has chosen others since."""
    if thresholds is not None and gc.get_threshold()[0] == RELAXED[0]:
        gc.set_threshold(*thresholds)
