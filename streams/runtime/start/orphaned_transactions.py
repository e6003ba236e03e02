"""Ends the open transactions of threads that are no longer in the group, so others need not wait for them.

A process that dies leaves its transaction open until the broker ends it: after ``transaction.timeout.ms``, and up to
ten seconds later, since the broker looks every ten (``transaction.abort.timed.out.transaction.cleanup.interval.ms``).
Meanwhile readers of committed records wait before it, and so do tasks whose changelogs it is in.

A thread has its transactional id as its instance id in the group, so the group says which of them live. A thread that
is not a member cannot commit what it has written: each transaction carries offsets, which the group refuses
(semantics 142). So nothing is lost by ending its transaction at once.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from processor_api.clock import Clock
from processor_api.errors import StreamsError
from streams.kafka.own_names import thread_id_form
from streams.kafka.ports import Admin, GroupMember

log = logging.getLogger("streams.restore")

CHECK_INTERVAL_S = 1.0


def orphans(application: str, open_ids: Collection[str], members: Collection[GroupMember], asking: str) -> list[str]:
    """Returns the transactional ids of an application that belong to no member of its group.

    None does if a member has an instance id of another form: then it is not known which ids belong to members. Nor does
    one if the member that asks is not described: then others may be missing, too, as in a group of another protocol.

    :param asking: the instance id of the member that asks.
    """
    own = thread_id_form(application)
    # A member without an instance id is one of another form, too.
    living = {member.instance_id or "" for member in members}
    if asking not in living or not all(own.fullmatch(name) for name in living):
        return []
    return sorted(name for name in open_ids if own.fullmatch(name) and name not in living)


class OrphanedTransactions:
    """Ends orphaned transactions for one stream thread that opens tasks. What it cannot do is left to the time-out."""

    def __init__(self, application: str, instance_id: str, admin: Admin, clock: Clock) -> None:
        self._application = application
        self._instance_id = instance_id
        self._admin = admin
        self._clock = clock
        self._next_check = 0.0

    def end(self) -> None:
        """Ends those that are open now; does nothing for a time after it was called."""
        now = self._clock.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + CHECK_INTERVAL_S
        try:
            # The ids first: a thread that joins and begins in between is a member then, and no orphan.
            open_ids = self._admin.open_transactions()
            members = self._admin.group_members(self._application) if open_ids else []
            for name in orphans(self._application, open_ids, members, self._instance_id):
                self._admin.fence_producer(name)
                log.info("the open transaction of a thread that has left the group is ended", extra={"id": name})
        except StreamsError as error:
            log.debug("open transactions are left to their time-out", extra={"error": str(error)})
