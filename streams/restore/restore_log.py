"""Logs a restore as two lines, its begin and its end, whatever the number of stores."""

from __future__ import annotations

import logging
from collections.abc import Collection

log = logging.getLogger("streams.restore")


class RestoreLog:
    """Counts what is restored from the first changelog that is begun until all are done. Used by one thread.

    :param what: what is restored, for the lines.
    """

    def __init__(self, what: str = "stores") -> None:
        self._what = what
        self._started_at: float | None = None
        self._changelogs = self._records = 0

    def begin(self, remaining: Collection[int], now: float) -> None:
        """Logs that changelogs are read.

        :param remaining: the records of each that are still to be read; a changelog without any is not counted.
        :param now: the monotonic time, in seconds.
        """
        wanted = [records for records in remaining if records]
        if not wanted:
            return
        if self._started_at is None:
            self._started_at, self._changelogs, self._records = now, 0, 0
        self._changelogs += len(wanted)
        log.info("restoring %s", self._what, extra={"changelogs": len(wanted), "records": sum(wanted)})

    def restored(self, records: int) -> None:
        """Counts records."""
        self._records += records

    def end(self, now: float) -> None:
        """Logs that all are done, if any had records to read."""
        if self._started_at is not None:
            elapsed_ms = int((now - self._started_at) * 1000)
            counts = {"changelogs": self._changelogs, "records": self._records, "elapsed_ms": elapsed_ms}
            log.info("%s restored", self._what, extra=counts)
        self._started_at = None

    def stop(self) -> None:
        """Forgets what was begun and will not be done."""
        self._started_at = None
