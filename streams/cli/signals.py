"""Handles SIGTERM and SIGINT (Ctrl-C) as requests to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["on_stop_signals"]


@contextmanager
def on_stop_signals(handler: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Calls ``handler`` for each stop signal, as a context manager on the main thread; on any other thread, nothing is
    changed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, _frame: FrameType | None) -> None:
        handler(signal.Signals(number))

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
