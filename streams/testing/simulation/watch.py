"""Finds user code that reads real time, sleeps or starts threads, which no seed could repeat."""

from __future__ import annotations

import datetime
import sys
import time
from types import FrameType
from typing import Any

_OURS = {"streams", "state", "dsl", "processor_api", "streams_pytest"}
_FREE = {"warnings", "traceback", "linecache"}
"""Modules that may read the time for their own use, besides those that log."""
_CLOCKS = {
    time.time, time.time_ns, time.monotonic, time.monotonic_ns, time.perf_counter, time.perf_counter_ns, time.sleep,
    time.gmtime, time.localtime,
}  # fmt: skip
_HINTS = {
    "sleep": "do not wait in a processor; schedule a punctuation",
    "start_new_thread": "do not start threads in a processor",
    "start_joinable_thread": "do not start threads in a processor",
}


class RealWorld(Exception):
    """Raised when a topology reads real time, sleeps or starts threads."""


class Watch:
    """A profile function (`sys.setprofile`) for the threads of one run; the first thing found is kept."""

    def __init__(self) -> None:
        self.seen: RealWorld | None = None

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event != "c_call" or self.seen is not None:
            return
        name = getattr(arg, "__name__", "")
        try:
            known = arg in _CLOCKS
        except TypeError:  # an object without a hash is none of them
            known = False
        if known or name in ("start_new_thread", "start_joinable_thread") or _is_now(name, arg):
            self._found(frame, name)

    def _found(self, frame: FrameType | None, name: str) -> None:
        while frame is not None:
            module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if module in _OURS or module in _FREE or "log" in module:
                return
            if module not in sys.stdlib_module_names:
                hint = _HINTS.get(name, "take the time from the record, or from context.current_system_time_ms()")
                place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                self.seen = RealWorld(
                    f"{frame.f_code.co_qualname} calls {name}() at {place}, so that no seed can be repeated: {hint}"
                )
                return
            frame = frame.f_back


def _is_now(name: str, function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    return name in ("now", "utcnow", "today") and isinstance(owner, type) and issubclass(owner, datetime.date)
