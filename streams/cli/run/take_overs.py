"""Ends what dead workers have left with the brokers, for their supervisor."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import TYPE_CHECKING

from processor_api.clock import Clock, SystemClock
from processor_api.errors import StreamsError

if TYPE_CHECKING:  # the supervisor needs the client only when a worker has died
    from state.directory.file_lock import HeldLock
    from streams.config import StreamsConfig
    from streams.kafka.ports import Admin

log = logging.getLogger("streams.cli.supervisor")

LONGEST_S = 10.0
"""So long a restart waits at most until its predecessor is taken over."""


class TakeOvers:
    """Ends what dead workers of an application have left with the brokers, each on a thread of its own.

    :param make_admin: makes the client for one of them; one of librdkafka by default.
    """

    def __init__(
        self, config: StreamsConfig, make_admin: Callable[[], Admin] | None = None, clock: Clock | None = None
    ) -> None:
        self._config = config
        self._make_admin = make_admin or self._librdkafka
        self._clock = clock or SystemClock()
        self._running: list[threading.Thread] = []
        self._prepared = False
        self._supervises: HeldLock | None = None

    @property
    def one_rebalance(self) -> bool:
        """Whether a worker that is restarted at once joins in the rebalance by which others get its tasks. In the
        classic protocol, it does; in the others, its tasks would move a second time while they move."""
        return self._config.group_protocol == "classic"

    def _librdkafka(self) -> Admin:
        from streams.config import clients as client_configs
        from streams.kafka.confluent.clients import ConfluentClients

        return ConfluentClients().admin(client_configs.admin(self._config, f"{self._config.application_id}-supervisor"))

    def prepare(self) -> None:
        """Imports what a take-over needs, on a thread of its own: that takes longer than the take-over. Says if another
        supervisor has workers in the same state directory. To be called when a worker runs."""
        if not self._prepared:
            self._prepared = True
            self._look_for_another()
            threading.Thread(target=self._import, name="take-over-imports", daemon=True).start()

    def begin(self, process: str, threads: int, reason: str, pid: int) -> threading.Thread:
        """Begins to take over a worker; returns the thread that does so.

        :param process: the id of its process at the brokers.
        :param threads: the highest number of a stream thread that it had.
        :param pid: the id of its process on this machine.
        """
        run = partial(self._take_over, process, threads, reason, pid)
        thread = threading.Thread(target=run, name="take-over", daemon=True)
        self._running = [one for one in self._running if one.is_alive()] + [thread]
        thread.start()
        return thread

    def wait(self) -> None:
        """Waits until all that were begun have ended, but not for long."""
        until = self._clock.monotonic() + LONGEST_S
        for thread in self._running:
            thread.join(max(0.0, until - self._clock.monotonic()))
        if self._supervises is not None:
            self._supervises.release()

    def _look_for_another(self) -> None:
        from state.directory.state_directory import StateDirectory

        config = self._config
        with suppress(StreamsError):  # workers say what is wrong with the directory
            found = StateDirectory.try_supervise(
                config.state_dir, config.application_id, group_write=config.allow_os_group_write_access
            )
            if isinstance(found, str):
                log.warning(
                    "another supervisor has workers of this application in the same state directory: the workers of"
                    " both share the tasks; if you did not mean that, stop one of the two",
                    extra={"supervisor": found, "state_dir": str(config.state_dir)},
                )
            else:
                self._supervises = found

    def _import(self) -> None:
        with suppress(StreamsError):  # a take-over logs it
            self._make_admin().close()

    def _take_over(self, process: str, threads: int, reason: str, pid: int) -> None:
        from streams.kafka.suspects import ProcessMembers, take_over

        try:
            with ExitStack() as held:
                if (successor := self._successor(process, pid, held)) is not None:
                    log.info(
                        "a dead worker is not taken over: another process has its place, and ends what it has left",
                        extra={"process_id": process, "reason": reason, "pid": successor},
                    )
                    return
                admin = held.enter_context(closing(self._make_admin()))
                take_over(admin, ProcessMembers.of(self._config, process, threads), reason, self._clock)
        except StreamsError as error:
            log.warning(
                "a dead worker is not taken over: its tasks wait until its session times out",
                extra={"reason": reason, "error": error.message},
            )

    def _successor(self, process: str, pid: int, held: ExitStack) -> int | None:
        """Returns the process that has the place of a dead one in the state directory already, as a worker of another
        supervisor may; else the place is held meanwhile, so that nobody has the same names at the brokers.

        A process that the dead one has forked may hold its lock: that is no successor.
        """
        from state.directory.state_directory import StateDirectory

        config = self._config
        place = (config.state_dir, config.application_id, int(process.rpartition("-")[2]))
        former = StateDirectory.former(*place, group_write=config.allow_os_group_write_access)
        if former is not None:
            held.enter_context(former[1])
            return None
        successor = StateDirectory.slot_taken_by(*place)
        return None if successor == pid else successor
