"""How large the batches of producers may be, and what is done about one that was refused (semantics 151)."""

from __future__ import annotations

from typing import Any

import pytest

from processor_api.errors import AuthorizationError, RetryableError
from processor_api.handlers import ProducerRecord
from streams.kafka.producing.batch_limits import DEFAULT_BYTES, OVERHEAD, TopicBatchLimits
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

OUT, OTHER = "out", "other"


class Asked:
    """An admin client that counts its requests."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._admin = EmbeddedClients(broker).admin({})
        self.requests: list[list[str]] = []
        self.failure: Exception | None = None
        self.hidden: set[str] = set()

    def topic_settings(self, names: Any) -> dict[str, dict[str, str]]:
        self.requests.append(sorted(names))
        if self.failure is not None:
            raise self.failure
        return {name: one for name, one in self._admin.topic_settings(names).items() if name not in self.hidden}


class Kit:
    def __init__(self) -> None:
        self.broker = EmbeddedBroker()
        self.broker.create_topic(OUT, 1, {"max.message.bytes": "2000"})
        self.broker.create_topic(OTHER, 1)
        self.admin: Any = Asked(self.broker)
        self.limits = TopicBatchLimits(self.admin)

    def lower(self, topic: str, limit: int) -> None:
        self.broker.delete_topic(topic)
        self.broker.create_topic(topic, 1, {"max.message.bytes": str(limit)})


def record(size: int, topic: str = OUT, header: int = 0) -> ProducerRecord:
    return ProducerRecord(topic, b"k", bytes(size - 1), headers=[("h", bytes(header - 1))] if header else None)


def test_batches_are_no_larger_than_the_smallest_limit() -> None:
    """One request for all topics, once; a setting that is smaller stays."""
    kit = Kit()
    assert kit.limits.for_producer({}, [OTHER]).bytes == DEFAULT_BYTES
    assert kit.limits.for_producer({}, [OUT, OTHER, "missing"]).bytes == 2000
    assert kit.limits.for_producer({"batch.size": 500}, [OUT]).bytes == 500
    assert kit.limits.for_producer({"batch.size": 5_000_000}, []).bytes == 2000
    assert kit.admin.requests == [[OTHER], ["missing", OUT]]


@pytest.mark.parametrize("failure", [RetryableError("no broker"), AuthorizationError("no right")])
def test_limits_that_cannot_be_read_change_nothing(failure: Exception) -> None:
    kit = Kit()
    kit.admin.failure = failure
    assert kit.limits.for_producer({}, [OUT]).bytes == DEFAULT_BYTES


def test_a_record_that_is_too_large_by_itself_is_refused_for_good() -> None:
    """Its key and headers count; no producer with smaller batches could send it."""
    kit = Kit()
    batches = kit.limits.for_producer({}, [OUT])
    assert not batches.fits_alone(record(2000 - OVERHEAD + 1))
    assert not batches.fits_alone(record(10, header=2000 - OVERHEAD))
    kit.limits.for_producer({}, [OUT])
    assert kit.admin.requests == [[OUT]]


def test_a_limit_that_was_lowered_is_read_again() -> None:
    """By the next producer; a former one of another thread is told to be replaced too."""
    kit = Kit()
    first, second = (kit.limits.for_producer({}, [OUT]) for _ in range(2))
    kit.lower(OUT, 500)
    assert first.fits_alone(record(200))
    assert (third := kit.limits.for_producer({}, [OUT])).bytes == 500
    assert second.fits_alone(record(200))
    assert kit.limits.for_producer({}, [OUT]).bytes == 500
    assert kit.admin.requests == [[OUT], [OUT]]
    assert not third.fits_alone(record(500))


def test_a_record_that_is_refused_with_the_limit_just_read_is_refused_for_good() -> None:
    """As by a broker that compresses it again; the limit may be lowered again later."""
    kit = Kit()
    assert kit.limits.for_producer({}, [OUT]).fits_alone(record(200))
    again = kit.limits.for_producer({}, [OUT])
    assert not again.fits_alone(record(200))
    assert not again.fits_alone(record(300))
    kit.lower(OUT, 500)
    assert again.fits_alone(record(200))
    assert kit.limits.for_producer({}, [OUT]).bytes == 500


def test_a_topic_that_does_not_show_its_limit_gets_smaller_and_smaller_batches() -> None:
    kit = Kit()
    kit.admin.hidden = {OUT}
    sizes, batches = [], kit.limits.for_producer({}, [OUT])
    while batches.fits_alone(record(1000)):
        sizes.append(batches.bytes)
        batches = kit.limits.for_producer({}, [OUT])
    assert sizes == [DEFAULT_BYTES >> number for number in range(10)]
    assert batches.bytes < 1000 + OVERHEAD  # the record was alone in its batch
