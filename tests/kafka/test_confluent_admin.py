"""The admin client of librdkafka without a broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from processor_api.errors import RetryableError
from processor_api.task_id import TopicPartition
from streams.kafka.confluent.admin import ConfluentAdmin
from streams.kafka.ports import NewTopic

CALLS: dict[str, Callable[[ConfluentAdmin], object]] = {
    "create topic 'new'": lambda admin: admin.create_topics([NewTopic(name="new", partitions=1)]),
    "delete topic 'old'": lambda admin: admin.delete_topics(["old"]),
    "delete records": lambda admin: admin.delete_records({TopicPartition("t", 0): 1}),
    "describe topic 't'": lambda admin: admin.topic_ids(["t"]),
    "describe the group": lambda admin: admin.group_members("g"),
    "reach a broker": lambda admin: admin.topics(),
}


@pytest.mark.parametrize("what", CALLS)
def test_no_answer_in_time_is_worth_another_try(what: str) -> None:
    """Was that a bare TimeoutError, which nobody expects, ended the application."""
    admin = ConfluentAdmin({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=0.05)
    with pytest.raises(RetryableError, match=f"cannot {what}.*within 0.05 s"):
        CALLS[what](admin)
    admin.close()
