"""Transactions around the steps that belong together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from processor_api.errors import StreamsError
from streams.kafka.ports import Producer


@contextmanager
def transaction(producer: Producer) -> Iterator[None]:
    """Runs steps in one transaction: commits it after the last step, and aborts it if a step fails. A context manager.

    If the abort fails too, the error of the step is raised. The next producer of the transactional id ends the
    transaction then, or the broker does when it times out.

    :param producer: a transactional producer without an open transaction.
    :raises TransactionAborted: if the transaction cannot be committed.
    :raises TaskMigratedError: if the producer is fenced.
    """
    producer.begin_transaction()
    try:
        yield
        producer.commit_transaction()
    except BaseException:
        try:
            producer.abort_transaction()
        except StreamsError:
            pass
        raise
