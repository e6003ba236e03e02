"""Handles SIGTERM and SIGINT (Ctrl-C) as requests to stop."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def on_stop_signals(handler: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Calls ``handler`` for each stop signal, as a context manager on the main thread; on any other thread, nothing is
    changed.

    A child that is forked has no application to close: SIGTERM does there what it did before, as the pools of
    `multiprocessing` expect. Ctrl-C, which a terminal sends to the child too, does nothing there: the parent may need
    the child for its last records.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    process = os.getpid()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if os.getpid() == process:
            handler(signal.Signals(number))
        elif number != signal.SIGINT:
            signal.signal(number, before[signal.Signals(number)])
            os.kill(os.getpid(), number)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
