"""Ends what a process has left with the brokers that is dead, or seems to be.

Otherwise the brokers wait for it: with its tasks, until its session ends; with its open transaction, until that times
out, before which readers of committed records see nothing behind it, also not of other members.

It is harmless if the process lives: its transaction is rolled back as after any other fence, and its threads join the
group again. So nobody has to be sure, and two may do it at once.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from processor_api.clock import Clock
from processor_api.errors import StreamsError
from streams.config import StreamsConfig
from streams.config import clients as client_configs
from streams.kafka.membership.group_picture import endpoint_of, place_of
from streams.kafka.own_names import PROCESS_FORM, thread_id
from streams.kafka.ports import Admin, GroupMember

log = logging.getLogger("streams.membership")

_THREAD_NUMBER = re.compile(r"-StreamThread-(\d+)-")


@dataclass(frozen=True, kw_only=True)
class ProcessMembers:
    """The names by which the brokers know the stream threads of one process."""

    application: str
    process: str
    """The id of the process: its state directory and its slot there."""
    threads: int
    """The highest number of a stream thread that it has or had."""
    exactly_once: bool
    stays: bool
    """Whether its members stay in the group for their session, because a ``group.instance.id`` is set."""

    @classmethod
    def of(cls, config: StreamsConfig, process: str, threads: int) -> ProcessMembers:
        """Returns those of a process of an application."""
        return cls(
            application=config.application_id,
            process=process,
            threads=threads,
            exactly_once=config.exactly_once,
            stays=client_configs.group_instance_id(config) is not None,
        )

    def transactional_ids(self) -> list[str]:
        """Returns the transactional ids of its threads; none at least once."""
        numbers = range(1, self.threads + 1) if self.exactly_once else ()
        return [thread_id(self.application, self.process, number) for number in numbers]

    def has(self, member: GroupMember) -> bool:
        """Returns whether a member of the group is one of its threads."""
        names = {thread_id(self.application, self.process, number) for number in range(1, self.threads + 1)}
        return member.process_id == self.process or member.instance_id in names


def processes_at(config: StreamsConfig, members: Collection[GroupMember]) -> dict[str, tuple[ProcessMembers, ...]]:
    """Returns the processes of an application by the addresses at which they answer, as their members tell them.

    An address that processes of several state directories tell is left out: each machine has its own of that name.
    """
    threads: dict[tuple[str, str], int] = {}
    for member in members:
        endpoint, thread = endpoint_of(member.client_id), _THREAD_NUMBER.search(member.client_id)
        process = member.process_id or place_of(member).process
        if endpoint is not None and thread is not None and PROCESS_FORM.fullmatch(process):
            known = threads.get((endpoint, process), 0)
            threads[endpoint, process] = max(known, int(thread[1]))
    found: dict[str, tuple[ProcessMembers, ...]] = {}
    for (endpoint, process), number in sorted(threads.items()):
        found[endpoint] = (*found.get(endpoint, ()), ProcessMembers.of(config, process, number))
    return {one: all_ for one, all_ in found.items() if len({each.process.rpartition("-")[0] for each in all_}) == 1}


def end_transactions(admin: Admin, former: ProcessMembers) -> None:
    """Ends the open transactions of a process that has ended, before another one takes its names.

    What fails is left to the producers of that, and to the time-outs of the brokers.
    """
    try:
        for name in former.transactional_ids():
            admin.fence_producer(name)
    except StreamsError as error:
        log.debug("transactions of the former process are left to the producers", extra={"error": error.message})


def take_over(admin: Admin, suspect: ProcessMembers, reason: str, clock: Clock) -> tuple[list[str], list[str]]:
    """Ends the open transactions of a process and removes its members from the group, so that others get its tasks.

    The transactions come first: others can read committed records again, before the group decides who owns the tasks.
    What fails is logged, and left to the time-outs of the brokers.

    :param reason: why it seems dead, for the log.
    :returns: the transactional ids whose transactions ended, and the ids of the members that were removed.
    """
    begun = clock.monotonic()
    failures: list[str] = []

    def tried(do: Callable[[], object]) -> bool:
        try:
            do()
        except StreamsError as error:
            failures.append(error.message)
            return False
        return True

    ended = [name for name in suspect.transactional_ids() if tried(lambda name=name: admin.fence_producer(name))]  # type: ignore[misc]
    removed: list[str] = []

    def remove() -> None:
        found = [one for one in admin.group_members(suspect.application) if suspect.has(one)]
        if found:
            admin.remove_members(suspect.application, found)
        removed.extend(one.member_id for one in found)

    if not suspect.stays:
        tried(remove)
    if ended or removed:
        log.info(
            "a process is taken over: its transactions are ended and its members leave the group",
            extra={
                "process_id": suspect.process,
                "reason": reason,
                "transactional_ids": ", ".join(ended),
                "members": ", ".join(removed),
                "took_ms": round((clock.monotonic() - begun) * 1000),
            },
        )
    if failures:
        log.warning(
            "not all of a dead process could be ended; the rest waits until its session or transaction times out",
            extra={"process_id": suspect.process, "error": "; ".join(failures)},
        )
    return ended, removed
